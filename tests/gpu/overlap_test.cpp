// Launches that overlap on a GPU: each reads what the one before it in the stream has written, so one that began too early would give
// other bits than launches in order. Skipped where there is none.
#include <cubit/gqa_decode.h>
#include <cubit/w4a16_gemm.h>

#include "tests/gpu/gpu_case.hpp"

namespace cubit::tests {
namespace {

constexpr int kLaunches = 40;

class OverlapGpu : public GpuTest {
 protected:
  /// The output's bytes after a chain of launches, each of which takes the output of the one before for its input. `chain` sets
  /// input and output in a copy of the arguments.
  template <class Arguments, class Chain>
  std::vector<unsigned char> result_of(const std::string& text, const Problem::Numbers& sizes, bool overlap,
                                       Chain&& chain) const {
    const Problem problem = Problem::random(text, sizes, 1);
    DeviceCase tensors(device(), problem);
    const Kernel made = kernel(text);
    auto arguments = *static_cast<const Arguments*>(tensors.arguments());
    const GuardedBuffer workspace(device(), std::max<std::size_t>(made.workspace(&arguments, &device()), 256), 0);
    for (int i = 0; i < kLaunches; ++i) {
      chain(arguments, tensors, i % 2 == 0);
      made.launch(&arguments, {.device = &device(),
                               .workspace = workspace.data(),
                               .workspace_bytes = workspace.bytes(),
                               .overlap = overlap});
    }
    device().synchronise(nullptr);
    tensors.expect_guards_intact();
    EXPECT_TRUE(workspace.guards_intact());
    return tensors.input(0).download();  // the last one's output
  }
};

// Both buffers change with every launch, and all blocks of one read all of what all blocks of the other have written.
TEST_F(OverlapGpu, GemmsInAChainGiveTheSameBitsAsInOrder) {
  const auto chain = [](cubit_w4a16_gemm_arguments& arguments, DeviceCase& tensors, bool even) {
    arguments.activations = even ? tensors.input(0).data() : tensors.output(0).data();
    arguments.output = even ? tensors.output(0).data() : tensors.input(0).data();
  };
  for (const char* const text :
       {"w4a16_gemm:tile_m=8", "w4a16_gemm", "w4a16_gemm:tile_m=32", "w4a16_gemm:tile_m=64,element=bf16",
        "w4a16_gemm:tile_m=32,family=sm80", "w4a16_gemm:batch_invariant=1,element=bf16"}) {
    for (const int decomposition : {0, 1, 2, 3}) {
      if (decomposition == 3 && std::string(text).find("batch_invariant") != std::string::npos) continue;
      SCOPED_TRACE(std::string(text) + ", decomposition " + std::to_string(decomposition));
      // Products of 1024 terms with weights of a few hundredths are as large as what they are made of.
      const Problem::Numbers sizes = {{"m", 5}, {"n", 1024}, {"k", 1024}, {"decomposition", decomposition}};
      const auto in_order = result_of<cubit_w4a16_gemm_arguments>(text, sizes, false, chain);
      for (int repeat = 0; repeat < 5; ++repeat)
        ASSERT_EQ(result_of<cubit_w4a16_gemm_arguments>(text, sizes, true, chain), in_order);
    }
  }
}

TEST_F(OverlapGpu, AttentionInAChainGivesTheSameBitsAsInOrder) {
  const auto chain = [](cubit_gqa_decode_arguments& arguments, DeviceCase& tensors, bool even) {
    arguments.query = even ? tensors.input(0).data() : tensors.output(0).data();
    arguments.output = even ? tensors.output(0).data() : tensors.input(0).data();
  };
  for (const char* const text :
       {"gqa_decode:heads_per_kv=8", "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4",
        "gqa_decode:heads_per_kv=8,family=sm80", "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,cache=paged"}) {
    SCOPED_TRACE(text);
    const Problem::Numbers sizes = {{"batch", 3}, {"context", 3000}, {"kv_heads", 2}};
    const auto in_order = result_of<cubit_gqa_decode_arguments>(text, sizes, false, chain);
    for (int repeat = 0; repeat < 5; ++repeat)
      ASSERT_EQ(result_of<cubit_gqa_decode_arguments>(text, sizes, true, chain), in_order);
  }
}

}  // namespace
}  // namespace cubit::tests
