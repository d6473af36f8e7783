// Proves on a GPU: where no store has a cubin for the GPU and the engine may not compile, the driver compiles PTX of an
// older architecture, and kernels from that PTX compute the reference. Without a GPU the tests are skipped.
#include <dlfcn.h>

#include <gmock/gmock.h>
#include <filesystem>

#include "tests/gpu/gpu_test.hpp"

namespace cubit::tests {
namespace {

constexpr const char* kOlder = "sm_80";  // has no suffix, so later GPUs run its PTX

/// A folder that vanishes with the test.
class CacheFolder {
 public:
  CacheFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cubit-gpu-ptx-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~CacheFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

class PtxGpu : public GpuTest {
 protected:
  /// Makes the device's primary context current, as an application's runtime does.
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    ASSERT_NE(driver, nullptr) << dlerror();
    const auto retain = reinterpret_cast<int (*)(void**, int)>(dlsym(driver, "cuDevicePrimaryCtxRetain"));
    const auto set_current = reinterpret_cast<int (*)(void*)>(dlsym(driver, "cuCtxSetCurrent"));
    ASSERT_TRUE(retain != nullptr && set_current != nullptr);
    void* context = nullptr;
    ASSERT_EQ(retain(&context, 0), 0);
    ASSERT_EQ(set_current(context), 0);
  }
  /// Compiles PTX for kOlder into the folder, and returns the kernel that an engine of a server gets from it.
  Kernel kernel_of_older_ptx(const std::string& descriptor) {
    const Engine compiling({.cache_dir = folder_.path(), .compile = CUBIT_COMPILE_ALLOW});
    compiling.get(descriptor, std::string("cpu:") + kOlder);
    serving_ = std::make_unique<Engine>(EngineOptions{.cache_dir = folder_.path(), .compile = CUBIT_COMPILE_NEVER});
    return serving_->get(descriptor);
  }
  void expect_reference(const std::string& descriptor, const Problem::Numbers& sizes) {
    SCOPED_TRACE(descriptor);
    const Kernel kernel = kernel_of_older_ptx(descriptor);
    EXPECT_THAT(kernel.describe(), ::testing::ContainsRegex(std::string("\"architecture\": *\"") + kOlder + "\""));
    const Problem problem = Problem::random(descriptor, sizes, 1);
    DeviceCase launched(device(), problem);
    launch(kernel, launched);
    const auto result = launched.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
    EXPECT_THAT(serving_->warnings(), ::testing::HasSubstr("the driver compiles PTX for sm_80 instead"));
    EXPECT_EQ(serving_->counters().compiles, 0u);
  }

  CacheFolder folder_;
  std::unique_ptr<Engine> serving_;
};

TEST_F(PtxGpu, OfAnOlderArchitectureComputesAttention) {
  expect_reference("kv_append:kv=int4_rows,head_dim=128", {{"batch", 3}, {"tokens", 9}, {"kv_heads", 2}});
  expect_reference("gqa_decode:kv=int4_rows,head_dim=128,heads_per_kv=4",
                   {{"batch", 3}, {"kv_heads", 2}, {"context", 3000}});
  expect_reference("merge", {{"parts", 3}, {"rows", 37}, {"heads", 5}});
}

TEST_F(PtxGpu, OfAnOlderArchitectureComputesGemmsOfAWholeSet) {
  for (const int m : {1, 16, 200}) expect_reference("w4a16_gemm:format=awq", {{"m", m}, {"n", 1024}, {"k", 1024}});
  expect_reference("w8a8_gemm:element=int8", {{"m", 200}, {"n", 1024}, {"k", 1024}});
  expect_reference("quantize", {{"rows", 37}, {"columns", 1024}});
}

}  // namespace
}  // namespace cubit::tests
