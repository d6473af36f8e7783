// Tests of engine options, struct sizes of older and newer callers, the log sink, and user sources that are refused
// before compilation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cubit/cubit.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// Options for an engine without disk cache and without compiler, independent of the machine.
cubit_engine_options offline() {
  cubit_engine_options options{};
  options.size = sizeof options;
  options.cache_dir = "";
  options.compile = CUBIT_COMPILE_NEVER;
  return options;
}

cubit_status create(const cubit_engine_options& options) {
  cubit_engine* engine = nullptr;
  const cubit_status status = cubit_engine_create(&options, &engine);
  EXPECT_EQ(engine == nullptr, status != CUBIT_OK);
  cubit_engine_release(engine);
  return status;
}

TEST(EngineOptions, SizesOfOlderCallersAreFineUnknownOnesAreRefused) {
  cubit_engine_options options = offline();
  options.size = offsetof(cubit_engine_options, log);
  EXPECT_EQ(create(options), CUBIT_OK);
  for (const std::size_t size : {std::size_t{0}, sizeof(std::size_t), sizeof options + 8, std::size_t{13}}) {
    options.size = size;
    EXPECT_EQ(create(options), CUBIT_INVALID_ARGUMENT) << size;
    EXPECT_THAT(cubit_last_error()->message, HasSubstr("cubit_engine_options.size = " + std::to_string(size)));
    EXPECT_THAT(cubit_last_error()->message, HasSubstr("sizeof(cubit_engine_options)"));
  }
}

TEST(EngineOptions, MembersBeyondAnOlderCallersSizeAreNotRead) {
  struct {
    std::size_t size;
    const char* cache_dir;
    const void* beyond[16];
  } older = {offsetof(cubit_engine_options, nvrtc_path), "", {}};
  for (const void*& member : older.beyond) member = reinterpret_cast<const void*>(1);
  static_assert(sizeof older >= sizeof(cubit_engine_options));
  cubit_engine* engine = nullptr;
  EXPECT_EQ(cubit_engine_create(reinterpret_cast<const cubit_engine_options*>(&older), &engine), CUBIT_OK);
  cubit_engine_release(engine);
}

TEST(EngineOptions, UnknownPolicyIsRefused) {
  cubit_engine_options options = offline();
  const int unknown = 3;
  std::memcpy(&options.compile, &unknown, sizeof unknown);
  EXPECT_EQ(create(options), CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("compile = 3"));
}

TEST(EngineOptions, PolicyOfTheEnvironmentHoldsUnlessTheCallerSaysOtherwise) {
  setenv("CUBIT_COMPILE", "never", 1);
  const cubit::Engine engine({.cache_dir = ""});
  try {
    engine.get("stream_read:blocks_per_sm=4", "sm_80");
    FAIL();
  } catch (const cubit::Error& error) {
    EXPECT_EQ(error.code(), CUBIT_NOT_CACHED);
    EXPECT_THAT(error.what(), HasSubstr("stream_read for sm_80"));
  }
  unsetenv("CUBIT_COMPILE");
}

TEST(EngineOptions, VariableThatIsNoPolicyMattersOnlyWhereItIsAskedFor) {
  setenv("CUBIT_COMPILE", "maybe", 1);
  cubit_engine_options options = offline();
  for (const cubit_compile_policy policy : {CUBIT_COMPILE_ALLOW, CUBIT_COMPILE_NEVER}) {
    options.compile = policy;
    EXPECT_EQ(create(options), CUBIT_OK) << cubit_last_error()->message;
  }
  options.compile = CUBIT_COMPILE_FROM_ENVIRONMENT;
  EXPECT_EQ(create(options), CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("CUBIT_COMPILE=maybe"));
  unsetenv("CUBIT_COMPILE");
}

