// A machine for the tests of launches: fake GPUs, and a cache folder with made-up code for the requested descriptors,
// so that an engine that never compiles finds kernels.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "ops/operator.hpp"
#include "runtime/cache/disk_cache.hpp"
#include "runtime/cache/key.hpp"
#include "runtime/compiler/nvrtc.hpp"
#include "tests/runtime_cuda/harness.hpp"

namespace cubit::fake {

/// A new folder per test, removed at the end of the test.
class PreparedCache {
 public:
  PreparedCache()
      : folder_(std::filesystem::temp_directory_path() /
                ("cubit_capi_" + std::to_string(getpid()) + "_" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_(folder_.string()) {}
  PreparedCache(const PreparedCache&) = delete;
  PreparedCache& operator=(const PreparedCache&) = delete;
  ~PreparedCache() { std::filesystem::remove_all(folder_); }

  void add(const std::string& descriptor, const std::string& architecture = "sm_90a",
           codegen::Code code = codegen::Code::cubin) const {
    const auto specialisation =
        ops::find_operator(descriptor).specialise(descriptor, codegen::find_architecture(architecture));
    codegen::KernelSource source = specialisation->source();
    source.code = code;
    add(source);
  }
  void add(const codegen::KernelSource& source) const {
    ASSERT_TRUE(runtime::DiskCache(folder_, {}).publish(artifact_of(source)));
  }
  static runtime::Artifact artifact_of(const codegen::KernelSource& source) {
    runtime::Artifact artifact;
    artifact.key = runtime::request_key(source);
    artifact.compiler = {12, 8, 0};
    artifact.descriptor = source.descriptor;
    artifact.target = source.target;
    artifact.entry_point = source.entry_point;
    artifact.code = source.code;
    artifact.inputs = runtime::input_digests(source);
    artifact.resources.registers = source.code == codegen::Code::ptx ? 0 : 42;
    artifact.cubin.resize(64);
    if (source.code == codegen::Code::ptx) {
      const std::string text = "// " + source.descriptor + " for " + source.target;
      artifact.cubin.assign(reinterpret_cast<const std::byte*>(text.data()),
                            reinterpret_cast<const std::byte*>(text.data() + text.size()));
    }
    return artifact;
  }
  const char* path() const { return path_.c_str(); }

 private:
  std::filesystem::path folder_;
  std::string path_;
};

/// No compiler library has this name, so an engine accepts cache entries of every compiler.
inline constexpr const char* kNoCompiler = "/nowhere/libnvrtc.so";

}  // namespace cubit::fake
