// Tests the path from cubit_engine_get to a launch on a fake GPU: what arrives at the driver, where it runs, and what
// is refused.
#include <cubit/stream_read.h>

#include <gmock/gmock.h>
#include <cubit/cubit.hpp>

#include <nlohmann/json.hpp>

#include "tests/capi/allocations.hpp"
#include "tests/capi/prepared_cache.hpp"

namespace cubit {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CapiLaunch : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::plug_in(2);
    cache_.add("stream_read");
    arguments_ = {sizeof arguments_, data_, sizeof data_, sums_};
  }
  Engine engine() const {
    return Engine({.cache_dir = cache_.path(), .nvrtc_path = fake::kNoCompiler, .compile = CUBIT_COMPILE_NEVER});
  }

  fake::PreparedCache cache_;
  fake::Controls& driver_ = fake::controls();
  alignas(16) char data_[256] = {};
  std::uint32_t sums_[CUBIT_STREAM_READ_SLOTS] = {};
  cubit_stream_read_arguments arguments_{};
};

/// The tests below would find no allocation if nothing counted them.
TEST(CountAllocations, CountsOperatorNew) {
#ifdef CUBIT_SANITIZED
  GTEST_SKIP() << "a sanitizer may have operators of its own";
#endif
  const tests::CountAllocations allocations;
  ::operator delete(::operator new(8));
  EXPECT_EQ(allocations.count(), 1);
}

TEST_F(CapiLaunch, OnTheCurrentContextAndNothingElse) {
  driver_.create_context(1);
  const auto before = driver_.stack();
  const Kernel kernel = engine().get("stream_read");  // the kernel outlives its engine
  EXPECT_EQ(driver_.loads(), 0) << "get touches no device";
  kernel.launch(arguments_, {});
  EXPECT_EQ(driver_.stack(), before);
  ASSERT_THAT(driver_.launches(), SizeIs(1));
  EXPECT_EQ(driver_.launches()[0].threads, 512U);
  EXPECT_EQ(driver_.launches()[0].grid[0], 528U);  // 132 SMs, 4 blocks each
}

TEST_F(CapiLaunch, OnANamedDeviceWhoseContextIsCurrentForTheCallOnly) {
  const Device device("cuda:1");
  const Kernel kernel = engine().get("stream_read:blocks_per_sm=4", "sm_90a");
  kernel.launch(arguments_, {.device = &device, .stream = device.create_stream()});
  EXPECT_THAT(driver_.stack(), IsEmpty());
  ASSERT_THAT(driver_.launches(), SizeIs(1));
  EXPECT_EQ(kernel.workspace(arguments_, &device), 0U);
  EXPECT_THROW(kernel.launch(arguments_, {}), Error) << "no context is current";
  EXPECT_EQ(cubit_last_error()->status, CUBIT_INVALID_ARGUMENT);
}

TEST_F(CapiLaunch, RefusedDuringCaptureUntilPreparedAndTheGraphIsGood) {
  const Device device("cuda:0");
  const Kernel kernel = engine().get("stream_read", "sm_90a");
  cubit_stream const stream = device.create_stream();
  const Graph graph = device.capture(stream, [&] {
    try {
      kernel.launch(arguments_, {.device = &device, .stream = stream});
      ADD_FAILURE() << "must be refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), CUBIT_NOT_RESIDENT);
      EXPECT_THAT(error.what(), HasSubstr("stream_read"));
    }
    kernel.prepare(device);
    kernel.launch(arguments_, {.device = &device, .stream = stream});
  });
  ASSERT_THAT(driver_.launches(), SizeIs(1));
  EXPECT_TRUE(driver_.launches()[0].captured);
  EXPECT_EQ(device.replay(graph, stream), 1.5);
}

TEST_F(CapiLaunch, AGraphIsReplayedOnItsOwnDeviceOnly) {
  const Device device("cuda:0");
  const Device same("cuda:0");
  const Device other("cuda:1");
  cubit_stream const stream = device.create_stream();
  const Graph graph = device.capture(stream, [] {});
  EXPECT_EQ(same.replay(graph, stream), 1.5) << "another handle of the device";
  EXPECT_THROW(other.replay(graph, other.create_stream()), Error);
  EXPECT_EQ(cubit_last_error()->status, CUBIT_INVALID_ARGUMENT);
  EXPECT_STREQ(
      cubit_last_error()->message,
      "cubit_graph_replay: graph: another device captured this graph; give the device that captured the graph");
}

TEST_F(CapiLaunch, RepeatedRequestAndLaunchAllocateNothing) {
  driver_.create_context(0);
  const Engine made = engine();
  const Kernel kernel = made.get("stream_read");
  const cubit_launch where{sizeof where, nullptr, nullptr, nullptr, 0, 0};
  ASSERT_EQ(cubit_kernel_launch(kernel.handle(), &arguments_, &where), CUBIT_OK);
  cubit_kernel* again = nullptr;
  cubit_status got = CUBIT_INTERNAL;
  cubit_status launched = CUBIT_INTERNAL;
  {
    const tests::CountAllocations allocations;
    got = cubit_engine_get(made.handle(), "stream_read", "sm_90a", &again);
    EXPECT_EQ(allocations.count(), 0);
    launched = cubit_kernel_launch(again, &arguments_, &where);
    EXPECT_EQ(allocations.count(), 0);
  }
  EXPECT_EQ(got, CUBIT_OK);
  EXPECT_EQ(launched, CUBIT_OK);
  EXPECT_EQ(again, kernel.handle()) << "one kernel, one handle";
  cubit_kernel_release(again);
}

