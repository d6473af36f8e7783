// Proves: a bundle with the kernels of Llama-3-8B serves an engine that has no compiler and no cache folder. 10,000
// calls of get and one launch of each descriptor on the CPU device, checked against the reference, make no call of
// NVRTC.
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
    const Result made = program_.run(
        {"compile", "--file", CUBIT_KERNEL_LIST, "--arch", kArchitecture, "--ptx", "--jobs", "2", "--bundle", bundle_});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  Program program_;
  std::string bundle_ = program_.folder().path("llama.cubit");
};

TEST_F(LlamaBundle, TenThousandGetsCompileNothing) {
  std::vector<std::pair<std::string, std::string>> requests;
  const std::string cpu = std::string("cpu:") + kArchitecture;
  for (const std::string& descriptor : listed()) {
    requests.emplace_back(descriptor, kArchitecture);
    requests.emplace_back(descriptor, cpu);
    for (const auto& member : nlohmann::json::parse(members(descriptor, kArchitecture))) {
      requests.emplace_back(member.get<std::string>(), kArchitecture);
      requests.emplace_back(member.get<std::string>(), cpu);
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

TEST_F(LlamaBundle, EveryDescriptorIsLaunchedWithoutACompiler) {
  const std::string command = "CUBIT_CACHE_DIR= CUBIT_COMPILE=never CUBIT_NVRTC=" + std::string(kNoCompiler) +
                              " CUBIT_BUNDLES=" + bundle_ + " \"$0\" \"$@\"";
  for (const std::string& descriptor : listed()) {
    const Result result = program_.run_in_shell(command, {"run", descriptor, "--random", sizes_of(descriptor),
                                                          "--device", "cpu", "--arch", kArchitecture, "--check"});
    EXPECT_EQ(result.exit_code, 0) << descriptor << "\n" << result.out << result.err;
  }
}

}  // namespace
}  // namespace cubit::tools
