// Tests of watched launches through the C interface: a GPU refuses with the reason, and every device refuses an unknown
// watch flag. tests/mutation, tests/cover and tests/tools test the reports of a CPU device.
#include <gmock/gmock.h>

#include <cubit/cubit.hpp>
#include <nlohmann/json.hpp>

#include "tests/capi/prepared_cache.hpp"

namespace cubit {
namespace {

using ::testing::HasSubstr;

class CapiWatch : public ::testing::Test {
 protected:
  void SetUp() override { fake::plug_in(1); }
};

TEST_F(CapiWatch, AGpuWatchesNothing) {
  const Device device("cuda:0");
  for (const unsigned what : {CUBIT_WATCH_MEMORY, CUBIT_WATCH_COUNTERS, CUBIT_WATCH_MEMORY | CUBIT_WATCH_COUNTERS}) {
    try {
      device.watch(what);
      ADD_FAILURE() << "accepted: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), CUBIT_UNSUPPORTED);
      EXPECT_THAT(error.what(), HasSubstr("only a CPU device watches its launches"));
      EXPECT_THAT(error.what(), HasSubstr("compute-sanitizer"));
    }
  }
}

TEST_F(CapiWatch, AGpuMayBeToldToWatchNothingAndHasCountedNothing) {
  const Device device("cuda:0");
  EXPECT_NO_THROW(device.watch(0));
  EXPECT_EQ(device.counters(), "[]");
}

TEST_F(CapiWatch, OtherBitsAreNoWatch) {
  const Device device("cuda:0");
  for (const unsigned what : {4u, 5u, 0x80000000u}) {
    try {
      device.watch(what);
      ADD_FAILURE() << "accepted: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
      EXPECT_THAT(error.what(), HasSubstr("there is no such watch; accepted: the sum of CUBIT_WATCH_MEMORY and"));
    }
  }
}

/// ptxas has not processed the code of a CPU device, so facts that only ptxas knows are null.
TEST_F(CapiWatch, PtxHasNoRegisters) {
  const fake::PreparedCache cache;
  cache.add("stream_read");
  cache.add("stream_read", "sm_90a", codegen::Code::ptx);
  const Engine engine({.cache_dir = cache.path(), .nvrtc_path = fake::kNoCompiler, .compile = CUBIT_COMPILE_NEVER});
  const auto ptx = nlohmann::json::parse(engine.get("stream_read", "cpu:sm_90a").describe());
  const auto cubin = nlohmann::json::parse(engine.get("stream_read", "sm_90a").describe());
  for (const char* name : {"registers", "spill_bytes", "stack_bytes", "static_shared_memory"}) {
    EXPECT_TRUE(ptx.at(name).is_null()) << name;
    EXPECT_TRUE(cubin.at(name).is_number()) << name;
  }
  int numbers = 0;
  const auto listing = nlohmann::json::parse(engine.cache_list());
  ASSERT_EQ(listing.at("entries").size(), 2u);
  for (const auto& entry : listing.at("entries")) numbers += entry.at("registers").is_number() ? 1 : 0;
  EXPECT_EQ(numbers, 1);
}

/// An entry that cannot be read has no such facts either.
TEST_F(CapiWatch, ADamagedEntryHasNoRegisters) {
  const fake::PreparedCache cache;
  cache.add("stream_read");
  for (const auto& file : std::filesystem::recursive_directory_iterator(cache.path()))
    if (file.is_regular_file()) std::filesystem::resize_file(file.path(), file.file_size() - 1);
  const Engine engine({.cache_dir = cache.path(), .nvrtc_path = fake::kNoCompiler, .compile = CUBIT_COMPILE_NEVER});
  for (const std::string& json : {engine.cache_list(), engine.cache_verify()}) {
    const auto entries = nlohmann::json::parse(json).at("entries");
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_NE(entries[0].at("damage"), "");
    EXPECT_EQ(entries[0].at("descriptor"), "");
    EXPECT_TRUE(entries[0].at("registers").is_null());
    EXPECT_TRUE(entries[0].at("spill_bytes").is_null());
  }
}

/// Scripts choose GPUs from the list; the CPU device is a separate member.
TEST_F(CapiWatch, TheListOfDevicesHoldsGpusAndTheCpuBesideThem) {
  const auto all = nlohmann::json::parse(devices());
  ASSERT_EQ(all.at("devices").size(), 1u);
  EXPECT_EQ(all.at("devices")[0].at("name"), "cuda:0");
  const auto& cpu = all.at("cpu");
  const auto name = cpu.at("name").get<std::string>();
  if (cpu.at("trouble") == "") {
    EXPECT_NO_THROW(Device{name});
  } else {
    EXPECT_THROW(Device{name}, Error);
  }
}

}  // namespace
}  // namespace cubit
