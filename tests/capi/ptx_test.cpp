// Proves, with fake GPUs and a prepared cache: if no store has code for the device's architecture and the engine may
// not compile, requests for a device get PTX of the newest older architecture that has every kernel of the descriptor.
#include <cubit/stream_read.h>

#include <gmock/gmock.h>
#include <cubit/cubit.hpp>

#include <nlohmann/json.hpp>

#include "tests/capi/prepared_cache.hpp"

namespace cubit {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr codegen::Code kPtx = codegen::Code::ptx;

class CapiPtx : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::plug_in(1);
    driver_.create_context(0);
    arguments_ = {sizeof arguments_, data_, sizeof data_, sums_};
  }
  Engine engine(cubit_compile_policy policy = CUBIT_COMPILE_NEVER) const {
    return Engine({.cache_dir = cache_.path(), .nvrtc_path = fake::kNoCompiler, .compile = policy});
  }
  static bool is_cached(const Engine& engine) {
    int cached = 0;
    EXPECT_EQ(cubit_engine_is_cached(engine.handle(), "stream_read", nullptr, &cached), CUBIT_OK);
    return cached != 0;
  }
  static std::string architecture_of(const Kernel& kernel) { return json::parse(kernel.describe())["architecture"]; }

  fake::PreparedCache cache_;
  fake::Controls& driver_ = fake::controls();
  alignas(16) char data_[256] = {};
  std::uint32_t sums_[CUBIT_STREAM_READ_SLOTS] = {};
  cubit_stream_read_arguments arguments_{};
};

TEST_F(CapiPtx, OfAnOlderArchitectureServesADeviceWithoutCubin) {
  cache_.add("stream_read", "sm_80", kPtx);
  cache_.add("stream_read", "sm_89", kPtx);
  cache_.add("stream_read", "sm_100", kPtx);  // newer than the device
  cache_.add("stream_read", "sm_90a", kPtx);  // for the CPU device only
  const Engine made = engine();
  EXPECT_TRUE(is_cached(made));
  const Kernel kernel = made.get("stream_read");
  EXPECT_EQ(architecture_of(kernel), "sm_89");
  kernel.launch(arguments_, {});
  EXPECT_THAT(driver_.loaded_ptx(), ElementsAre("// stream_read for sm_89"));
  EXPECT_THAT(driver_.launches(), SizeIs(1));
  EXPECT_THAT(made.warnings(),
              HasSubstr("no store has code for Fake GPU 0; the driver compiles PTX for sm_89 instead"));
  EXPECT_EQ(made.get("stream_read").handle(), kernel.handle());
  EXPECT_EQ(made.counters().compiles, 0u);
}

TEST_F(CapiPtx, ServesAnEngineWithoutACompilerToo) {
  cache_.add("stream_read", "sm_80", kPtx);
  EXPECT_EQ(architecture_of(engine(CUBIT_COMPILE_ALLOW).get("stream_read")), "sm_80");
}

TEST_F(CapiPtx, YieldsToACubin) {
  cache_.add("stream_read", "sm_80", kPtx);
  cache_.add("stream_read", "sm_90a");
  const Engine made = engine();
  EXPECT_EQ(architecture_of(made.get("stream_read")), "sm_90a");
  EXPECT_EQ(json::parse(made.warnings()), json::array());
}

TEST_F(CapiPtx, DoesNotAnswerARequestThatNamesAnArchitecture) {
  cache_.add("stream_read", "sm_80", kPtx);
  const Engine made = engine();
  made.get("stream_read");
  EXPECT_FALSE(made.is_cached("stream_read", "sm_90a"));
  EXPECT_THROW(made.get("stream_read", "sm_90a"), Error);
}

TEST_F(CapiPtx, ThatIsMissingToIsTheErrorOfTheDevicesOwnCode) {
  cache_.add("stream_read", "sm_90a", kPtx);
  const Engine made = engine();
  EXPECT_FALSE(is_cached(made));
  try {
    made.get("stream_read");
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), CUBIT_NOT_CACHED);
    EXPECT_THAT(error.what(), HasSubstr("cubit compile 'stream_read' --arch sm_90a --cache-dir '" +
                                        std::string(cache_.path()) + "')"));
  }
}

TEST_F(CapiPtx, OfASetIsTakenWhole) {
  constexpr const char* kSet = "w4a16_gemm:format=awq";
  const auto older = json::parse(members(kSet, "sm_80")).get<std::vector<std::string>>();
  ASSERT_GT(older.size(), 2u);
  for (std::size_t i = 1; i < older.size(); ++i) cache_.add(older[i], "sm_80", kPtx);
  EXPECT_THROW(engine().get(kSet), Error) << "one member is missing";
  cache_.add(older[0], "sm_80", kPtx);
  const Engine made = engine();
  const Kernel set = made.get(kSet);
  EXPECT_EQ(set.member_count(), older.size());
  EXPECT_EQ(architecture_of(set), "sm_80");
}

TEST_F(CapiPtx, IsPreparedWithItsWholeSet) {
  constexpr const char* kSet = "w4a16_gemm:format=awq";
  const auto older = json::parse(members(kSet, "sm_80")).get<std::vector<std::string>>();
  for (const std::string& member : older) cache_.add(member, "sm_80", kPtx);
  cache_.add("stream_read", "sm_90a");
  const Engine made = engine();
  const std::vector<Device> devices = {Device("cuda:0")};
  const std::vector<std::string> wanted = {kSet, "stream_read"};
  made.prepare(wanted, devices);
  EXPECT_THAT(driver_.loaded_ptx(), SizeIs(older.size()));
  EXPECT_EQ(driver_.loads(), static_cast<int>(older.size()) + 1);
  EXPECT_EQ(architecture_of(made.get(kSet)), "sm_80");
}

TEST_F(CapiPtx, ThatNeedsMoreSharedMemoryThanTheDeviceHasIsNotTaken) {
  driver_.set_capability(12, 0);
  cache_.add("gqa_decode", "sm_80", kPtx);
  cache_.add("gqa_decode", "sm_90", kPtx);
  const Engine made = engine();
  EXPECT_THROW(made.get("gqa_decode"), Error);
  cache_.add("gqa_decode", "sm_86", kPtx);
  EXPECT_EQ(architecture_of(made.get("gqa_decode")), "sm_86");
}

TEST_F(CapiPtx, ServesAGpuThatCubitDoesNotKnow) {
  driver_.set_capability(13, 0);
  EXPECT_EQ(json::parse(Device("cuda:0").describe())["target"], "cpu:sm_121");
  const Engine made = engine();
  try {
    made.get("stream_read");
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cubit compile 'stream_read' --arch sm_121 --ptx --cache-dir '"));
  }
  cache_.add("stream_read", "sm_90", kPtx);
  const Kernel kernel = made.get("stream_read");
  kernel.launch(arguments_, {});
  EXPECT_THAT(driver_.loaded_ptx(), ElementsAre("// stream_read for sm_90"));
  cache_.add("stream_read", "sm_121", kPtx);
  EXPECT_EQ(architecture_of(engine().get("stream_read")), "sm_121");
}

}  // namespace
}  // namespace cubit