TEST_F(CapiLaunch, OperatorsArgumentErrorsComeThrough) {
  driver_.create_context(0);
  const Kernel kernel = engine().get("stream_read");
  arguments_.bytes = 15;
  EXPECT_THROW(kernel.launch(arguments_, {}), Error);
  EXPECT_EQ(cubit_last_error()->status, CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(driver_.launches(), IsEmpty());
}

TEST_F(CapiLaunch, LaunchStructSizesAreChecked) {
  driver_.create_context(0);
  const Kernel kernel = engine().get("stream_read");
  cubit_launch where{offsetof(cubit_launch, workspace), nullptr, nullptr, nullptr, 0, 0};
  EXPECT_EQ(cubit_kernel_launch(kernel.handle(), &arguments_, &where), CUBIT_OK);
  where.size = sizeof where + 8;
  EXPECT_EQ(cubit_kernel_launch(kernel.handle(), &arguments_, &where), CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("cubit_launch.size"));
}

TEST_F(CapiLaunch, OperatorsKernelIsNotLaunchedRaw) {
  driver_.create_context(0);
  const Kernel kernel = engine().get("stream_read");
  EXPECT_THROW(kernel.launch_raw(1, 1, 1, 7, {}), Error);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("launch this kernel with cubit_kernel_launch"));
}

TEST_F(CapiLaunch, DescribeTellsWhatItIs) {
  const Kernel kernel = engine().get("stream_read", "sm_90a");
  const auto about = nlohmann::json::parse(kernel.describe());
  EXPECT_EQ(about["descriptor"], "stream_read");
  EXPECT_EQ(about["architecture"], "sm_90a");
  EXPECT_EQ(about["compiler"], "12.8.0");
  EXPECT_EQ(about["registers"], 42);
  EXPECT_EQ(about["threads"], 512);
  EXPECT_EQ(about["cubin_bytes"], 64);
  EXPECT_EQ(about["artifact_id"].get<std::string>(), about["request_key"].get<std::string>() + "-nvrtc12.8.0");
  EXPECT_EQ(kernel.cubin().size(), 64U);
}

class CapiRaw : public CapiLaunch {
 protected:
  void SetUp() override {
    CapiLaunch::SetUp();
    driver_.create_context(0);
    source_.size = sizeof source_;
    source_.name = "mine:1";
    source_.template_name = "mine.cuh";
    source_.template_text = "extern \"C\" __global__ void mine() {}\n";
    source_.entry_point = "mine";
    source_.threads = 64;
    source_.dynamic_shared_memory = 1024;
    cache_.add(codegen::assemble(source_.name, {source_.template_name, source_.template_text}, "",
                                 codegen::find_architecture("sm_90a"), source_.entry_point, {64, 1024},
                                 codegen::HeaderLibrary({})));
  }
  cubit_source source_{};
};

TEST_F(CapiRaw, ParametersGridAndShapeArrive) {
  const Kernel kernel = engine().get(source_, "sm_90a");
  kernel.launch_raw(5, 6, 7, 4711, {});
  ASSERT_THAT(driver_.launches(), SizeIs(1));
  const fake::LaunchRecord record = driver_.launches()[0];
  EXPECT_THAT(record.grid, ::testing::ElementsAre(5, 6, 7));
  EXPECT_EQ(record.threads, 64U);
  EXPECT_EQ(record.shared_bytes, 1024U);
  EXPECT_EQ(record.first_parameter, 4711);
  EXPECT_EQ(nlohmann::json::parse(kernel.describe())["descriptor"], "mine:1");
}

TEST_F(CapiRaw, ImpossibleGridsAndParametersAreRefused) {
  const Kernel kernel = engine().get(source_, "sm_90a");
  EXPECT_THROW(kernel.launch_raw(0, 1, 1, 1, {}), Error);
  EXPECT_THROW(kernel.launch_raw(0x80000000U, 1, 1, 1, {}), Error);
  EXPECT_THROW(kernel.launch_raw(1, 65536, 1, 1, {}), Error);
  EXPECT_THROW(kernel.launch_raw(1, 1, 65536, 1, {}), Error);
  EXPECT_THROW(kernel.launch_raw(1, 1, 1, std::array<char, 32765>{}, {}), Error);
  EXPECT_THROW(kernel.launch(arguments_, {}), Error) << "it has no operator";
  EXPECT_THROW(kernel.workspace(arguments_), Error) << "nor does it know of a workspace";
  EXPECT_THAT(driver_.launches(), IsEmpty());
}

}  // namespace
}  // namespace cubit
