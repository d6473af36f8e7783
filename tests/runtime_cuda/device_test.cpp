// Proves: each context has one Device object, no call makes a context current that was not, and a context that reuses a
// dead context's handle is a new device.
#include <set>
#include <thread>
#include <vector>

#include "runtime/cuda/cuda_device.hpp"
#include "runtime/kernel.hpp"
#include "tests/runtime_cuda/harness.hpp"

namespace cubit::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CudaDevice : public ::testing::Test {
 protected:
  void SetUp() override { fake::plug_in(2); }
  fake::Controls& driver_ = fake::controls();
};

TEST_F(CudaDevice, FactsComeFromTheDriver) {
  const DeviceFacts facts = cuda_device_facts(1);
  EXPECT_EQ(facts.name, "Fake GPU 1");
  EXPECT_EQ(facts.architecture->name, "sm_90a");
  EXPECT_EQ(facts.multiprocessors, 132);
  EXPECT_EQ(facts.memory_bytes, std::size_t{1} << 34);
  EXPECT_EQ(facts.l2_bytes, std::size_t{1} << 20);
  EXPECT_EQ(facts.clock_khz, 1980000);
  EXPECT_EQ(facts.driver_version, 13000);
  EXPECT_EQ(facts.memory_bytes_per_second, 4916736000000) << "twice 3201 MHz, 768 bytes wide";
  EXPECT_EQ(facts.memory_bus_bits, 6144);
}

TEST_F(CudaDevice, NobodyHasToKnowHowFastTheMemoryIs) {
  for (const int attribute : {cuda::kMemoryClockRate, cuda::kGlobalMemoryBusWidth}) {
    fake::plug_in(2);
    driver_.forget_attribute(attribute);
    EXPECT_EQ(cuda_device_facts(0).memory_bytes_per_second, 0);
    EXPECT_EQ(cuda_device_facts(0).multiprocessors, 132);
  }
}

TEST_F(CudaDevice, OrdinalOutOfRangeIsRefused) {
  for (const int ordinal : {-1, 2}) {
    const Failure failure = fake::failure_of([&] { open_cuda_device(ordinal); });
    EXPECT_EQ(failure.status(), Status::invalid_argument);
    EXPECT_THAT(failure.what(), HasSubstr("give 0 to 1"));
  }
}

TEST_F(CudaDevice, OpenRetainsThePrimaryContextAndMakesNothingCurrent) {
  auto first = open_cuda_device(0);
  auto second = open_cuda_device(0);
  EXPECT_EQ(first.get(), second.get());
  EXPECT_EQ(driver_.primary_retains(0), 2);
  EXPECT_THAT(driver_.stack(), IsEmpty());
  first.reset();
  second.reset();
  EXPECT_EQ(driver_.primary_retains(0), 0);
}

TEST_F(CudaDevice, NoCurrentContextIsRefused) {
  const Failure failure = fake::failure_of([] { current_cuda_device(); });
  EXPECT_EQ(failure.status(), Status::invalid_argument);
  EXPECT_THAT(failure.what(), HasSubstr("no context is current on this thread"));
}

TEST_F(CudaDevice, CurrentContextHasOneObjectOnEveryThread) {
  const cuda::Context context = driver_.create_context(0);
  Device* const here = &current_cuda_device();
  EXPECT_EQ(here, &current_cuda_device());
  Device* there = nullptr;
  std::thread([&] {
    cuda::driver().cuCtxPushCurrent(context);
    there = &current_cuda_device();
  }).join();
  EXPECT_EQ(here, there);
}

TEST_F(CudaDevice, ContextsOfOneDeviceAreTwoDevices) {
  driver_.create_context(0);
  Device* const first = &current_cuda_device();
  driver_.create_context(0);
  Device* const second = &current_cuda_device();
  EXPECT_NE(first->slot(), second->slot());
  cuda::Context popped = nullptr;
  cuda::driver().cuCtxPopCurrent(&popped);
  EXPECT_EQ(&current_cuda_device(), first);
}

TEST_F(CudaDevice, OpenedDeviceIsTheCurrentOneWhereItsContextIs) {
  auto opened = open_cuda_device(1);
  const CurrentDevice current(*opened);
  EXPECT_EQ(&current_cuda_device(), opened.get());
}

TEST_F(CudaDevice, RecreatedContextTakesTheSlotAsAnotherDevice) {
  const cuda::Context context = driver_.create_context(0);
  const int slot = current_cuda_device().slot();
  const std::uint64_t generation = current_cuda_device().generation();
  driver_.destroy_context(context);
  ASSERT_EQ(driver_.create_context(0), context) << "the fake driver must use the handle again";
  EXPECT_EQ(current_cuda_device().slot(), slot);
  EXPECT_GT(current_cuda_device().generation(), generation);
}

