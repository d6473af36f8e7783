// Proves: each way in which a machine can lack a driver has its own error sentence, and functions that must not throw
// do not.
#include "runtime/cuda/cuda_device.hpp"
#include "tests/runtime_cuda/harness.hpp"

namespace cubit::runtime {
namespace {

using ::testing::HasSubstr;

TEST(Driver, MissingLibraryIsNamed) {
  cuda::use_driver_library("/nowhere/libcuda.so.1");
  EXPECT_EQ(cuda_driver_major(), 0);
  EXPECT_EQ(cuda_device_count(), 0);
  EXPECT_THAT(cuda_trouble(), HasSubstr("/nowhere/libcuda.so.1 cannot be opened"));
  const Failure failure = fake::failure_of([] { open_cuda_device(0); });
  EXPECT_EQ(failure.status(), Status::driver_unavailable);
  EXPECT_THAT(failure.what(), HasSubstr("install an NVIDIA driver"));
  EXPECT_EQ(fake::failure_of([] { current_cuda_device(); }).status(), Status::driver_unavailable);
  EXPECT_EQ(fake::failure_of([] { cuda_device_facts(0); }).status(), Status::driver_unavailable);
}

TEST(Driver, LibraryWithoutGetProcAddressIsTooOld) {
  cuda::use_driver_library("libm.so.6");
  EXPECT_THAT(cuda_trouble(), HasSubstr("older than CUDA 12.0"));
  EXPECT_EQ(cuda_driver_major(), 0);
}

TEST(Driver, MissingFunctionIsNamed) {
  fake::controls().reset(1);
  fake::controls().hide("cuCtxGetId");
  cuda::use_driver_library(CUBIT_FAKE_DRIVER);
  EXPECT_THAT(cuda_trouble(), HasSubstr("cuCtxGetId"));
}

TEST(Driver, RefusedStartKeepsTheVersion) {
  fake::controls().reset(1);
  fake::controls().fail("cuInit", 100);
  cuda::use_driver_library(CUBIT_FAKE_DRIVER);
  EXPECT_THAT(cuda_trouble(), HasSubstr("cuInit failed with CUDA_ERROR_100"));
  EXPECT_EQ(cuda_driver_major(), 13);
  EXPECT_EQ(cuda_device_count(), 0);
}

TEST(Driver, NoDeviceIsTrouble) {
  fake::plug_in(0);
  EXPECT_EQ(cuda_trouble(), "the CUDA driver finds no device");
  EXPECT_THAT(fake::failure_of([] { open_cuda_device(0); }).what(), HasSubstr("this machine has no CUDA device"));
}

TEST(Driver, GoodDriverHasNoTrouble) {
  fake::plug_in(2);
  EXPECT_EQ(cuda_trouble(), "");
  EXPECT_EQ(cuda_driver_major(), 13);
  EXPECT_EQ(cuda_device_count(), 2);
}

}  // namespace
}  // namespace cubit::runtime
