// Proves with the machine's NVRTC: version with build number, cubin and report, reproducible bytes, errors that quote
// the source, and a library in a folder that the loader does not search. Skipped without NVRTC.
#include "runtime/compiler/nvrtc.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.hpp"
#include "tests/runtime/support.hpp"
#include "tests/support/machine_nvrtc.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class NvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    compiler_ = tests::machine_nvrtc(why);
    if (!compiler_) GTEST_SKIP() << why;
  }
  std::string error_of(const codegen::KernelSource& source) {
    try {
      compiler_->compile(source);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::compile_failed);
      return failure.what();
    }
    return {};
  }

  std::shared_ptr<const Compiler> compiler_;
};

TEST(NvrtcOptionsTest, TargetFirstThenTheSourcesOwn) {
  EXPECT_THAT(compiler_options(test::small_source()),
              ElementsAre("--gpu-architecture=sm_90a", "--std=c++17", "--ptxas-options=-v", "--no-cache", "--minimal"));
}

TEST(NvrtcOptionsTest, PtxIsForTheVirtualArchitectureAndHasLines) {
  codegen::KernelSource source = test::small_source();
  source.code = codegen::Code::ptx;
  EXPECT_THAT(compiler_options(source), ElementsAre("--gpu-architecture=compute_90a", "--generate-line-info",
                                                    "--std=c++17", "--no-cache", "--minimal"));
}

/// NVRTC writes the process's working directory before the names of headers.
TEST_F(NvrtcTest, PtxNamesNoFolderOfThisMachine) {
  codegen::KernelSource source = test::small_source();
  source.template_text = "#include \"helper.cuh\"\n" + source.template_text;
  source.headers.push_back({"helper.cuh", "__device__ inline int helper(int x) { return x * 3; }\n"});
  source.code = codegen::Code::ptx;
  const Compiled compiled = compiler_->compile(source);
  const std::string text(reinterpret_cast<const char*>(compiled.cubin.data()), compiled.cubin.size());
  EXPECT_THAT(text, testing::HasSubstr(".target sm_90a"));
  EXPECT_THAT(text, testing::HasSubstr("\"/cubit/"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr(std::filesystem::current_path().string())));
}

TEST_F(NvrtcTest, NamesItsBuild) {
  EXPECT_GE(compiler_->version(), (CompilerVersion{12, 8, 0}));
  EXPECT_GT(compiler_->version().build, 0);
}

TEST_F(NvrtcTest, CompilesToAnElfWithItsReport) {
  const Compiled compiled = compiler_->compile(test::small_source());
  ASSERT_GT(compiled.cubin.size(), 4u);
  EXPECT_EQ(std::memcmp(compiled.cubin.data(),
                        "\x7f"
                        "ELF",
                        4),
            0);
  EXPECT_GT(compiled.resources.registers, 0);
  EXPECT_EQ(compiled.resources.spill_store_bytes, 0);
  EXPECT_GT(compiled.milliseconds, 0);
}

TEST_F(NvrtcTest, SpillsAreReported) {
  auto source = test::small_source();
  source.template_text = R"(extern "C" __global__ void __launch_bounds__(1024) small(float* x, int n) {
    float a[128];
    _Pragma("unroll") for (int i = 0; i < 128; ++i) a[i] = x[i * n];
    __syncthreads();
    _Pragma("unroll") for (int i = 0; i < 128; ++i) x[i] = a[127 - i] * a[i] + a[(i * 7) % 128];
  })";
  const ResourceReport report = compiler_->compile(source).resources;
  EXPECT_GT(report.spill_store_bytes, 0);
  EXPECT_GT(report.spill_load_bytes, 0);
  EXPECT_EQ(report.barriers, 1);
}

TEST_F(NvrtcTest, SameBytesFromTwoFolders) {
  const test::TemporaryFolder one;
  const test::TemporaryFolder two;
  const auto compile_in = [&](const fs::path& folder) {
    fs::current_path(folder);
    return compiler_->compile(test::small_source()).cubin;
  };
  const auto first = compile_in(one.path());
  EXPECT_EQ(first, compile_in(two.path()));
  const std::string text(reinterpret_cast<const char*>(first.data()), first.size());
  EXPECT_THAT(text, Not(HasSubstr(one.path().string())));
  fs::current_path("/");
}

