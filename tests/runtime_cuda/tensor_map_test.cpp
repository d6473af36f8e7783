// Proves: tensor maps reach the driver with the right arguments, and drivers without tensor maps or with an error give
// a clear failure.
#include "runtime/tensor_map.hpp"

#include "runtime/cuda/cuda_device.hpp"
#include "tests/runtime_cuda/harness.hpp"

namespace cubit::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorMap swizzled_tiles() {
  return {.base = 0x7000,
          .element_bytes = 2,
          .rank = 3,
          .sizes = {128, 8, 4096},
          .strides = {256, 2048},
          .box = {64, 1, 32},
          .swizzle = TensorSwizzle::span128,
          .l2_bytes = 256};
}

class CudaTensorMap : public ::testing::Test {
 protected:
  void SetUp() override { fake::plug_in(1); }
};

TEST_F(CudaTensorMap, ReachesTheDriverUnchanged) {
  const EncodedTensorMap encoded = open_cuda_device(0)->encode(swizzled_tiles());
  fake::EncodedMap seen;
  std::memcpy(&seen, encoded.bytes.data(), sizeof seen);
  EXPECT_EQ(seen.type, 1) << "CU_TENSOR_MAP_DATA_TYPE_UINT16";
  EXPECT_EQ(seen.rank, 3);
  EXPECT_EQ(seen.base, 0x7000u);
  EXPECT_EQ(seen.outer_size, 4096u);
  EXPECT_EQ(seen.outer_stride, 2048u);
  EXPECT_EQ(seen.outer_box, 32u);
  EXPECT_EQ(seen.element_strides, 1 + 1 + 1);
  EXPECT_EQ(seen.swizzle, 3) << "CU_TENSOR_MAP_SWIZZLE_128B";
  EXPECT_EQ(seen.l2_promotion, 3) << "CU_TENSOR_MAP_L2_PROMOTION_L2_256B";
  EXPECT_EQ(seen.interleave, 0);
  EXPECT_EQ(seen.fill, 0);
}

/// CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion by their numbers in cuda.h.
TEST_F(CudaTensorMap, EnumerationsAreTheDrivers) {
  const auto device = open_cuda_device(0);
  const auto numbers_of = [&](const TensorMap& map) {
    fake::EncodedMap seen;
    std::memcpy(&seen, device->encode(map).bytes.data(), sizeof seen);
    return std::vector<int>{seen.type, seen.swizzle, seen.l2_promotion};
  };
  TensorMap map{.base = 0x7000, .element_bytes = 1, .rank = 1, .sizes = {1}, .box = {16}};
  EXPECT_THAT(numbers_of(map), ElementsAre(0, 0, 0));
  map = {
      .base = 0x7000, .element_bytes = 4, .sizes = {1}, .box = {8}, .swizzle = TensorSwizzle::span32, .l2_bytes = 64};
  EXPECT_THAT(numbers_of(map), ElementsAre(2, 1, 1));
  map = {
      .base = 0x7000, .element_bytes = 8, .sizes = {1}, .box = {8}, .swizzle = TensorSwizzle::span64, .l2_bytes = 128};
  EXPECT_THAT(numbers_of(map), ElementsAre(4, 2, 2));
}

TEST_F(CudaTensorMap, ABrokenRuleIsNamedBeforeTheDriverIsAsked) {
  TensorMap map = swizzled_tiles();
  map.strides[0] = 264;
  const Failure failure = fake::failure_of([&] { open_cuda_device(0)->encode(map); });
  EXPECT_EQ(failure.status(), Status::invalid_argument);
  EXPECT_THAT(failure.what(), HasSubstr("the stride of dimension 1, 264 bytes, is not a multiple of 16"));
}

TEST_F(CudaTensorMap, TheDriversRefusalIsNamed) {
  fake::controls().fail("cuTensorMapEncodeTiled", 1);
  const Failure failure = fake::failure_of([&] { open_cuda_device(0)->encode(swizzled_tiles()); });
  EXPECT_EQ(failure.status(), Status::device_error);
  EXPECT_THAT(failure.what(), HasSubstr("cuTensorMapEncodeTiled: the CUDA driver reports CUDA_ERROR_1"));
}

TEST_F(CudaTensorMap, ADriverWithoutThemStillServesTheRest) {
  fake::controls().hide("cuTensorMapEncodeTiled");
  cuda::use_driver_library(CUBIT_FAKE_DRIVER);
  EXPECT_EQ(cuda_trouble(), "");
  const Failure failure = fake::failure_of([&] { open_cuda_device(0)->encode(swizzled_tiles()); });
  EXPECT_EQ(failure.status(), Status::unsupported);
  EXPECT_THAT(failure.what(), HasSubstr("this CUDA driver has no cuTensorMapEncodeTiled; install a newer driver"));
}

}  // namespace
}  // namespace cubit::runtime
