// NVRTC, opened at run time: source text in, cubin and log out. No nvcc, no headers, no link dependency.
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

namespace cubit::runtime {

/// Which compiler made a cubin: "13.0.88". Part of an artifact's identity.
struct CompilerVersion {
  int major = 0;
  int minor = 0;
  int build = 0;
  std::string text() const;  ///< "13.0.88"
  auto operator<=>(const CompilerVersion&) const = default;
};

/// Read from ptxas's report (`--ptxas-options=-v`) for the entry point.
struct ResourceReport {
  int registers = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;
  int static_shared_memory = 0;
  int barriers = 0;
  /// Stores and loads together: more than an int holds, where a made-up entry says so.
  std::int64_t spill_bytes() const { return std::int64_t{spill_store_bytes} + spill_load_bytes; }
  auto operator<=>(const ResourceReport&) const = default;
};

struct Compiled {
  std::vector<std::byte> cubin;
  ResourceReport resources;
  double milliseconds = 0;  ///< inside the compiler
  std::string log;
};

/// Parses ptxas's report. Throws Failure(invalid_argument), which names the entry points there are, if the source
/// defines no `entry_point`; Failure(internal) if the log holds no report.
ResourceReport parse_resource_report(std::string_view log, std::string_view entry_point);

/// The exact option list the compiler is given for `source`: "--gpu-architecture=<target>" first, then source.options.
/// For PTX the target is the virtual architecture, with line information and without ptxas's options.
std::vector<std::string> compiler_options(const codegen::KernelSource& source);

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Thread-safe. Throws Failure(compiler_unavailable) if the library turns out not to work.
  virtual const CompilerVersion& version() const = 0;
  /// Thread-safe. A rejected source throws Failure(compile_failed) whose text holds the descriptor, the log, and the
  /// numbered source lines around every line that the log names.
  virtual Compiled compile(const codegen::KernelSource& source) const = 0;
};

/// Loads NVRTC. A `path` is taken at its word, whatever the driver. Without one, every candidate of `folders`, of the
/// loader's path, of the usual toolkit folders and of NVIDIA's Python wheels is tried; of several the newest whose
/// major version is at most `driver_major` (0: no driver, any). Nothing older than NVRTC 12.8 is accepted. One library
/// per process and path. Throws Failure(compiler_unavailable) that lists what was tried and how to get one. `folders`:
/// Settings::nvrtc_folders.
std::shared_ptr<const Compiler> load_nvrtc(const std::string& path, int driver_major,
                                           std::span<const std::string> folders = {});

}  // namespace cubit::runtime
