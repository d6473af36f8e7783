// Proves: a kernel's code is loaded once per context, never while its stream is captured, and never reused for a new
// context with an old context's handle.
#include <atomic>
#include <barrier>
#include <memory>
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
using ::testing::SizeIs;

constexpr int kShared = 100 * 1024;

Artifact artifact(const std::string& target = "sm_90a") {
  Artifact made;
  made.descriptor = "test:kernel=1";
  made.target = target;
  made.entry_point = "entry";
  made.cubin.resize(64);
  return made;
}

const LaunchShape kShape{{3, 2, 1}, 128, kShared};

class Residency : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::plug_in(2);
    context_ = driver_.create_context(0);
    stream_ = driver_.blocking_stream();
  }
  void launch(Stream stream) { kernel_->launch(current_cuda_device(), kShape, parameters(), stream); }
  static std::span<const std::byte> parameters() {
    static const int values[4] = {77, 1, 2, 3};
    return std::as_bytes(std::span(values));
  }

  fake::Controls& driver_ = fake::controls();
  cuda::Context context_ = nullptr;
  cuda::DriverStream stream_ = nullptr;
  std::unique_ptr<Kernel> kernel_ = std::make_unique<Kernel>(artifact(), codegen::LaunchFacts{128, kShared});
};

TEST_F(Residency, FirstLaunchLoadsAndPassesEverythingOn) {
  EXPECT_FALSE(kernel_->resident(current_cuda_device()));
  launch(stream_);
  launch(nullptr);
  EXPECT_TRUE(kernel_->resident(current_cuda_device()));
  EXPECT_EQ(driver_.loads(), 1);
  ASSERT_THAT(driver_.launches(), SizeIs(2));
  const fake::LaunchRecord record = driver_.launches()[0];
  EXPECT_EQ(record.stream, stream_);
  EXPECT_THAT(record.grid, ElementsAre(3, 2, 1));
  EXPECT_EQ(record.threads, 128U);
  EXPECT_EQ(record.shared_bytes, static_cast<unsigned>(kShared));
  EXPECT_EQ(record.first_parameter, 77);
  EXPECT_EQ(driver_.launches()[1].stream, nullptr);
}

TEST_F(Residency, LaunchNeitherMakesNorSwitchesContexts) {
  const auto before = driver_.stack();
  launch(stream_);
  launch(stream_);
  EXPECT_EQ(driver_.stack(), before);
  EXPECT_EQ(driver_.primary_retains(0), 0);
}

TEST_F(Residency, LaunchDuringCaptureIsRefusedAndTheCaptureGoesOn) {
  Device& device = current_cuda_device();
  device.begin_capture(stream_);
  const Failure failure = fake::failure_of([&] { launch(stream_); });
  EXPECT_EQ(failure.status(), Status::not_resident);
  EXPECT_THAT(failure.what(), HasSubstr("test:kernel=1"));
  EXPECT_THAT(failure.what(), HasSubstr("prepare the kernel before the capture begins"));
  EXPECT_TRUE(driver_.capture_valid(stream_));
  EXPECT_EQ(driver_.loads(), 0);
  EXPECT_THAT(driver_.launches(), IsEmpty());

  kernel_->prepare(device);
  EXPECT_TRUE(driver_.capture_valid(stream_)) << "prepare is allowed while a stream of this thread is captured";
  launch(stream_);
  ASSERT_THAT(driver_.launches(), SizeIs(1));
  EXPECT_TRUE(driver_.launches()[0].captured);
  EXPECT_NE(device.end_capture(stream_), nullptr);
}

TEST_F(Residency, LaunchOnTheDefaultStreamDoesNotBreakAForeignCapture) {
  current_cuda_device().begin_capture(stream_);
  EXPECT_EQ(fake::failure_of([&] { launch(nullptr); }).status(), Status::device_error);
  EXPECT_TRUE(driver_.capture_valid(stream_));
}

