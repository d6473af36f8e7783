// Caches whose values are stored differently from their keys: parameters of launches, and what problems read and
// refuse. No kernel runs here; tests/cover checks what kernels compute.
#include <cubit/gqa_decode.h>
#include <cubit/kv_append.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "check/gqa_decode/problem.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/kv_append/kv_append.hpp"
#include "tests/support/gqa_launches.hpp"
#include "tests/support/one_pass_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using Shape = std::vector<std::int64_t>;
using tests::address;
using tests::expect_refused_with;
constexpr auto cache_parameters = tests::gqa_parameters_of;

/// Arguments with one KV head, 64 tokens, strides of 160 elements, and scales for keys and values.
cubit_gqa_decode_arguments made_up_arguments() {
  auto arguments = tests::made_up_gqa_arguments({.head_dim = 256, .row = 160});
  arguments.scales.key = address(0x5000);
  arguments.scales.value = address(0x6002);
  for (std::int64_t* strides : {arguments.scales.key_strides, arguments.scales.value_strides})
    strides[0] = strides[1] = strides[2] = 64;
  return arguments;
}

TEST(MixedCaches, OperandsOfKeysSpeakOfTheQueryAndThoseOfValuesOfWeights) {
  const auto operands = [](const char* text) {
    std::vector<std::string> values;
    const auto made = find_operator("gqa_decode").specialise(text, codegen::find_architecture("sm_80"));
    for (const Decision& decision : made->report().decisions) {
      if (decision.name.starts_with("operands")) values.push_back(decision.name + ": " + decision.value);
    }
    return values;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(operands("gqa_decode:query=fp16"), Texts{"operands: bf16, query and weights in two terms"});
  EXPECT_EQ(operands("gqa_decode:query=fp16,kv=fp16,value=bf16"),
            (Texts{"operands of keys: fp16", "operands of values: bf16, weights in two terms"}));
  EXPECT_EQ(operands("gqa_decode:query=fp16,value=fp16"),
            (Texts{"operands of keys: bf16, query in two terms", "operands of values: fp16"}));
  EXPECT_EQ(operands("gqa_decode:value=fp16"), (Texts{"operands of keys: bf16", "operands of values: fp16"}));
}

TEST(MixedCaches, ConflictsAreThoseOfTheRowsThatHaveHeaders) {
  const auto why = [](const char* text) -> std::string {
    const std::string reason = tests::reason_of(tests::gqa_kernel_of(text, "sm_80"), "bank conflicts");
    return reason.empty() ? "none" : reason;
  };
  const std::string beginning = "one instruction copies the headers of many rows";
  const std::string end = ", 4 bytes a lane, and rows start at every fourth bank";
  EXPECT_EQ(why("gqa_decode:heads_per_kv=8,kv=int4_rows,value=fp8_e4m3"), beginning + " of keys" + end);
  EXPECT_EQ(why("gqa_decode:heads_per_kv=8,kv=fp8_e4m3,value=int4_rows"), beginning + " of values" + end);
  EXPECT_EQ(why("gqa_decode:head_dim=256,kv=int4_rows,value_dim=96"), beginning + " of keys and of values" + end);
  EXPECT_EQ(why("gqa_decode:heads_per_kv=8,kv=int4_rows"), beginning + end);
  EXPECT_EQ(why("gqa_decode:heads_per_kv=8,kv=fp8_e4m3,value=int4_rows,value_groups=4"), "none");
}

TEST(MixedCaches, FragmentsAreThoseThatEachFormatLoads) {
  const auto loads = [](const char* text) {
    std::set<std::string> names;
    const auto kernel = tests::gqa_kernel_of(text, "sm_80");
    for (const std::string& name : kernel->report().fragments) {
      if (name.starts_with("ldmatrix")) names.insert(name);
    }
    return names;
  };
  using Names = std::set<std::string>;
  const Names wide = {"ldmatrix.x4", "ldmatrix.x4.trans"};
  const auto with = [&](Names more) {
    more.insert(wide.begin(), wide.end());
    return more;
  };
  EXPECT_EQ(loads("gqa_decode:value=fp16"), wide);
  EXPECT_EQ(loads("gqa_decode:kv=int4_rows,value=bf16"), with({"ldmatrix.x2"}));
  EXPECT_EQ(loads("gqa_decode:value=int4_rows"), with({"ldmatrix.x2.trans"}));
  EXPECT_EQ(loads("gqa_decode:head_dim=80,kv=int8_split,value_dim=64"), with({"ldmatrix.x2"}));
  EXPECT_EQ(loads("gqa_decode:kv=int4_rows"), with({"ldmatrix.x2", "ldmatrix.x2.trans"}));
}

TEST(MixedCaches, StridesAndScalesAreThoseOfEachFormat) {
  auto arguments = made_up_arguments();
  const auto both =
      cache_parameters("gqa_decode:kv=int8_split,value=fp8_e4m3,value_scales=tensor,value_scale_type=fp16", arguments);
  EXPECT_EQ(both.key_scale_strides[1], 256);
  EXPECT_EQ(both.value_scale_strides[1], 0);
  arguments.scales.key = nullptr;
  const auto scaled_values = cache_parameters("gqa_decode:value=fp8_e4m3,value_scale_type=fp16", arguments);
  EXPECT_EQ(scaled_values.key_scales, nullptr);
  EXPECT_EQ(scaled_values.key_scale_strides[1], 0);
  EXPECT_EQ(scaled_values.value_scales, address(0x6002));
  EXPECT_EQ(scaled_values.value_scale_strides[1], 128);
  arguments.scales.value = nullptr;
  const auto wide_keys = cache_parameters("gqa_decode:value=int4_rows,value_groups=4", arguments);
  EXPECT_EQ(wide_keys.key_token_stride, 320);
  EXPECT_EQ(wide_keys.value_token_stride, 160);
  EXPECT_EQ(wide_keys.key_scales, nullptr);
  EXPECT_EQ(wide_keys.value_scales, nullptr);
}

TEST(MixedCaches, LaunchesRefuseWhatEitherFormatRulesOut) {
  auto arguments = made_up_arguments();
  const auto refused = [&](const char* text, const char* sentence) {
    expect_refused_with([&] { cache_parameters(text, arguments); }, sentence);
  };
  refused("gqa_decode:value=fp8_e4m3",
          "scales.key at 0x5000: a cache of bf16 has no scales of their own; give NULL, or ask for kv=int8_split, "
          "fp8_e4m3 or fp8_e5m2");
  refused("gqa_decode:kv=fp8_e4m3,value=int4_rows",
          "scales.value at 0x6002: a cache of int4_rows has no scales of their own; give NULL, or ask for "
          "value=int8_split, fp8_e4m3 or fp8_e5m2");
  arguments.scales.key = nullptr;
  refused("gqa_decode:value=fp8_e4m3", "scales.value at 0x6002: the address is not a multiple of 4 bytes");
  refused("gqa_decode:value_dim=64",
          "scales.value at 0x6002: a cache of bf16 has no scales of their own; give NULL, or "
          "ask for kv=int8_split");
  arguments.scales.value = nullptr;
  refused("gqa_decode:kv=fp8_e4m3,value=bf16", "scales.key = NULL: the tensor is needed");
  arguments.value_strides[1] = 168;  // counts bytes for one format, and elements of 2 bytes for the other
  EXPECT_NO_THROW(cache_parameters("gqa_decode:kv=int4_rows,groups=4,value=bf16", arguments));
  refused("gqa_decode:value=int4_rows,value_groups=4", "value stride 1 of 168 bytes: it is not a multiple of 16 bytes");
}

TEST(MixedCaches, PartialOutputsAreAsWideAsValues) {
  auto arguments = made_up_arguments();
  arguments.max_length = 8192;
  arguments.splits = 8;
  const auto bytes = [&](const char* text) {
    return tests::gqa_kernel_of(text, "sm_80")->workspace_bytes(&arguments, tests::made_up_device("sm_80", 100));
  };
  const std::size_t alike = bytes("gqa_decode:head_dim=64,heads_per_kv=8");
  EXPECT_EQ(bytes("gqa_decode:head_dim=192,heads_per_kv=8,value_dim=64"), alike);
  EXPECT_EQ(bytes("gqa_decode:head_dim=64,heads_per_kv=8,value_dim=256") - alike, 8u * 8 * (256 - 64) * sizeof(float));
}

/// A problem with two sequences of 5 tokens and 2 KV heads. Keys have 64 signed bytes; values have 128 packed channels
/// in groups of 32.
struct MixedCase {
  std::string text = "gqa_decode:head_dim=64,kv=int8_split,scales=tensor,value_dim=128,value=int4_rows,value_groups=4";
  std::vector<char> bytes = std::vector<char>(1 << 16);
  std::vector<float> scale = {0.5f};
  std::vector<check::Tensor> tensors = {{"query", "BF16", {2, 2, 64}, {}, bytes.data()},
                                        {"key", "I8", {2, 5, 2, 64}, {}, bytes.data()},
                                        {"value", "U8", {2, 5, 2, 80}, {}, bytes.data()},
                                        {"key_scale", "F32", {1}, {}, scale.data()}};
  std::unique_ptr<check::Problem> problem() const {
    return check::find_problems(text).problem(text, tensors, {{"lse", 1}});
  }
};

TEST(MixedCaches, OutputsHaveTheChannelsOfValues) {
  const auto problem = MixedCase().problem();
  EXPECT_EQ(problem->outputs()[0].shape, (Shape{2, 2, 128}));
  EXPECT_EQ(problem->outputs()[1].shape, (Shape{2, 2}));
  EXPECT_EQ(problem->bytes_read(), 2u * 5 * 2 * (64 + 80) + 2 * 2 * 64 * 2 + 4);
  EXPECT_EQ(problem->operations(), 2.0 * 2 * 5 * 2 * (64 + 128));
  void* const data[] = {address(0x1000), address(0x2000), address(0x3000),
                        address(0x4000), address(0x5000), address(0x6000)};
  cubit_gqa_decode_arguments arguments;
  const std::vector<std::byte> bytes = problem->arguments(data);
  ASSERT_EQ(bytes.size(), sizeof arguments);
  std::memcpy(&arguments, bytes.data(), sizeof arguments);
  EXPECT_EQ(arguments.query_strides[0], 128);
  EXPECT_EQ(arguments.output_strides[0], 256);
  EXPECT_EQ(arguments.output_strides[1], 128);
  EXPECT_EQ(arguments.key_strides[1], 128);
  EXPECT_EQ(arguments.value_strides[1], 160);
  EXPECT_EQ(arguments.scales.value, nullptr);
}

TEST(MixedCaches, ProblemsRefuseRowsOfTheOtherFormat) {
  const auto refused = [](const std::string& sentence, auto change) {
    MixedCase one;
    change(one);
    expect_refused_with([&] { static_cast<void>(one.problem()); }, sentence);
  };
  refused("tensor value of type I8", [](MixedCase& c) { c.tensors[2].type = "I8"; });
  refused("tensor value [2, 5, 2, 64]: its rows have 64 elements", [](MixedCase& c) { c.tensors[2].shape[3] = 64; });
  refused("tensor key [2, 5, 2, 80]: its rows have 80 elements", [](MixedCase& c) { c.tensors[1].shape[3] = 80; });
  refused("tensor value [2, 4, 2, 80]: it must have the dimensions", [](MixedCase& c) { c.tensors[2].shape[1] = 4; });
  refused("tensor query [2, 2, 128]: head_dim is 64", [](MixedCase& c) { c.tensors[0].shape[2] = 128; });
  refused(
      "tensor value_scale: a cache of int4_rows has no scales of their own; leave it out, or ask for "
      "value=int8_split, fp8_e4m3 or fp8_e5m2",
      [](MixedCase& c) {
        c.tensors.push_back({"value_scale", "F32", {1}, {}, c.scale.data()});
      });
  refused("tensors without key_scale", [](MixedCase& c) { c.tensors.pop_back(); });
}

/// With one token the output is the token's value, whatever the key.
TEST(MixedCaches, TheReferenceReadsEachFormatAsItIs) {
  for (const char* text :
       {"gqa_decode:kv=fp8_e4m3,value=int4_rows,value_groups=4", "gqa_decode:head_dim=192,value_dim=64",
        "gqa_decode:kv=int4_rows,groups=8,value_dim=64,value=int8_split,value_groups=2,"
        "value_scales=group,value_scale_type=fp16"}) {
    const auto problem = check::find_problems(text).random(text, {{"batch", 1}, {"context", 1}}, 3);
    const kv_cache::RowFormat format = kv_cache::formats_of(gqa_decode::parse(text)).value;
    const check::Tensor& values = problem->inputs()[2];
    const char* scales = nullptr;
    for (const check::Tensor& input : problem->inputs()) {
      if (input.name == "value_scale") scales = static_cast<const char*>(input.data);
    }
    std::vector<double> row(static_cast<std::size_t>(format.head_dim));
    check::kv_cache::dequantise_row(format, static_cast<const char*>(values.data), row.data(), scales);
    std::vector<std::uint16_t> output;
    for (const double x : row) output.push_back(from_float(Element::bf16, static_cast<float>(x)));
    const void* got[] = {output.data()};
    EXPECT_TRUE(problem->compare(got).error <= problem->compare(got).tolerance) << text;
    output[0] = static_cast<std::uint16_t>(output[0] ^ 0x8000);
    output[1] = static_cast<std::uint16_t>(output[1] ^ 0x8000);
    EXPECT_GT(problem->compare(got).error, problem->compare(got).tolerance) << text;
  }
}

TEST(MixedCaches, AppendWritesTheScalesThatRowsMakeAndReadsTheOthers) {
  const auto names = [](const std::vector<check::Tensor>& tensors) {
    std::string all;
    for (const check::Tensor& tensor : tensors) all += tensor.name + " ";
    return all;
  };
  const auto made = [](const char* text) { return check::find_problems(text).random(text, {{"tokens", 3}}, 1); };
  const auto mixed = made("kv_append:kv=int8_split,scales=token,value=fp8_e4m3");
  EXPECT_EQ(names(mixed->inputs()), "key value key_scale ");
  EXPECT_EQ(names(mixed->outputs()), "key_cache value_cache value_scale ");
  EXPECT_EQ(names(made("kv_append:kv=fp8_e5m2,value=int4_rows")->outputs()), "key_cache value_cache key_scale ");
  const auto wide = made("kv_append:head_dim=192,value_dim=128,value=int4_rows,value_groups=4");
  EXPECT_EQ(wide->inputs()[0].shape.back(), 192);
  EXPECT_EQ(wide->inputs()[1].shape.back(), 128);
  EXPECT_EQ(wide->outputs()[1].shape.back(), 80);
  EXPECT_EQ(wide->bytes_read(), 3u * 2 * (192 + 128));
  EXPECT_EQ(wide->bytes_written(), 3u * (2 * 192 + 80));
}

TEST(MixedCaches, AppendRefusesWhatEitherFormatRulesOut) {
  cubit_kv_append_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.key = arguments.value = address(0x1000);
  arguments.cache.key = address(0x2000);
  arguments.cache.value = address(0x3004);
  arguments.cache.kv_heads = arguments.batch = arguments.tokens = 1;
  arguments.cache.max_length = 64;
  arguments.cache.key_strides[1] = arguments.cache.value_strides[1] = 128;
  const auto encode = [&](const char* text) {
    tests::encode(kv_append::parse(text), &arguments, tests::made_up_device("sm_80", 1));
  };
  EXPECT_NO_THROW(encode("kv_append:value=int4_rows")) << "packed rows begin at multiples of 4";
  const auto refused = [&](const char* text, const char* sentence) {
    expect_refused_with([&] { encode(text); }, sentence);
  };
  refused("kv_append", "cache.value at 0x3004: the address is not a multiple of 16 bytes");
  refused("kv_append:kv=int4_rows,value=bf16", "cache.value at 0x3004");
  arguments.cache.value = address(0x3000);
  arguments.scales.key = address(0x4000);
  refused("kv_append:kv=fp8_e4m3,value=int8_split", "scales.value = NULL: the tensor is needed");
  refused("kv_append:value=fp8_e4m3", "scales.key at 0x4000: a cache of bf16 has no scales of their own; give NULL");
}

}  // namespace
}  // namespace cubit::ops
