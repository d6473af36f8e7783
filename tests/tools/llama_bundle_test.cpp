// Proves: a bundle with the kernels of Llama-3-8B serves an engine that has no compiler and no cache folder. 10,000
// calls of get and one launch of each descriptor on the CPU device, checked against the reference, make no call of
// NVRTC. Where there is a GPU, its cubins are served and launched in the same way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubit/cubit.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::Program;
using test::Result;

constexpr const char* kArchitecture = "sm_80";
constexpr const char* kNoCompiler = "/nowhere/libnvrtc.so";

/// The descriptors of the list, without comments.
std::vector<std::string> listed() {
  std::ifstream file(CUBIT_KERNEL_LIST);
  std::vector<std::string> descriptors;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') descriptors.push_back(line);
  }
  return descriptors;
}

/// Small sizes for a launch of each operator.
std::string sizes_of(const std::string& descriptor) {
  static const std::map<std::string, std::string> sizes = {{"gqa_decode", "batch=2,context=70,kv_heads=1"},
                                                           {"kv_append", "batch=2,tokens=3,kv_heads=1,context=70"},
                                                           {"kv_gather", "batch=2,tokens=3,kv_heads=1,context=70"},
                                                           {"merge", "parts=2,rows=3,heads=4"},
                                                           {"norm_quantize", "rows=3,columns=256"},
                                                           {"w4a16_gemm", "m=5,n=512,k=256"}};
  return sizes.at(descriptor.substr(0, descriptor.find(':')));
}

class LlamaBundle : public testing::Test {
 protected:
  void SetUp() override {
    if (!program_.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
  }

  void compile(const std::string& architecture, const std::vector<std::string>& options) const {
    std::vector<std::string> words = {"compile", "--file", CUBIT_KERNEL_LIST, "--arch", architecture,
                                      "--jobs",  "2",      "--bundle",        bundle_};
    words.insert(words.end(), options.begin(), options.end());
    const Result made = program_.run(words);
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  /// 10,000 calls of get, for the listed descriptors and the members of sets.
  void expect_gets_compile_nothing(const std::string& architecture, const std::vector<std::string>& targets) const;
  void expect_launches_compile_nothing(const std::vector<std::string>& device) const;

  Program program_;
  std::string bundle_ = program_.folder().path("llama.cubit");
};

void LlamaBundle::expect_gets_compile_nothing(const std::string& architecture,
                                              const std::vector<std::string>& targets) const {
  std::vector<std::pair<std::string, std::string>> requests;
  for (const std::string& descriptor : listed()) {
    for (const std::string& target : targets) requests.emplace_back(descriptor, target);
    for (const auto& member : nlohmann::json::parse(members(descriptor, architecture))) {
      for (const std::string& target : targets) requests.emplace_back(member.get<std::string>(), target);
    }
  }
  std::uint64_t from_bundle = 0;
  constexpr int kEngines = 10;
  constexpr std::size_t kGets = 1000;  // of each engine
  for (int i = 0; i < kEngines; ++i) {
    const Engine engine({.cache_dir = "",
                         .nvrtc_path = kNoCompiler,
                         .compile = CUBIT_COMPILE_NEVER,
                         .system_caches = "",
                         .bundles = bundle_.c_str(),
                         .public_keys = ""});
    for (std::size_t get = 0; get < kGets; ++get) {
      const auto& [descriptor, target] = requests[get % requests.size()];
      ASSERT_NO_THROW(engine.get(descriptor, target)) << descriptor << " for " << target;
    }
    EXPECT_EQ(engine.counters().compiles, 0U);
    from_bundle += engine.counters().disk_hits;
  }
  EXPECT_EQ(from_bundle, kEngines * nlohmann::json::parse(program_.run({"bundle", "show", bundle_, "--json"}).out)
                                        .at("entries")
                                        .get<std::uint64_t>())
      << "each engine loads each entry once";
}

void LlamaBundle::expect_launches_compile_nothing(const std::vector<std::string>& device) const {
  const std::string command = "CUBIT_CACHE_DIR= CUBIT_COMPILE=never CUBIT_NVRTC=" + std::string(kNoCompiler) +
                              " CUBIT_BUNDLES=" + bundle_ + " \"$0\" \"$@\"";
  for (const std::string& descriptor : listed()) {
    std::vector<std::string> words = {"run", descriptor, "--random", sizes_of(descriptor), "--check"};
    words.insert(words.end(), device.begin(), device.end());
    const Result result = program_.run_in_shell(command, words);
    EXPECT_EQ(result.exit_code, 0) << descriptor << "\n" << result.out << result.err;
  }
}

TEST_F(LlamaBundle, TenThousandGetsAndALaunchOfEveryDescriptorCompileNothing) {
  compile(kArchitecture, {"--ptx"});
  expect_gets_compile_nothing(kArchitecture, {kArchitecture, std::string("cpu:") + kArchitecture});
  expect_launches_compile_nothing({"--device", "cpu", "--arch", kArchitecture});
}

TEST_F(LlamaBundle, AGpuGetsAndLaunchesEveryDescriptorWithoutACompiler) {
  const nlohmann::json found = program_.run({"devices", "--json"}).json();
  if (found.at("devices").empty()) GTEST_SKIP() << "no GPU on this machine";
  const nlohmann::json& gpu = found.at("devices").at(0);
  const auto architecture = gpu.at("architecture").get<std::string>();
  compile(architecture, {});
  expect_gets_compile_nothing(architecture, {architecture});
  expect_launches_compile_nothing({"--device", gpu.at("name").get<std::string>()});
}

}  // namespace
}  // namespace cubit::tools