TEST_F(Residency, LoadingLeavesAGlobalCaptureOfAnotherThreadValid) {
  const cuda::DriverStream foreign = driver_.blocking_stream();
  std::thread([&] { cuda::driver().cuStreamBeginCapture(foreign, 0); }).join();
  launch(stream_);
  EXPECT_EQ(driver_.loads(), 1);
  EXPECT_TRUE(driver_.capture_valid(foreign));
  kernel_.reset();
  EXPECT_EQ(driver_.unloads(), 1);
  EXPECT_TRUE(driver_.capture_valid(foreign));
}

TEST_F(Residency, EveryContextLoadsOnceAndHasItsOwnSharedMemoryLimit) {
  launch(nullptr);
  driver_.create_context(0);
  launch(nullptr);
  launch(nullptr);
  cuda::Context popped = nullptr;
  cuda::driver().cuCtxPopCurrent(&popped);
  launch(nullptr);
  EXPECT_EQ(driver_.loads(), 2);
  const auto limits = driver_.limits();
  ASSERT_THAT(limits, SizeIs(2));
  EXPECT_NE(limits[0].context, limits[1].context);
  for (const fake::LimitRecord& limit : limits) EXPECT_EQ(limit.bytes, kShared);
  EXPECT_THAT(driver_.launches(), SizeIs(4));
}

TEST_F(Residency, LimitIsRaisedOnlyAboveFortyEightKibibytesOfBothKinds) {
  Artifact with_static = artifact();
  with_static.resources.static_shared_memory = 1024;
  Kernel below(artifact(), {128, 48 * 1024});
  below.prepare(current_cuda_device());
  EXPECT_THAT(driver_.limits(), IsEmpty());
  Kernel above(with_static, {128, 48 * 1024});
  above.prepare(current_cuda_device());
  EXPECT_THAT(driver_.limits(), SizeIs(1));
}

TEST_F(Residency, RecreatedContextLoadsAgain) {
  launch(nullptr);
  driver_.destroy_context(context_);
  ASSERT_EQ(driver_.create_context(0), context_);
  EXPECT_FALSE(kernel_->resident(current_cuda_device()));
  launch(nullptr);
  EXPECT_EQ(driver_.loads(), 2);
  EXPECT_EQ(driver_.unloads(), 1) << "what the dead context had is given back";
  EXPECT_NE(driver_.launches()[0].context, driver_.launches()[1].context);
}

TEST_F(Residency, ThreadsRacingOnTheFirstLaunchLoadOnce) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    Kernel kernel(artifact(), {128, kShared});
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        cuda::driver().cuCtxPushCurrent(context_);
        start.arrive_and_wait();
        kernel.launch(current_cuda_device(), kShape, parameters(), nullptr);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(driver_.loads(), round + 1);
  }
  EXPECT_THAT(driver_.launches(), SizeIs(kThreads * kRounds));
}

TEST_F(Residency, FailedLoadIsNotRememberedAndLeaksNothing) {
  driver_.fail("cuKernelGetFunction", 2);
  EXPECT_EQ(fake::failure_of([&] { launch(nullptr); }).given(), "cuKernelGetFunction");
  EXPECT_EQ(driver_.loads(), driver_.unloads());
  driver_.fail("cuKernelGetFunction", 0);
  launch(nullptr);
  EXPECT_THAT(driver_.launches(), SizeIs(1));
}

TEST_F(Residency, ClustersAreALaunchsOwn) {
  const auto launch_clusters = [&](int most, unsigned blocks) {
    Kernel kernel(artifact(), {128, kShared, most});
    kernel.launch(current_cuda_device(), {{32, 1, 1}, 128, kShared, blocks}, parameters(), nullptr);
  };
  launch_clusters(8, 8);
  EXPECT_EQ(driver_.launches().back().cluster_blocks, 8U);
  launch_clusters(16, 16);
  EXPECT_EQ(driver_.launches().back().cluster_blocks, 16U);
  launch_clusters(16, 1);
  EXPECT_EQ(driver_.launches().back().cluster_blocks, 1U);
  EXPECT_EQ(fake::failure_of([&] { launch_clusters(8, 16); }).given(), "cuLaunchKernelEx");
}

