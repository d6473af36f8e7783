// Argument structs of other versions, on fake GPUs. For every operator a caller that was compiled against a shorter
// struct gets defaults for the missing members, and a caller with a longer struct is refused only if it uses what the
// library does not know.
#include <gmock/gmock.h>
#include <cubit/cubit.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <string>
#include <vector>

#include "ops/operator.hpp"
#include "tests/capi/allocations.hpp"
#include "tests/capi/older_arguments.hpp"
#include "tests/capi/prepared_cache.hpp"

namespace cubit {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

alignas(256) std::array<char, 4096> g_memory;  // device memory, as far as a fake GPU cares

cubit_kv_cache cache_of(std::int64_t row) {
  cubit_kv_cache cache{};
  cache.key = cache.value = g_memory.data();
  for (auto* strides : {&cache.key_strides, &cache.value_strides}) {
    (*strides)[0] = 16 * row;
    (*strides)[1] = (*strides)[2] = row;
  }
  cache.kv_heads = 1;
  cache.max_length = 16;
  return cache;
}

class ArgumentSizes : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::plug_in(1);
    driver_.create_context(0);
  }
  Kernel kernel(const std::string& descriptor) {
    cache_.add(descriptor);
    return Engine({.cache_dir = cache_.path(), .nvrtc_path = fake::kNoCompiler, .compile = CUBIT_COMPILE_NEVER})
        .get(descriptor);
  }
  /// Asks for the workspace and launches. Returns the error, or "".
  template <class Struct>
  std::string launch(const Kernel& kernel, const Struct& arguments) {
    try {
      workspace_.resize(std::max(workspace_.size(), kernel.workspace(arguments) / sizeof(Unit) + 1));
      kernel.launch(arguments, {.workspace = workspace_.data(), .workspace_bytes = workspace_.size() * sizeof(Unit)});
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  /// The same arguments with the size and content of a newer caller's struct, whose last byte is `last`.
  template <class Struct>
  std::string launch_newer(const Kernel& kernel, const Struct& arguments, char last) {
    struct {
      Struct known;
      char unknown[24];
    } newer{};
    newer.known = arguments;
    newer.known.size = sizeof newer;
    newer.unknown[23] = last;
    return launch(kernel, newer);
  }
  /// A new member in tail padding would not change the struct's size, so the library would read the padding of older
  /// callers. Clang 14 cannot tell padding.
  template <class Struct>
  static void expect_no_tail_padding() {
#if __has_builtin(__builtin_clear_padding)
    alignas(Struct) std::array<unsigned char, sizeof(Struct)> bytes;
    bytes.fill(0xFF);
    __builtin_clear_padding(reinterpret_cast<Struct*>(bytes.data()));
    EXPECT_EQ(bytes.back(), 0xFF) << "the struct ends with padding: fill it with a member `int32_t reserved`";
#endif
  }
  /// A struct as long as the known one launches; a longer one launches if what the library does not know is zero.
  template <class Struct>
  void expect_newer(const Kernel& kernel, const Struct& arguments, const std::string& name) {
    expect_no_tail_padding<Struct>();
    EXPECT_EQ(launch(kernel, arguments), "");
    const std::size_t before = driver_.launches().size();
    EXPECT_EQ(launch_newer(kernel, arguments, 0), "");
    EXPECT_THAT(driver_.launches(), SizeIs(before + 1));
    EXPECT_THAT(launch_newer(kernel, arguments, 1),
                HasSubstr(name + ".size = " + std::to_string(sizeof(Struct) + 24) + ": this library's struct has " +
                          std::to_string(sizeof(Struct)) + " bytes, and the bytes behind them are not zero"));
  }
  /// The first bytes of the whole struct, as an older caller has them.
  template <class Old, class Struct>
  static Old older(const Struct& arguments) {
    Old old;
    std::memcpy(&old, &arguments, sizeof old);
    old.size = sizeof old;
    return old;
  }

  struct alignas(256) Unit {
    char bytes[256];
  };
  fake::PreparedCache cache_;
  fake::Controls& driver_ = fake::controls();
  std::vector<Unit> workspace_;
};

cubit_gqa_decode_arguments attention() {
  cubit_gqa_decode_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.query = arguments.key = arguments.value = g_memory.data();
  arguments.output = g_memory.data();
  arguments.query_strides[0] = arguments.output_strides[0] = 8 * 128;
  arguments.query_strides[1] = arguments.output_strides[1] = 128;
  for (auto* strides : {&arguments.key_strides, &arguments.value_strides}) {
    (*strides)[0] = 64 * 128;
    (*strides)[1] = (*strides)[2] = 128;
  }
  arguments.batch = 2;
  arguments.kv_heads = 1;
  arguments.max_length = 64;
  arguments.softmax_scale = 0.1F;
  return arguments;
}

TEST_F(ArgumentSizes, GqaDecode) {
  const Kernel made = kernel("gqa_decode:heads_per_kv=8");
  expect_newer(made, attention(), "cubit_gqa_decode_arguments");
  EXPECT_EQ(launch(made, older<OldGqaDecode>(attention())), "");
  auto windowed = older<OldGqaDecode>(attention());
  EXPECT_THAT(launch(kernel("gqa_decode:heads_per_kv=8,window=true"), windowed), HasSubstr("window = 0"));
}

TEST_F(ArgumentSizes, KvAppend) {
  cubit_kv_append_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.key = arguments.value = g_memory.data();
  for (auto* strides : {&arguments.key_strides, &arguments.value_strides})
    (*strides)[0] = (*strides)[1] = (*strides)[2] = 128;
  arguments.cache = cache_of(128);
  arguments.batch = arguments.tokens = 1;
  expect_newer(kernel("kv_append"), arguments, "cubit_kv_append_arguments");
  EXPECT_EQ(launch(kernel("kv_append"), older<OldKvAppend>(arguments)), "");
  EXPECT_THAT(launch(kernel("kv_append:kv=int8_split"), older<OldKvAppend>(arguments)), HasSubstr("scales.key = NULL"));
}

TEST_F(ArgumentSizes, KvGather) {
  cubit_kv_gather_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.key = arguments.value = g_memory.data();
  for (auto* strides : {&arguments.key_strides, &arguments.value_strides})
    (*strides)[0] = (*strides)[1] = (*strides)[2] = 128;
  arguments.cache = cache_of(128);
  arguments.batch = arguments.tokens = 1;
  expect_newer(kernel("kv_gather"), arguments, "cubit_kv_gather_arguments");
  EXPECT_EQ(launch(kernel("kv_gather"), older<OldKvGather>(arguments)), "");
  EXPECT_THAT(launch(kernel("kv_gather:kv=int8_split"), older<OldKvGather>(arguments)), HasSubstr("scales.key = NULL"));
}

TEST_F(ArgumentSizes, Merge) {
  cubit_merge_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.partial_outputs = g_memory.data();
  arguments.partial_lse = reinterpret_cast<const float*>(g_memory.data());
  arguments.output = g_memory.data() + 2048;
  arguments.partial_output_strides[0] = arguments.partial_output_strides[1] = 128;
  arguments.partial_output_strides[2] = arguments.output_strides[0] = arguments.output_strides[1] = 128;
  arguments.parts = 2;
  arguments.rows = arguments.heads = 1;
  expect_newer(kernel("merge"), arguments, "cubit_merge_arguments");
  EXPECT_THAT(launch(kernel("merge"), older<OldMerge>(arguments)), HasSubstr("heads = 0"));
}

void fill_result(cubit_quantised_rows& result) {
  result.output = g_memory.data() + 1024;
  result.scales = reinterpret_cast<float*>(g_memory.data() + 2048);
  result.output_stride = 64;
}

TEST_F(ArgumentSizes, ConvertLayout) {
  cubit_convert_layout_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = g_memory.data();
  arguments.output = g_memory.data() + 1024;
  arguments.input_stride = arguments.columns = 64;
  arguments.rows = 2;
  arguments.output_stride = 64;
  expect_newer(kernel("convert_layout"), arguments, "cubit_convert_layout_arguments");
  EXPECT_THAT(launch(kernel("convert_layout"), older<OldConvertLayout>(arguments)), HasSubstr("columns = 0"));
}

TEST_F(ArgumentSizes, Dequantize) {
  cubit_dequantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = g_memory.data();
  arguments.scale = reinterpret_cast<const float*>(g_memory.data() + 2048);
  arguments.output = g_memory.data() + 1024;
  arguments.input_stride = arguments.output_stride = arguments.columns = 64;
  arguments.rows = 2;
  expect_newer(kernel("dequantize"), arguments, "cubit_dequantize_arguments");
  EXPECT_THAT(launch(kernel("dequantize"), older<OldDequantize>(arguments)), HasSubstr("columns = 0"));
}

TEST_F(ArgumentSizes, GateQuantize) {
  cubit_gate_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.gate = arguments.up = g_memory.data();
  fill_result(arguments.result);
  arguments.gate_stride = arguments.up_stride = arguments.columns = 64;
  arguments.rows = 2;
  expect_newer(kernel("gate_quantize"), arguments, "cubit_gate_quantize_arguments");
  EXPECT_THAT(launch(kernel("gate_quantize"), older<OldGateQuantize>(arguments)), HasSubstr("columns = 0"));
}

TEST_F(ArgumentSizes, NormQuantize) {
  cubit_norm_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = arguments.weight = g_memory.data();
  fill_result(arguments.result);
  arguments.input_stride = arguments.columns = 64;
  arguments.rows = 2;
  arguments.epsilon = 1e-5f;
  expect_newer(kernel("norm_quantize"), arguments, "cubit_norm_quantize_arguments");
  EXPECT_THAT(launch(kernel("norm_quantize"), older<OldNormQuantize>(arguments)), HasSubstr("epsilon = 0"));
}

TEST_F(ArgumentSizes, Quantize) {
  cubit_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = g_memory.data();
  fill_result(arguments.result);
  arguments.input_stride = arguments.columns = 64;
  arguments.rows = 2;
  expect_newer(kernel("quantize"), arguments, "cubit_quantize_arguments");
  EXPECT_THAT(launch(kernel("quantize"), older<OldQuantize>(arguments)), HasSubstr("columns = 0"));
}

TEST_F(ArgumentSizes, W4Quantize) {
  cubit_w4_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.weights = g_memory.data();
  arguments.qweight = arguments.qzeros = arguments.scales = g_memory.data() + 1024;
  arguments.weight_stride = 128;
  arguments.n = 8;
  arguments.k = 128;
  expect_newer(kernel("w4_quantize"), arguments, "cubit_w4_quantize_arguments");
  EXPECT_THAT(launch(kernel("w4_quantize"), older<OldW4Quantize>(arguments)), HasSubstr("k = 0"));
}

TEST_F(ArgumentSizes, W4a16Gemm) {
  cubit_w4a16_gemm_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.activations = arguments.qweight = arguments.qzeros = arguments.scales = g_memory.data();
  arguments.output = g_memory.data() + 2048;
  arguments.activation_stride = 128;
  arguments.output_stride = 64;
  arguments.m = 1;
  arguments.n = 64;
  arguments.k = 128;
  expect_newer(kernel("w4a16_gemm:tile_m=16,tile_n=256"), arguments, "cubit_w4a16_gemm_arguments");
  EXPECT_EQ(launch(kernel("w4a16_gemm:tile_m=16,tile_n=256"), older<OldW4a16Gemm>(arguments)), "");
}

TEST_F(ArgumentSizes, W8a8Gemm) {
  cubit_w8a8_gemm_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.activations = arguments.weights = g_memory.data();
  arguments.activation_scales = arguments.weight_scales = reinterpret_cast<const float*>(g_memory.data());
  arguments.output = g_memory.data() + 2048;
  arguments.activation_stride = 16;
  arguments.output_stride = 64;
  arguments.m = 1;
  arguments.n = 64;
  arguments.k = 16;
  expect_newer(kernel("w8a8_gemm:tile_m=16"), arguments, "cubit_w8a8_gemm_arguments");
  EXPECT_EQ(launch(kernel("w8a8_gemm:tile_m=16"), older<OldW8a8Gemm>(arguments)), "");
}

TEST_F(ArgumentSizes, WeightSums) {
  auto* const sums = reinterpret_cast<std::int32_t*>(g_memory.data() + 2048);
  const cubit_weight_sums_arguments arguments{sizeof arguments, g_memory.data(), sums, 8, 16};
  expect_newer(kernel("weight_sums"), arguments, "cubit_weight_sums_arguments");
  EXPECT_THAT(launch(kernel("weight_sums"), older<OldWeightSums>(arguments)), HasSubstr("k = 0"));
}

TEST_F(ArgumentSizes, StreamCopy) {
  const cubit_stream_copy_arguments arguments{sizeof arguments, g_memory.data(), g_memory.data() + 2048, 256};
  expect_newer(kernel("stream_copy"), arguments, "cubit_stream_copy_arguments");
  const std::size_t before = driver_.launches().size();
  EXPECT_EQ(launch(kernel("stream_copy"), older<OldStreamCopy>(arguments)), "");
  EXPECT_THAT(driver_.launches(), SizeIs(before)) << "0 bytes: nothing is launched";
}

TEST_F(ArgumentSizes, StreamRead) {
  auto* const sums = reinterpret_cast<std::uint32_t*>(g_memory.data());
  const cubit_stream_read_arguments arguments{sizeof arguments, g_memory.data(), 256, sums};
  expect_newer(kernel("stream_read"), arguments, "cubit_stream_read_arguments");
  EXPECT_THAT(launch(kernel("stream_read"), older<OldStreamRead>(arguments)), HasSubstr("checksums = NULL"));
}

/// Returns the name of an operator's test: "KvAppend" for "kv_append".
std::string test_name(std::string_view op) {
  std::string name;
  bool begins_word = true;
  for (const char letter : op) {
    if (letter != '_') name += begins_word ? static_cast<char>(std::toupper(letter)) : letter;
    begins_word = letter == '_';
  }
  return name;
}

TEST_F(ArgumentSizes, HaveATestForEveryOperator) {
  const ::testing::TestSuite& suite = *::testing::UnitTest::GetInstance()->current_test_suite();
  for (const ops::Operator* op : ops::operators()) {
    const std::string name = test_name(op->name());
    bool is_found = false;
    for (int i = 0; i < suite.total_test_count(); ++i) is_found = is_found || suite.GetTestInfo(i)->name() == name;
    EXPECT_TRUE(is_found) << "there is no test ArgumentSizes." << name;
  }
}

TEST_F(ArgumentSizes, WhatIsNoSizeIsRefused) {
  auto arguments = attention();
  const Kernel made = kernel("gqa_decode:heads_per_kv=8");
  for (const std::size_t size : {std::size_t{0}, sizeof(std::size_t), sizeof arguments - 4, std::size_t{1} << 40}) {
    arguments.size = size;
    EXPECT_THAT(launch(made, arguments), HasSubstr("cubit_gqa_decode_arguments.size = " + std::to_string(size)));
  }
}

TEST_F(ArgumentSizes, AReservedMemberIsZero) {
  auto arguments = attention();
  arguments.reserved = 7;
  EXPECT_THAT(launch(kernel("gqa_decode:heads_per_kv=8"), arguments), HasSubstr("reserved = 7: it must be 0"));
}

TEST_F(ArgumentSizes, AnOlderCallersLaunchAllocatesNothingAndIsRemembered) {
  const Kernel made = kernel("gqa_decode:heads_per_kv=8");
  const auto arguments = older<OldGqaDecode>(attention());
  ASSERT_EQ(launch(made, arguments), "");
  ASSERT_EQ(launch(made, arguments), "");
  const int maps = driver_.encoded_maps();
  const cubit_launch where{sizeof where, nullptr, nullptr, workspace_.data(), workspace_.size() * sizeof(Unit), 0};
  const tests::CountAllocations allocations;
  ASSERT_EQ(cubit_kernel_launch(made.handle(), &arguments, &where), CUBIT_OK);
  // The fake driver records each launch in a vector; a launch that allocates by itself does so every time.
  EXPECT_LE(allocations.count(), 1);
  EXPECT_EQ(driver_.encoded_maps(), maps);
}

}  // namespace
}  // namespace cubit