TEST_F(CudaDevice, TooManyLiveContextsAreRefusedAndDeadOnesMakeRoom) {
  std::vector<cuda::Context> contexts;
  std::set<int> slots;
  for (int i = 0; i < kMaxDevices; ++i) {
    contexts.push_back(driver_.create_context(0));
    slots.insert(current_cuda_device().slot());
  }
  EXPECT_EQ(slots.size(), static_cast<std::size_t>(kMaxDevices));
  const cuda::Context extra = driver_.create_context(0);
  const Failure failure = fake::failure_of([] { current_cuda_device(); });
  EXPECT_EQ(failure.status(), Status::unsupported);
  EXPECT_THAT(failure.what(), HasSubstr("at most 64 live contexts"));
  driver_.destroy_context(contexts[5]);
  ASSERT_EQ(driver_.stack().back(), extra);
  EXPECT_NO_THROW(current_cuda_device());
}

TEST_F(CudaDevice, MethodsMakeTheContextCurrentAndRestoreTheCallers) {
  auto device = open_cuda_device(0);
  const cuda::Context other = driver_.create_context(1);
  void* const memory = device->allocate(8);
  const std::uint64_t sent = 0x0123456789abcdef;
  std::uint64_t received = 1;
  Stream const stream = device->create_stream();
  device->copy_to_device(memory, &sent, sizeof sent, stream);
  device->copy_to_host(&received, memory, sizeof received, stream);
  device->synchronise(stream);
  EXPECT_EQ(received, sent);
  device->fill_zero(memory, 8, stream);
  device->copy_to_host(&received, memory, sizeof received, stream);
  EXPECT_EQ(received, 0U);
  device->destroy_stream(stream);
  device->release(memory);
  EXPECT_EQ(driver_.allocations(), 0);
  EXPECT_THAT(driver_.stack(), ElementsAre(other));
}

TEST_F(CudaDevice, ErrorNamesTheCallAndRestoresTheCallersContext) {
  auto device = open_cuda_device(0);
  driver_.fail("cuMemAlloc", 2);
  const Failure failure = fake::failure_of([&] { device->allocate(1); });
  EXPECT_EQ(failure.status(), Status::device_error);
  EXPECT_STREQ(failure.what(), "cuMemAlloc: the CUDA driver reports CUDA_ERROR_2 (said the fake driver)");
  EXPECT_THAT(driver_.stack(), IsEmpty());
}

TEST_F(CudaDevice, GraphReplaysInTheTimeBetweenItsEvents) {
  auto device = open_cuda_device(0);
  Stream const stream = device->create_stream();
  EXPECT_FALSE(device->capturing(stream));
  device->begin_capture(stream);
  EXPECT_TRUE(device->capturing(stream));
  const std::unique_ptr<Graph> graph = device->end_capture(stream);
  EXPECT_FALSE(device->capturing(stream));
  EXPECT_EQ(device->replay(*graph, stream), 1.5);
  EXPECT_EQ(fake::failure_of([&] { device->end_capture(stream); }).given(), "cuStreamEndCapture");
}

TEST_F(CudaDevice, AskingTheDefaultStreamDuringAForeignCaptureIsRefusedAndHarmless) {
  auto device = open_cuda_device(0);
  const cuda::DriverStream blocking = driver_.blocking_stream();
  cuda::driver().cuStreamBeginCapture(blocking, 0);
  const Failure failure = fake::failure_of([&] { device->capturing(nullptr); });
  EXPECT_THAT(failure.what(), HasSubstr("legacy default stream"));
  EXPECT_TRUE(driver_.capture_valid(blocking));
}

TEST_F(CudaDevice, MemoryAndWaitingLeaveEveryCaptureValid) {
  auto device = open_cuda_device(0);
  const cuda::DriverStream own = driver_.blocking_stream();
  const cuda::DriverStream foreign = driver_.blocking_stream();
  cuda::driver().cuStreamBeginCapture(own, cuda::kCaptureThreadLocal);
  std::thread([&] { cuda::driver().cuStreamBeginCapture(foreign, 0); }).join();
  int value = 5;
  void* const memory = device->allocate(sizeof value);
  Stream const stream = device->create_stream();
  device->copy_to_device(memory, &value, sizeof value, stream);
  device->copy_to_host(&value, memory, sizeof value, stream);
  device->synchronise(stream);
  device->release(memory);
  EXPECT_TRUE(driver_.capture_valid(own));
  EXPECT_TRUE(driver_.capture_valid(foreign));
  int mode = cuda::kCaptureRelaxed;
  cuda::driver().cuThreadExchangeStreamCaptureMode(&mode);
  EXPECT_EQ(mode, 0) << "the thread's own mode must be restored";
}

}  // namespace
}  // namespace cubit::runtime