TEST(EngineOptions, CompilerPolicyTrustAndStoresAreTheCallers) {
  cubit_engine_options options = offline();
  const int unknown = 3;
  std::memcpy(&options.compiler, &unknown, sizeof unknown);
  EXPECT_EQ(create(options), CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("compiler = 3"));
  options = offline();
  options.cache_trust = "everybody";
  EXPECT_EQ(create(options), CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("everybody"));

  const cubit::Engine engine(
      {.cache_dir = "", .compile = CUBIT_COMPILE_NEVER, .system_caches = "/nowhere/a:/nowhere/b"});
  const json stores = json::parse(engine.stores());
  ASSERT_EQ(stores.size(), 3U);
  EXPECT_EQ(stores[0]["kind"], "folder");
  EXPECT_EQ(stores[1]["kind"], "system folder");
  EXPECT_EQ(stores[2]["name"], "/nowhere/b");
  EXPECT_EQ(stores[2]["readable"], false);
  EXPECT_FALSE(engine.is_cached("stream_read", "sm_80"));
}

TEST(Engine, CountersOfAnOlderCallerAreFilledAsFarAsTheyGo) {
  cubit_engine* engine = nullptr;
  const cubit_engine_options options = offline();
  ASSERT_EQ(cubit_engine_create(&options, &engine), CUBIT_OK);
  cubit_kernel* kernel = nullptr;
  EXPECT_EQ(cubit_engine_get(engine, "stream_read", "sm_80", &kernel), CUBIT_NOT_CACHED);
  cubit_counters counters{};
  counters.size = offsetof(cubit_counters, waits);
  counters.waits = 1234;
  EXPECT_EQ(cubit_engine_counters(engine, &counters), CUBIT_OK);
  EXPECT_EQ(counters.failures, 1U);
  EXPECT_EQ(counters.waits, 1234U);
  EXPECT_EQ(counters.size, offsetof(cubit_counters, waits));
  cubit_engine_release(engine);
}

TEST(Engine, UnusableCacheFolderIsOneWarningToTheSink) {
  const auto file = std::filesystem::temp_directory_path() / ("cubit_capi_file_" + std::to_string(getpid()));
  std::ofstream(file) << "not a folder";
  std::vector<std::pair<cubit_log_level, std::string>> lines;
  const std::string folder = file.string();
  const cubit::Engine engine(
      {.cache_dir = folder.c_str(),
       .compile = CUBIT_COMPILE_NEVER,
       .log = [&](cubit_log_level level, std::string_view line) { lines.emplace_back(level, line); }});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].first, CUBIT_LOG_WARNING);
  EXPECT_THAT(lines[0].second, HasSubstr(folder));
  const json cache = json::parse(engine.cache_list());
  EXPECT_EQ(cache["readable"], false);
  EXPECT_NE(cache["trouble"], "");
  std::filesystem::remove(file);
}

/// A path to no folder, with an escape character and a newline.
std::string hostile_path() { return "/dev/null/\x1b[2J\nfolder"; }
constexpr const char* kEscapedPath = "/dev/null/\\x1b[2J\\nfolder";

TEST(Engine, WarningsAreKeptWithoutALogFunction) {
  const std::string folder = hostile_path();
  const cubit::Engine engine({.cache_dir = folder.c_str(), .compile = CUBIT_COMPILE_NEVER});
  const json warnings = json::parse(engine.warnings());
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr(kEscapedPath));
  EXPECT_EQ(cubit::Engine({.cache_dir = "", .compile = CUBIT_COMPILE_NEVER}).warnings(), "[]");
}

TEST(Engine, LogLinesHaveNoEscapeCharacters) {
  const std::string folder = hostile_path();
  std::vector<std::string> lines;
  const cubit::Engine engine({.cache_dir = folder.c_str(),
                              .compile = CUBIT_COMPILE_NEVER,
                              .log = [&](cubit_log_level, std::string_view line) { lines.emplace_back(line); }});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr(kEscapedPath));
}

TEST(Engine, MessagesOfLongNamesAreShort) {
  const cubit::Engine engine({.cache_dir = "", .compile = CUBIT_COMPILE_NEVER});
  const std::string name(5000, 'x');
  for (const std::string& text : {name, "stream_read:" + name, "stream_read:blocks_per_sm=" + name,
                                  "gqa_decode:heads_per_kv=8,kv=" + name, "gqa_decode:" + name + "=1"}) {
    cubit_kernel* kernel = nullptr;
    EXPECT_NE(cubit_engine_get(engine.handle(), text.c_str(), "sm_80", &kernel), CUBIT_OK);
    EXPECT_LT(std::string_view(cubit_last_error()->message).size(), 1000U) << cubit_last_error()->message;
    EXPECT_NE(cubit_engine_get(engine.handle(), "stream_read", text.c_str(), &kernel), CUBIT_OK);
    EXPECT_LT(std::string_view(cubit_last_error()->message).size(), 1000U) << cubit_last_error()->message;
  }
}

