// Launches that overlap on a GPU: each reads what the one before it in the stream has written. One that began too early
// would read NaN, which is what outputs hold before, or what the launch before that had read. Without a GPU
// the tests are skipped.
#include <cubit/gqa_decode.h>
#include <cubit/w4a16_gemm.h>
#include <cubit/w8a8_gemm.h>

#include <algorithm>

#include "tests/gpu/gpu_test.hpp"

namespace cubit::tests {
namespace {

// The third writes what the first has written and the second has read. More, and attention comes to rest, or fp16
// overflows.
constexpr int kLaunches = 3;
constexpr int kRepeats = 20;

class OverlapGpu : public GpuTest {
 protected:
  /// The output of the last of `launches` launches. Each launch reads the output of the launch before and has tensors
  /// of its own. `chain` sets input and output in a copy of the arguments.
  template <class Arguments, class Chain>
  std::vector<unsigned char> result_of(const std::string& text, const Problem::Numbers& sizes, int launches,
                                       bool overlap, Chain&& chain) const {
    const Problem problem = Problem::random(text, sizes, 1);
    DeviceCase tensors(device(), problem);
    const Kernel made = kernel(text);
    auto arguments = *static_cast<const Arguments*>(tensors.arguments());
    const GuardedBuffer workspace(device(), std::max<std::size_t>(made.workspace(&arguments, &device()), 256), 0);
    for (int i = 0; i < launches; ++i) {
      chain(arguments, tensors.input(0).data(), tensors.output(0).data(), i % 2 == 0);
      made.launch(&arguments, {.device = &device(),
                               .workspace = workspace.data(),
                               .workspace_bytes = workspace.bytes(),
                               .overlap = overlap});
    }
    device().synchronise(nullptr);
    tensors.expect_guards_intact();
    EXPECT_TRUE(workspace.guards_intact());
    return (launches % 2 == 1 ? tensors.output(0) : tensors.input(0)).download();
  }

  template <class Arguments, class Chain>
  void expect_same_bits(const std::string& text, const Problem::Numbers& sizes, Chain&& chain) const {
    const auto in_order = result_of<Arguments>(text, sizes, kLaunches, false, chain);
    // Else what an early launch reads would not show.
    ASSERT_NE(result_of<Arguments>(text, sizes, kLaunches - 2, false, chain), in_order);
    ASSERT_NE(result_of<Arguments>(text, sizes, kLaunches - 1, false, chain), in_order);
    for (int repeat = 0; repeat < kRepeats; ++repeat)
      ASSERT_EQ(result_of<Arguments>(text, sizes, kLaunches, true, chain), in_order);
  }
};

const std::vector<std::string> kGemms = {
    "w4a16_gemm:tile_m=8,tile_n=256",
    "w4a16_gemm:tile_m=16,tile_n=256",
    "w4a16_gemm:tile_m=32,tile_n=256",
    "w4a16_gemm:tile_m=64,element=bf16,tile_n=256",
    "w4a16_gemm:tile_m=32,tile_n=256,family=sm80",
    "w4a16_gemm:tile_m=16,tile_n=256,batch_invariant=true,element=bf16",
    "w4a16_gemm:tile_m=64,tile_n=256,activation_order=true",
};
const std::vector<std::string> kByteGemms = {"w8a8_gemm:output=int8,tile_m=16", "w8a8_gemm:output=int8,tile_m=128"};
const std::vector<std::string> kAttention = {
    "gqa_decode:heads_per_kv=8",
    "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4",
    "gqa_decode:heads_per_kv=8,family=sm80",
    "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,cache=paged",
};
const SuiteKernels kKernels("OverlapGpu", [](const std::string&) {
  std::vector<std::string> texts = kGemms;
  texts.insert(texts.end(), kByteGemms.begin(), kByteGemms.end());
  texts.insert(texts.end(), kAttention.begin(), kAttention.end());
  return texts;
});

TEST_F(OverlapGpu, GemmsInAChainGiveTheSameBitsAsInOrder) {
  const auto chain = [](cubit_w4a16_gemm_arguments& arguments, void* first, void* second, bool forth) {
    arguments.activations = forth ? first : second;
    arguments.output = forth ? second : first;
  };
  for (const std::string& text : kGemms) {
    for (const int decomposition : {0, 1, 2, 3}) {
      const bool has_no_stream_k =
          text.find("batch_invariant") != std::string::npos || text.find("activation_order") != std::string::npos;
      if (decomposition == 3 && has_no_stream_k) continue;  // family sm90_persistent has too few tiles
      SCOPED_TRACE(text + ", decomposition " + std::to_string(decomposition));
      expect_same_bits<cubit_w4a16_gemm_arguments>(
          text, {{"m", 5}, {"n", 1024}, {"k", 1024}, {"decomposition", decomposition}}, chain);
    }
  }
}

// Weights are copied before the launch waits for the one before it, and activations after that.
TEST_F(OverlapGpu, GemmsWithConstantWeightsGiveTheSameBitsAsInOrder) {
  const auto chain = [](cubit_w8a8_gemm_arguments& arguments, void* first, void* second, bool forth) {
    arguments.activations = forth ? first : second;
    arguments.output = forth ? second : first;
  };
  for (const std::string& text : kByteGemms) {
    for (const int decomposition : {0, 1, 2}) {
      SCOPED_TRACE(text + ", decomposition " + std::to_string(decomposition));
      expect_same_bits<cubit_w8a8_gemm_arguments>(
          text, {{"m", 5}, {"n", 1024}, {"k", 1024}, {"decomposition", decomposition}, {"constant_weights", 1}}, chain);
    }
  }
}

TEST_F(OverlapGpu, AttentionInAChainGivesTheSameBitsAsInOrder) {
  const auto chain = [](cubit_gqa_decode_arguments& arguments, void* first, void* second, bool forth) {
    arguments.softmax_scale = 1;  // so that what a query is tells in the output
    arguments.query = forth ? first : second;
    arguments.output = forth ? second : first;
  };
  for (const std::string& text : kAttention) {
    SCOPED_TRACE(text);
    expect_same_bits<cubit_gqa_decode_arguments>(text, {{"batch", 3}, {"context", 300}, {"kv_heads", 2}}, chain);
  }
}

}  // namespace
}  // namespace cubit::tests