TEST_F(Residency, OverlapIsALaunchsOwnWithClustersOrWithout) {
  for (const unsigned blocks : {1U, 8U}) {
    for (const bool overlap : {false, true}) {
      Kernel kernel(artifact(), {128, kShared, 8});
      kernel.launch(current_cuda_device(), {{32, 1, 1}, 128, kShared, blocks, overlap}, parameters(), nullptr);
      EXPECT_EQ(driver_.launches().back().cluster_blocks, blocks);
      EXPECT_EQ(driver_.launches().back().overlap, overlap);
    }
  }
}

TEST_F(Residency, ALaunchMayAskForMoreSharedMemoryUpToTheMost) {
  constexpr int kMost = 200 << 10;
  const auto launch_with = [&](const codegen::LaunchFacts& facts, int bytes) {
    Kernel kernel(artifact(), facts);
    kernel.launch(current_cuda_device(), {{32, 1, 1}, 128, static_cast<unsigned>(bytes), 1, true}, parameters(),
                  nullptr);
  };
  const codegen::LaunchFacts usual{.threads = 128, .dynamic_shared_memory = kShared};
  codegen::LaunchFacts more = usual;
  more.shared_memory_limit = kMost;
  launch_with(more, kMost);
  EXPECT_EQ(driver_.launches().back().shared_bytes, static_cast<unsigned>(kMost));
  EXPECT_EQ(fake::failure_of([&] { launch_with(usual, kMost); }).given(), "cuLaunchKernelEx");
  EXPECT_EQ(fake::failure_of([&] { launch_with(more, kMost + 1); }).given(), "cuLaunchKernelEx");
  Artifact with_static = artifact();
  with_static.resources.static_shared_memory = 1024;
  Kernel kernel(with_static, more);
  const LaunchShape shape{{32, 1, 1}, 128, kMost - 1024, 1, true};
  kernel.launch(current_cuda_device(), shape, parameters(), nullptr);
  EXPECT_EQ(driver_.launches().back().shared_bytes, kMost - 1024U);
}

TEST_F(Residency, LaunchErrorNamesTheCall) {
  driver_.fail("cuLaunchKernel", 719);
  EXPECT_EQ(fake::failure_of([&] { launch(nullptr); }).given(), "cuLaunchKernel");
}

TEST_F(Residency, CodeOfAnotherArchitectureIsRefused) {
  for (const char* target : {"sm_80", "sm_89", "sm_100a", "sm_120"}) {
    Kernel kernel(artifact(target), {128, 0});
    const Failure failure = fake::failure_of([&] { kernel.prepare(current_cuda_device()); });
    EXPECT_EQ(failure.status(), Status::unsupported) << target;
    EXPECT_THAT(failure.what(), HasSubstr("get the kernel for sm_90a"));
  }
  EXPECT_EQ(driver_.loads(), 0);
  Kernel generic(artifact("sm_90"), {128, 0});
  EXPECT_NO_THROW(generic.prepare(current_cuda_device()));
}

TEST_F(Residency, KernelGivesItsCodeBack) {
  launch(nullptr);
  kernel_.reset();
  EXPECT_EQ(driver_.unloads(), 1);
}

TEST_F(Residency, KernelMayDieAfterItsContextAndAfterTheDriver) {
  Kernel other(artifact(), {128, kShared});
  launch(nullptr);
  other.prepare(current_cuda_device());
  driver_.destroy_context(context_);
  kernel_.reset();
  EXPECT_EQ(driver_.unloads(), 1);
  driver_.shut_down();
}

}  // namespace
}  // namespace cubit::runtime
