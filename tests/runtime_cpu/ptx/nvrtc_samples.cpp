// Compiles sample kernels to PTX. NVRTC's functions are declared by hand, so that no CUDA header is needed.
#include "tests/runtime_cpu/ptx/nvrtc_samples.hpp"

#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "base/error.hpp"
#include "ops/operator.hpp"
#include "runtime/dynamic_library.hpp"
#include "templates/embedded.hpp"
#include "tests/support/machine_nvrtc.hpp"

namespace cubit::runtime::ptx {

using Program = void*;

struct PtxCompiler::Functions {
  explicit Functions(DynamicLibrary opened) : library(std::move(opened)) {
    load(create, "nvrtcCreateProgram");
    load(compile, "nvrtcCompileProgram");
    load(log_size, "nvrtcGetProgramLogSize");
    load(log, "nvrtcGetProgramLog");
    load(ptx_size, "nvrtcGetPTXSize");
    load(ptx, "nvrtcGetPTX");
    load(destroy, "nvrtcDestroyProgram");
  }
  template <typename Function>
  void load(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(library.symbol(name));
    if (!function) throw std::runtime_error(std::string("NVRTC has no ") + name);
  }

  DynamicLibrary library;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*ptx_size)(Program, std::size_t*);
  int (*ptx)(Program, char*);
  int (*destroy)(Program*);
};

namespace {

std::string read_example(const std::string& name) {
  std::ifstream file(CUBIT_SOURCE_DIR "/examples/scale_and_add/" + name);
  if (!file) throw std::runtime_error("no example file " + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

codegen::KernelSource example_source(const codegen::Architecture& architecture) {
  const codegen::Header kernel{"scale_and_add.cuh", read_example("scale_and_add.cuh")};
  const std::vector<codegen::Header> extra = {{"scale_and_add_arguments.h", read_example("scale_and_add_arguments.h")}};
  const std::string plan =
      "#pragma once\nnamespace plan {\nconstexpr int kColumns = 1000;\nconstexpr int kThreads = 128;\n}\n";
  codegen::LaunchFacts launch;
  launch.threads = 128;
  return codegen::assemble("scale_and_add", kernel, plan, architecture, "scale_and_add", launch, templates::embedded(),
                           extra);
}

/// A virtual target gives PTX without running ptxas.
std::vector<std::string> options_of(const codegen::KernelSource& source, bool line_info) {
  std::vector<std::string> options = {"--gpu-architecture=compute_" + source.target.substr(3)};
  for (const std::string& option : source.options) {
    if (option.find("ptxas") == std::string::npos && option != "--no-cache") options.push_back(option);
  }
  if (line_info) options.emplace_back("--generate-line-info");
  return options;
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

}  // namespace

const PtxCompiler* PtxCompiler::instance() {
  static const std::optional<PtxCompiler> kCompiler = []() -> std::optional<PtxCompiler> {
    auto library = tests::open_nvrtc_library();
    if (!library) return std::nullopt;
    return PtxCompiler(std::make_shared<const Functions>(std::move(*library)));
  }();
  return kCompiler ? &*kCompiler : nullptr;
}

std::string PtxCompiler::compile(const codegen::KernelSource& source, bool line_info) const {
  std::vector<std::string> names;
  std::vector<std::string> texts;
  for (const codegen::Header& header : source.headers) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  const std::vector<std::string> options = options_of(source, line_info);
  Program program = nullptr;
  functions_->create(&program, source.template_text.c_str(), ("/cubit/" + source.template_name).c_str(),
                     static_cast<int>(names.size()), pointers(texts).data(), pointers(names).data());
  const bool failed = functions_->compile(program, static_cast<int>(options.size()), pointers(options).data()) != 0;
  std::size_t size = 0;
  (failed ? functions_->log_size : functions_->ptx_size)(program, &size);
  std::string text(size, '\0');
  (failed ? functions_->log : functions_->ptx)(program, text.data());
  functions_->destroy(&program);
  if (failed) throw std::runtime_error(source.descriptor + " for " + source.target + ": " + text);
  return text;
}

codegen::KernelSource sample_source(std::string_view descriptor, std::string_view target) {
  return ops::find_operator(descriptor).specialise(descriptor, codegen::find_architecture(target))->source();
}

std::vector<codegen::KernelSource> sample_sources(std::string_view target) {
  constexpr std::string_view kDescriptors[] = {
      "stream_read",
      "gqa_decode:heads_per_kv=8",
      "gqa_decode:head_dim=64,heads_per_kv=16,kv=fp16,query=fp16",
      "gqa_decode:heads_per_kv=3,kv=int4_rows",
      "gqa_decode:head_dim=64,kv=int4_rows,groups=2,output=fp16,alignment=16",
      "gqa_decode:heads_per_kv=9,kv=int4_rows,groups=4,alignment=8",
      "gqa_decode:heads_per_kv=5,kv=int4_rows,groups=8,query=fp16",
  };
  std::vector<codegen::KernelSource> sources = {example_source(codegen::find_architecture(target))};
  for (const std::string_view descriptor : kDescriptors) {
    try {
      sources.push_back(sample_source(descriptor, target));
    } catch (const Failure& failure) {
      if (failure.status() != Status::unsupported) throw;
    }
  }
  return sources;
}

}  // namespace cubit::runtime::ptx