TEST(Engine, SinkThatThrowsHarmsNobody) {
  const auto file = std::filesystem::temp_directory_path() / ("cubit_capi_throw_" + std::to_string(getpid()));
  std::ofstream(file) << "not a folder";
  const std::string folder = file.string();
  EXPECT_NO_THROW(cubit::Engine({.cache_dir = folder.c_str(),
                                 .compile = CUBIT_COMPILE_NEVER,
                                 .log = [](cubit_log_level, std::string_view) { throw 1; }}));
  std::filesystem::remove(file);
}

TEST(Engine, WithoutCurrentContextTheArchitectureMustBeNamed) {
  const cubit::Engine engine({.cache_dir = "", .compile = CUBIT_COMPILE_NEVER});
  EXPECT_THROW(engine.get("stream_read"), cubit::Error);
  EXPECT_THAT(cubit_last_error()->status, testing::AnyOf(CUBIT_DRIVER_UNAVAILABLE, CUBIT_INVALID_ARGUMENT));
}

cubit_source good_source() {
  cubit_source source{};
  source.size = sizeof source;
  source.name = "mine:1";
  source.template_name = "mine.cuh";
  source.template_text = "extern \"C\" __global__ void mine() {}\n";
  source.entry_point = "mine";
  source.threads = 128;
  return source;
}

std::string refused(const cubit_source& source) {
  const cubit::Engine engine({.cache_dir = "", .compile = CUBIT_COMPILE_NEVER});
  try {
    engine.get(source, "sm_80");
  } catch (const cubit::Error& error) {
    EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(UserSource, MissingOrImpossibleMembersAreNamed) {
  cubit_source source = good_source();
  source.template_text = nullptr;
  EXPECT_THAT(refused(source), HasSubstr("cubit_source: template_text"));
  source = good_source();
  source.header_count = 1;
  EXPECT_THAT(refused(source), HasSubstr("cubit_source: headers"));
  for (const int threads : {0, -1, 1025}) {
    source = good_source();
    source.threads = threads;
    EXPECT_THAT(refused(source), HasSubstr("cubit_source.threads = " + std::to_string(threads)));
  }
  for (const int bytes : {-1, 1 << 30}) {
    source = good_source();
    source.dynamic_shared_memory = bytes;
    EXPECT_THAT(refused(source), HasSubstr("a block of sm_80 has 0 to"));
  }
  source = good_source();
  source.size = 0;
  EXPECT_THAT(refused(source), HasSubstr("cubit_source.size = 0"));
}

TEST(UserSource, NamesAreEscapedInMessages) {
  const cubit::Engine engine({.cache_dir = "", .compile = CUBIT_COMPILE_NEVER});
  cubit_source source = good_source();
  source.name = "mine\x1b[31m:\n1";
  cubit_kernel* kernel = nullptr;
  EXPECT_EQ(cubit_engine_get_source(engine.handle(), &source, "sm_80", &kernel), CUBIT_NOT_CACHED);
  const cubit_error& error = *cubit_last_error();
  EXPECT_THAT(error.message, HasSubstr("mine\\x1b[31m:\\n1"));
  for (const std::string_view text : {error.message, error.what, error.why, error.remedy})
    EXPECT_EQ(text.find_first_of("\x1b\n"), std::string_view::npos) << text;
}

TEST(UserSource, IsNamedWhereItIsNotCached) {
  const cubit::Engine engine({.cache_dir = "", .compile = CUBIT_COMPILE_NEVER});
  try {
    engine.get(good_source(), "sm_80");
    FAIL();
  } catch (const cubit::Error& error) {
    EXPECT_EQ(error.code(), CUBIT_NOT_CACHED);
    EXPECT_THAT(error.what(), HasSubstr("mine:1"));
  }
}

}  // namespace
