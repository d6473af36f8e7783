// NVRTC, NVIDIA's run-time compiler: compiles source text to a cubin or PTX. The library is opened at run time; neither
// nvcc nor NVIDIA's headers are needed.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel_source.hpp"
#include "runtime/dynamic_library.hpp"

namespace cubit::runtime {

/// Version of the compiler that made a cubin: "13.0.88". The version is part of an artifact's identity.
struct CompilerVersion {
  int major = 0;
  int minor = 0;
  int build = 0;
  std::string text() const;  ///< "13.0.88"
  auto operator<=>(const CompilerVersion&) const = default;
};

/// Resource usage of the entry point, read from ptxas's report (`--ptxas-options=-v`).
struct ResourceReport {
  int registers = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;
  int static_shared_memory = 0;
  int barriers = 0;
  /// Spill stores plus spill loads. The sum of a forged entry may exceed the range of int.
  std::int64_t spill_bytes() const { return std::int64_t{spill_store_bytes} + spill_load_bytes; }
  auto operator<=>(const ResourceReport&) const = default;
};

/// The result of a compilation.
struct Compiled {
  std::vector<std::byte> cubin;
  ResourceReport resources;
  double milliseconds = 0;  ///< time inside the compiler
  std::string log;
};

/// Parses ptxas's report. If the source defines no `entry_point`, throws Failure(invalid_argument) that names the
/// existing entry points. If the log holds no report, throws Failure(internal).
ResourceReport parse_resource_report(std::string_view log, std::string_view entry_point);
/// Throws the same failure if PTX code, for which ptxas makes no report, has no such entry point.
void require_entry(std::string_view ptx, std::string_view entry_point);

/// Returns the exact compiler options for `source`: "--gpu-architecture=<target>", then source.options. For PTX the
/// target is the virtual architecture, line information is on and ptxas's options are left out.
std::vector<std::string> compiler_options(const codegen::KernelSource& source);

/// A compiler for kernel sources. Tests provide their own.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Thread-safe. Throws Failure(compiler_unavailable) if the library turns out not to work.
  virtual const CompilerVersion& version() const = 0;
  /// Thread-safe. If the compiler rejects the source, throws Failure(compile_failed), whose text holds the descriptor,
  /// the log, and the source lines around every place that the log names.
  virtual Compiled compile(const codegen::KernelSource& source) const = 0;
};

/// Loads NVRTC. If `path` is given, only this file is tried. Otherwise the function tries all candidates: `folders`
/// (Settings::nvrtc_folders), the loader's search path, the usual toolkit folders and NVIDIA's Python wheels. It picks
/// the newest library whose major version is at most `driver_major` (0: no driver, every version is accepted). The
/// oldest accepted version is NVRTC 12.8. Each library file is loaded once per process. Throws
/// Failure(compiler_unavailable) that lists the candidates and how to install NVRTC.
std::shared_ptr<const Compiler> load_nvrtc(const std::string& path, int driver_major,
                                           std::span<const std::string> folders = {});

/// Opens the library that load_nvrtc() picks without a driver, and its builtins library, for callers of NVRTC's own
/// functions. Throws as load_nvrtc() does.
DynamicLibrary open_nvrtc_library(const std::string& path, std::span<const std::string> folders);

}  // namespace cubit::runtime
