// Tests a fork after the creation of an engine: the child's engine still gives kernels, and every use of a GPU is
// refused with one sentence. The parent notices nothing.
#include <cubit/stream_read.h>

#include <gmock/gmock.h>
#include <cubit/cubit.hpp>

#include "tests/capi/prepared_cache.hpp"
#include "tests/support/child.hpp"

namespace cubit {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kRule =
    "CUDA does not work in a process that was forked after its parent had started CUDA; fork "
    "before the first use of a GPU";

class CapiFork : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::plug_in(1);
    cache_.add("stream_read");
    cache_.add("stream_read:blocks_per_sm=8");
  }
  EngineOptions options() const {
    return {.cache_dir = cache_.path(), .nvrtc_path = fake::kNoCompiler, .compile = CUBIT_COMPILE_NEVER};
  }
  /// The whole sentence of the call's error, or "".
  template <class Call>
  static std::string error_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  fake::PreparedCache cache_;
  alignas(16) char data_[256] = {};
  std::uint32_t sums_[CUBIT_STREAM_READ_SLOTS] = {};
  const cubit_stream_read_arguments arguments_{sizeof arguments_, data_, sizeof data_, sums_};
};

TEST_F(CapiFork, TheChildGetsKernelsFromMemoryAndFromTheDiskCache) {
  const Engine engine(options());
  const Device device("cuda:0");
  engine.get("stream_read", "sm_90a").prepare(device);
  const std::string said = tests::said_by_child([&] {
    engine.get("stream_read", "sm_90a");
    engine.get("stream_read:blocks_per_sm=8", "sm_90a");
    const cubit_counters counters = engine.counters();
    const Engine own(options());
    own.get("stream_read", "sm_90a");
    return std::to_string(counters.memory_hits) + " " + std::to_string(counters.disk_hits);
  });
  EXPECT_EQ(said, "1 2") << "one hit in memory, and two on disk, of which the parent had one";
}

TEST_F(CapiFork, TheChildIsRefusedEveryUseOfTheGpu) {
  const Engine engine(options());
  const Device device("cuda:0");
  const Kernel kernel = engine.get("stream_read", "sm_90a");
  const LaunchOptions where{.device = &device};
  for (int i = 0; i < 3; ++i) kernel.launch(arguments_, where);  // the thread remembers this launch
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"a launch that the thread remembers", [&] { kernel.launch(arguments_, where); }},
      {"a launch on the current context", [&] { kernel.launch(arguments_, {}); }},
      {"another kernel", [&] { engine.get("stream_read:blocks_per_sm=8", "sm_90a").prepare(device); }},
      {"a kernel for the current device", [&] { engine.get("stream_read"); }},
      {"memory", [&] { Buffer(device, 16); }},
      {"a device", [&] { Device("cuda:0"); }},
  };
  for (const auto& [what, call] : calls) {
    EXPECT_THAT(tests::said_by_child([&, &called = call] { return error_of(called); }), HasSubstr(kRule)) << what;
  }
  EXPECT_THAT(tests::said_by_child([] { return devices(); }), HasSubstr("forked")) << "the list says why it is empty";
  kernel.launch(arguments_, where);
  EXPECT_THAT(fake::controls().launches(), SizeIs(4));
}

TEST_F(CapiFork, AParentOfAnotherLibraryThatStartedCudaIsFoundToo) {
  EXPECT_THAT(tests::said_by_child([] {
                runtime::cuda::use_driver_library(CUBIT_FAKE_DRIVER);  // opened by the child, started by the parent
                return error_of([] { Device("cuda:0"); });
              }),
              HasSubstr(kRule));
}

}  // namespace
}  // namespace cubit
