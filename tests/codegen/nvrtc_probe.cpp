// NVRTC opened at run time, its few functions declared by hand so that no CUDA header is needed.
#include "tests/codegen/nvrtc_probe.hpp"

#include <stdexcept>
#include <utility>

#include "codegen/kernel_source.hpp"
#include "tests/support/machine_nvrtc.hpp"

namespace cubit::codegen {
namespace {

using Program = void*;

}  // namespace

template <class Function>
Function* NvrtcProbe::symbol(const char* name) const {
  void* address = library_.symbol(name);
  if (address == nullptr) throw std::runtime_error(std::string("NVRTC has no ") + name);
  return reinterpret_cast<Function*>(address);
}

const NvrtcProbe* NvrtcProbe::instance() {
  static const std::optional<NvrtcProbe> kProbe = []() -> std::optional<NvrtcProbe> {
    auto library = tests::open_nvrtc_library();
    if (!library) return std::nullopt;
    return NvrtcProbe(std::move(*library));
  }();
  return kProbe ? &*kProbe : nullptr;
}

NvrtcProbe::NvrtcProbe(runtime::DynamicLibrary library) : library_(std::move(library)) {
  int major = 0;
  int minor = 0;
  symbol<int(int*, int*)>("nvrtcVersion")(&major, &minor);
  version_ = major * 100 + minor;
  int count = 0;
  symbol<int(int*)>("nvrtcGetNumSupportedArchs")(&count);
  supported_.resize(static_cast<std::size_t>(count));
  symbol<int(int*)>("nvrtcGetSupportedArchs")(supported_.data());
}

NvrtcProbe::Result NvrtcProbe::compile(const std::string& text, std::string_view target) const {
  Program program = nullptr;
  symbol<int(Program*, const char*, const char*, int, const char* const*, const char* const*)>("nvrtcCreateProgram")(
      &program, text.c_str(), "/cubit/probe.cu", 0, nullptr, nullptr);
  std::vector<std::string> texts = default_options();
  if (version_ < 1209) std::erase(texts, "--no-cache");
  texts.push_back("--gpu-architecture=" + std::string(target));
  std::vector<const char*> options;
  for (const std::string& option : texts) options.push_back(option.c_str());
  const int status = symbol<int(Program, int, const char* const*)>("nvrtcCompileProgram")(
      program, static_cast<int>(options.size()), options.data());

  Result result;
  result.compiled = status == 0;
  std::size_t bytes = 0;
  symbol<int(Program, std::size_t*)>("nvrtcGetProgramLogSize")(program, &bytes);
  result.log.resize(bytes);
  symbol<int(Program, char*)>("nvrtcGetProgramLog")(program, result.log.data());
  if (result.compiled) {
    symbol<int(Program, std::size_t*)>("nvrtcGetCUBINSize")(program, &bytes);
    result.cubin.resize(bytes);
    symbol<int(Program, char*)>("nvrtcGetCUBIN")(program, result.cubin.data());
  }
  symbol<int(Program*)>("nvrtcDestroyProgram")(&program);
  return result;
}

}  // namespace cubit::codegen
