// Proves: cubit_engine_prepare makes every kernel resident on every device. A failure names the kernel that could not
// be prepared, and all other kernels are still prepared.
#include <gmock/gmock.h>
#include <cubit/cubit.hpp>

#include "tests/capi/prepared_cache.hpp"

namespace cubit {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CapiPrepare : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::plug_in(2);
    for (const std::string& text : texts_) cache_.add(text);
  }
  Engine engine() const {
    return Engine({.cache_dir = cache_.path(), .nvrtc_path = fake::kNoCompiler, .compile = CUBIT_COMPILE_NEVER});
  }

  const std::vector<std::string> texts_ = {"stream_read", "stream_read:blocks_per_sm=2", "stream_read:blocks_per_sm=8"};
  fake::PreparedCache cache_;
  fake::Controls& driver_ = fake::controls();
};

TEST_F(CapiPrepare, LoadsEveryDescriptorOnEveryDeviceOnce) {
  const std::vector<Device> devices = {Device("cuda:0"), Device("cuda:1")};
  const Engine made = engine();
  made.prepare(texts_, devices);
  EXPECT_EQ(driver_.loads(), 6);
  made.prepare(texts_, devices);
  EXPECT_EQ(driver_.loads(), 6);
  EXPECT_EQ(made.counters().disk_hits, 3U);
  EXPECT_THAT(driver_.stack(), IsEmpty());
}

TEST_F(CapiPrepare, WithoutDevicesTheCurrentContextIsMeant) {
  const Engine made = engine();
  EXPECT_THROW(made.prepare(texts_), Error);
  driver_.create_context(0);
  const auto before = driver_.stack();
  made.prepare(texts_);
  EXPECT_EQ(driver_.loads(), 3);
  EXPECT_EQ(driver_.stack(), before);
}

TEST_F(CapiPrepare, FirstFailureIsNamedAndTheRestIsDone) {
  const std::vector<Device> devices = {Device("cuda:1")};
  const std::vector<std::string> texts = {"stream_read", "stream_read:blocks_per_sm=3", "gqa_decode",
                                          "stream_read:blocks_per_sm=8"};
  try {
    engine().prepare(texts, devices);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
    EXPECT_THAT(error.what(), HasSubstr("preparing stream_read:blocks_per_sm=3 for Fake GPU 1"));
  }
  EXPECT_EQ(driver_.loads(), 2);
}

TEST_F(CapiPrepare, NothingToDoNeedsNoDevice) { EXPECT_NO_THROW(engine().prepare({})); }

}  // namespace
}  // namespace cubit
