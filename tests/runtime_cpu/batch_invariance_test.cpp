// Tests w4a16_gemm with batch_invariant=true on the CPU device: a row's bits are the same in a batch of any size, at
// any place in the batch and with any tile_m. Without the field the bits differ.
#include "tests/support/cpu_engine.hpp"
#include "tests/support/gemm_batch.hpp"

namespace cubit::tests {
namespace {

constexpr int kMostRows = 40;  // rows of the batches that are compared with the whole batch
constexpr int kRows = 168;     // enough rows that tiles of 8 fill the CPU device
constexpr int kColumns = 64;
constexpr int kDepth = 384;

GemmBatch batch_of(const W4a16Gemm& descriptor, int columns = kColumns, int depth = kDepth) {
  return {Device("cpu:sm_80"), descriptor, kRows, columns, depth};
}
Kernel kernel_of(const W4a16Gemm& descriptor) { return engine().get(descriptor.text(), "cpu:sm_80"); }

class BatchInvariance : public ::testing::TestWithParam<W4a16Gemm> {
 protected:
  void SetUp() override {
    if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  }
};

// With few rows, blocks share k. With all rows in tiles of 8, one block computes all of k, slice by slice.
TEST_P(BatchInvariance, ARowsBitsDoNotDependOnTheOthers) {
  const GemmBatch batch = batch_of(GetParam());
  const Kernel kernel = kernel_of(GetParam());
  const auto all = batch.compute_all(kernel);
  batch.expect_good();
  EXPECT_EQ(batch.differing_batches(kernel, kMostRows, all), 0);
}

TEST_P(BatchInvariance, NorOnTheTile) {
  W4a16Gemm descriptor = GetParam();
  const GemmBatch batch = batch_of(descriptor);
  const auto expected = batch.compute(kernel_of(descriptor), 0, kMostRows);
  for (const int tile_m : {8, 16, 32, 64}) {
    descriptor.tile_m = tile_m;
    EXPECT_EQ(batch.compute(kernel_of(descriptor), 0, kMostRows), expected) << tile_m;
  }
}

std::string format_of(const ::testing::TestParamInfo<W4a16Gemm>& given) {
  constexpr const char* kFormats[] = {"gptq", "gptq_v2", "awq", "symmetric"};
  return kFormats[static_cast<int>(given.param.format)];
}

INSTANTIATE_TEST_SUITE_P(Descriptors, BatchInvariance, ::testing::ValuesIn(batch_invariant_descriptors()), format_of);

TEST(BatchVariance, WithoutTheFieldBitsDependOnTheRows) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const W4a16Gemm usual{.tile_m = 8, .tile_n = 256};
  const GemmBatch batch = batch_of(usual, 256, 768);  // so many outputs that some are rounded to other bits
  const Kernel kernel = kernel_of(usual);
  EXPECT_GT(batch.differing_batches(kernel, 16, batch.compute_all(kernel)), 0);
}

}  // namespace
}  // namespace cubit::tests
