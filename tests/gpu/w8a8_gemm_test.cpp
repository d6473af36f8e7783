// What w8a8_gemm promises on a GPU: every pair of field values computes the reference, whatever the sizes and data, and
// blocks that share k give the same bits at every launch. Skipped where there is no GPU.
#include <cubit/w8a8_gemm.hpp>

#include "tests/gpu/gpu_test.hpp"
#include "tests/support/w8a8_descriptors.hpp"

namespace cubit::tests {
namespace {

/// Whether the architecture has the descriptor's tile and type.
bool is_supported(const std::string& text, const std::string& architecture) {
  try {
    explain(text, architecture);
    return true;
  } catch (const Error& error) {
    if (error.code() != CUBIT_UNSUPPORTED) throw;
    return false;
  }
}

std::vector<W8a8Gemm> descriptors_for(const std::string& architecture) {
  std::vector<W8a8Gemm> descriptors = pairwise_w8a8_descriptors();
  std::erase_if(descriptors, [&](const W8a8Gemm& one) { return !is_supported(one.text(), architecture); });
  return descriptors;
}

/// Kernels of both families, of few and many rows, for the tests that launch each kernel often.
std::vector<std::string> few_texts(const std::string& architecture) {
  std::vector<std::string> texts = {"w8a8_gemm:tile_m=8",
                                    "w8a8_gemm:tile_m=64,function=silu_gate,bias=true,family=sm80",
                                    "w8a8_gemm:tile_m=16",
                                    "w8a8_gemm:output=int8,tile_m=64,residual=true",
                                    "w8a8_gemm:output=int32,tile_m=256",
                                    "w8a8_gemm:tile_m=192,function=silu_gate,bias=true",
                                    "w8a8_gemm:element=fp8_e4m3,accumulate=promoted,tile_m=64,family=sm80",
                                    "w8a8_gemm:element=fp8_e4m3,tile_m=32",
                                    "w8a8_gemm:element=fp8_e4m3,output=bf16,tile_m=256",
                                    "w8a8_gemm:element=fp8_e4m3,accumulate=promoted,tile_m=128",
                                    "w8a8_gemm:element=fp8_e4m3,output=fp8_e4m3,accumulate=promoted,tile_m=16"};
  std::erase_if(texts, [&](const std::string& text) { return !is_supported(text, architecture); });
  return texts;
}

const char* const kSet = "w8a8_gemm";
const char* const kPromotedSet = "w8a8_gemm:element=fp8_e4m3,accumulate=promoted";

const SuiteKernels kKernels("W8a8GemmGpu", [](const std::string& architecture) {
  std::vector<std::string> texts = few_texts(architecture);
  for (const W8a8Gemm& descriptor : descriptors_for(architecture)) texts.push_back(descriptor.text());
  for (const char* const set : {kSet, kPromotedSet})
    if (is_supported(std::string(set) + (set == kSet ? ":tile_m=8" : ",tile_m=8"), architecture))
      texts.emplace_back(set);
  return texts;
});

class W8a8GemmGpu : public GpuTest {};

// Tiles that are cut off at the last rows and columns, columns that are a multiple of 8 alone, and all decompositions.
TEST_F(W8a8GemmGpu, EveryPairOfFieldValues) {
  const std::vector<W8a8Gemm> descriptors = descriptors_for(architecture());
  for_each_case(descriptors, [&](const W8a8Gemm& descriptor) {
    const int columns = descriptor.is_gated() ? 16 : 8;
    const std::string text = descriptor.text();
    expect_good(text, {{"m", descriptor.tile_m + 3}, {"n", 512 + columns}, {"k", 1040}});
    expect_good(text, {{"m", 1}, {"n", columns}, {"k", 16}, {"decomposition", 1}});
    expect_good(text, {{"m", 300}, {"n", 1024 + columns}, {"k", 1040}, {"decomposition", 2}, {"splits", 2}});
    expect_good(text,
                {{"m", 2 * descriptor.tile_m + 8}, {"n", 9 * 256}, {"k", 2064}, {"decomposition", 3}, {"pattern", 2}});
  });
  std::printf("%zu kernels, largest error %.2e\n", descriptors.size(), worst());
}

TEST_F(W8a8GemmGpu, HardData) {
  for_each_case(few_texts(architecture()), [&](const std::string& text) {
    for (int pattern = 0; pattern < 4; ++pattern)
      for (const int decomposition : {1, 2})
        expect_good(text,
                    {{"m", 130}, {"n", 520 + 8}, {"k", 2064}, {"pattern", pattern}, {"decomposition", decomposition}});
  });
}

// More tiles than clusters, and tiles that clusters share: the same bits at every launch.
TEST_F(W8a8GemmGpu, SharedTilesGiveTheSameBitsEveryTime) {
  for (const std::string& text : few_texts(architecture())) {
    SCOPED_TRACE(text);
    for (const int decomposition : {1, 2, 3}) {
      const Problem problem =
          Problem::random(text, {{"m", 520}, {"n", 9 * 256 + 16}, {"k", 4112}, {"decomposition", decomposition}}, 3);
      DeviceCase launched(device(), problem);
      const Kernel made = kernel(text);
      launch(made, launched);
      EXPECT_TRUE(launched.compare(problem).good());
      const auto first = launched.output(0).download();
      for (int i = 0; i < 20; ++i) {
        launch(made, launched);
        ASSERT_EQ(launched.output(0).download(), first) << "launch " << i;
      }
    }
  }
}

TEST_F(W8a8GemmGpu, SetsServeRowsFromNoneToMany) {
  for (const char* const set : {kSet, kPromotedSet}) {
    if (!is_declared(set)) continue;
    const Problem none = Problem::random(set, {{"m", 0}, {"n", 256}, {"k", 256}}, 1);
    DeviceCase launched(device(), none);
    launch(kernel(set), launched);
    for (const int m : {1, 8, 9, 63, 65, 127, 300, 1000}) expect_good(set, {{"m", m}, {"n", 1040}, {"k", 528}});
    expect_good(set, {{"m", 2049}, {"n", 4104}, {"k", 528}});
  }
}

}  // namespace
}  // namespace cubit::tests