TEST_F(NvrtcTest, AnErrorInAHeaderQuotesTheHeader) {
  auto source = test::small_source();
  source.headers = {
      {"plan.cuh", "// line one\n// line two\nconstexpr float kAddend = undefined_name;\n// line four\n"}};
  EXPECT_THAT(error_of(source),
              AllOf(HasSubstr("small:first for sm_90a"), HasSubstr("plan.cuh(3): error"), HasSubstr("undefined_name"),
                    HasSubstr("      1 | // line one\n"), HasSubstr(">     3 | constexpr float kAddend"),
                    HasSubstr("      4 | // line four")));
}

TEST_F(NvrtcTest, AnErrorInTheTemplateQuotesTheTemplate) {
  auto source = test::small_source();
  source.template_text += "#error \"stop here\"\n";
  EXPECT_THAT(error_of(source), AllOf(HasSubstr("/cubit/small.cuh(4): "), HasSubstr(">     4 | #error \"stop here\"")));
}

TEST_F(NvrtcTest, AMissingHeaderAnUnknownTargetAndAnUnknownOptionAreCompileErrors) {
  auto source = test::small_source();
  source.headers.clear();
  EXPECT_THAT(error_of(source), AllOf(HasSubstr("plan.cuh"), HasSubstr(">     2 | #include \"plan.cuh\"")));
  source = test::small_source();
  source.target = "sm_999";
  EXPECT_THAT(error_of(source), AllOf(HasSubstr("sm_999"), HasSubstr("--gpu-architecture")));
  source = test::small_source();
  source.options.emplace_back("--no-such-option");
  EXPECT_THAT(error_of(source), HasSubstr("--no-such-option"));
}

TEST_F(NvrtcTest, ThreadsMayCompileTogether) {
  const auto expected = compiler_->compile(test::small_source()).cubin;
  std::vector<std::vector<std::byte>> cubins(4);
  {
    std::vector<std::jthread> threads;
    for (auto& cubin : cubins) threads.emplace_back([&] { cubin = compiler_->compile(test::small_source()).cubin; });
  }
  for (const auto& cubin : cubins) EXPECT_EQ(cubin, expected);
}

/// The file of the NVRTC that this process has loaded.
fs::path loaded_library() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto slash = line.find('/');
    if (slash != std::string::npos && line.find("libnvrtc.so") != std::string::npos) return line.substr(slash);
  }
  return {};
}

TEST_F(NvrtcTest, WorksFromAFolderThatTheLoaderDoesNotSearch) {
  // The parent has loaded the library from its proper place. In the child only a copy exists, which must suffice.
  const fs::path original = loaded_library();
  ASSERT_FALSE(original.empty());
  const test::TemporaryFolder folder;
  const test::TemporaryFolder empty;
  for (const auto& entry : fs::directory_iterator(original.parent_path())) {
    if (entry.path().filename().native().starts_with("libnvrtc"))
      fs::copy(entry.path(), folder.path() / entry.path().filename());
  }
  const fs::path copy = folder.path() / original.filename();
  test::Child child([&]() -> std::string {
    if (std::string refused = test::own_mounts(); !refused.empty()) return refused;
    if (mount(empty.path().c_str(), original.parent_path().c_str(), nullptr, MS_BIND, nullptr) != 0) {
      return std::string(test::kNotAllowedHere) + "mount: " + std::strerror(errno);
    }
    const auto isolated = load_nvrtc(copy.string(), 0);
    if (isolated == compiler_) return "the same library";
    return isolated->version() == compiler_->version() && !isolated->compile(test::small_source()).cubin.empty()
               ? ""
               : "it does not work";
  });
  const std::string said = child.join();
  if (said.starts_with(test::kNotAllowedHere)) GTEST_SKIP() << said;
  EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace cubit::runtime
