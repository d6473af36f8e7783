// Proves: an engine of the C interface takes bundles from files and from memory, counts them as stores, and ignores the
// members that an older caller does not know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cubit/cubit.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ops/session.hpp"
#include "runtime/bundle/writer.hpp"
#include "tests/capi/prepared_cache.hpp"

namespace {

using nlohmann::json;
using testing::HasSubstr;

class CapiBundles : public testing::Test {
 protected:
  /// A bundle with the kernels of `descriptor` for sm_80.
  static std::string bundle_of(const std::string& descriptor) {
    cubit::runtime::BundleWriter writer;
    for (const auto& source : cubit::ops::Session::sources(descriptor, cubit::codegen::find_architecture("sm_80"))) {
      writer.add(pack(cubit::fake::PreparedCache::artifact_of(source), "0.1.0"));
    }
    return writer.bytes();
  }
  /// Options of an engine that has nothing but bundles.
  static cubit::EngineOptions only(const char* files) {
    return {.cache_dir = "", .compile = CUBIT_COMPILE_NEVER, .system_caches = "", .bundles = files};
  }
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directory(folder_.path());
    const std::string path = std::string(folder_.path()) + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  cubit::fake::PreparedCache folder_;
};

TEST_F(CapiBundles, FilesAndMemoryAnswer) {
  const std::string files = write("a.cubit", bundle_of("merge")) + ":" + write("b.cubit", bundle_of("kv_append"));
  const std::string memory = bundle_of("stream_read");
  cubit::EngineOptions options = only(files.c_str());
  options.bundle_memory = {{"linked", memory.data(), memory.size()}};
  const cubit::Engine engine(std::move(options));
  for (const char* descriptor : {"merge", "kv_append", "stream_read"}) {
    EXPECT_TRUE(engine.is_cached(descriptor, "sm_80")) << descriptor;
    EXPECT_NO_THROW(engine.get(descriptor, "sm_80")) << descriptor;
    EXPECT_FALSE(engine.is_cached(descriptor, "sm_90a")) << descriptor;
  }
  EXPECT_EQ(engine.counters().disk_hits, 3U);
  const json stores = json::parse(engine.stores());
  ASSERT_EQ(stores.size(), 4U);
  EXPECT_EQ(stores[2]["kind"], "bundle");
  EXPECT_THAT(stores[2]["name"].get<std::string>(), testing::EndsWith("b.cubit"));
  EXPECT_EQ(stores[2]["hits"], 1);
  EXPECT_EQ(stores[3]["name"], "linked");
  EXPECT_EQ(stores[3]["readable"], true);
  EXPECT_EQ(stores[3]["hits"], 1);
}

TEST_F(CapiBundles, TheVariableNamesFilesUnlessTheCallerDoes) {
  setenv("CUBIT_BUNDLES", write("a.cubit", bundle_of("merge")).c_str(), 1);
  EXPECT_TRUE(cubit::Engine(only(nullptr)).is_cached("merge", "sm_80"));
  EXPECT_FALSE(cubit::Engine(only("")).is_cached("merge", "sm_80"));
  unsetenv("CUBIT_BUNDLES");
}

TEST_F(CapiBundles, PublicKeysRefuseWhatIsNotSigned) {
  const std::string file = write("a.cubit", bundle_of("merge"));
  folder_.add("kv_append", "sm_80");
  cubit::EngineOptions options = only(file.c_str());
  options.cache_dir = folder_.path();
  const std::string key(64, '1');
  options.public_keys = key.c_str();
  EXPECT_FALSE(cubit::Engine(options).is_cached("merge", "sm_80"));
  EXPECT_FALSE(cubit::Engine(options).is_cached("kv_append", "sm_80"));
  const json miss = json::parse(cubit::Engine(options).explain_miss("merge", "sm_80"))[0];
  EXPECT_EQ(miss["cached_in"], "");
  ASSERT_EQ(miss["unused"].size(), 2U);
  EXPECT_EQ(miss["unused"][0]["store"], folder_.path());
  EXPECT_EQ(miss["unused"][1]["store"], file);
  EXPECT_THAT(miss["unused"][1]["reason"].get<std::string>(), HasSubstr("it is not signed"));
  options.compile = CUBIT_COMPILE_ALLOW;
  options.nvrtc_path = cubit::fake::kNoCompiler;
  const auto code_of_get = [&] {
    try {
      cubit::Engine(options).get("merge", "sm_80");
      return CUBIT_OK;
    } catch (const cubit::Error& error) {
      return error.code();
    }
  };
  EXPECT_EQ(code_of_get(), CUBIT_NOT_CACHED);
  options.allow_local_compile = true;
  EXPECT_EQ(code_of_get(), CUBIT_COMPILER_UNAVAILABLE) << "the engine would compile";
  options.public_keys = "";
  EXPECT_TRUE(cubit::Engine(options).is_cached("merge", "sm_80"));
  EXPECT_TRUE(cubit::Engine(options).is_cached("kv_append", "sm_80"));
  options.public_keys = "1234";
  EXPECT_EQ(code_of_get(), CUBIT_INVALID_ARGUMENT);
}

TEST_F(CapiBundles, AMissIsExplainedByTheNearestEntry) {
  const std::string file = write("a.cubit", bundle_of("merge:head_dim=64"));
  const cubit::Engine engine(only(file.c_str()));
  const json found = json::parse(engine.explain_miss("merge:head_dim=64", "sm_80"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["cached_in"], file);
  EXPECT_EQ(found[0]["nearest"], nullptr);
  const json missed = json::parse(engine.explain_miss("merge", "sm_80"));
  EXPECT_EQ(missed[0]["cached_in"], "");
  EXPECT_EQ(missed[0]["nearest"]["store"], file);
  EXPECT_EQ(missed[0]["nearest"]["descriptor"], "merge:head_dim=64");
  EXPECT_THAT(missed[0]["nearest"]["differences"].dump(), HasSubstr("the text of header plan.cuh differs"));
  EXPECT_EQ(missed[0]["nearest"]["architecture"], "sm_80");
  const json elsewhere = json::parse(engine.explain_miss("merge", "sm_90a"))[0]["nearest"];
  EXPECT_EQ(elsewhere["architecture"], "sm_80");
  EXPECT_EQ(elsewhere["differences"].size(), 1U);
  EXPECT_EQ(json::parse(cubit::Engine(only("")).explain_miss("merge", "sm_80"))[0]["nearest"], nullptr);
}

TEST_F(CapiBundles, MembersThatAnOlderCallerDoesNotKnowAreIgnored) {
  const std::string file = write("a.cubit", bundle_of("merge"));
  cubit_engine_options options{};
  options.size = offsetof(cubit_engine_options, bundles);
  options.cache_dir = options.system_caches = "";
  options.bundles = file.c_str();
  options.bundle_memory_count = 7;
  cubit_engine* engine = nullptr;
  ASSERT_EQ(cubit_engine_create(&options, &engine), CUBIT_OK) << cubit_last_error()->message;
  int cached = 1;
  EXPECT_EQ(cubit_engine_is_cached(engine, "merge", "sm_80", &cached), CUBIT_OK);
  EXPECT_EQ(cached, 0);
  cubit_engine_release(engine);
}

TEST_F(CapiBundles, MemoryWithoutNameOrDataIsRefused) {
  const std::string memory = bundle_of("merge");
  for (const cubit_bundle_memory& bundle :
       {cubit_bundle_memory{nullptr, memory.data(), memory.size()}, cubit_bundle_memory{"linked", nullptr, 10}}) {
    cubit::EngineOptions options = only("");
    options.bundle_memory = {bundle};
    try {
      cubit::Engine engine(std::move(options));
      FAIL();
    } catch (const cubit::Error& error) {
      EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
      EXPECT_THAT(error.what(), HasSubstr("cubit_bundle_memory"));
    }
  }
}

}  // namespace
