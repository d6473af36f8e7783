// Kernels with one planted defect each, for any device: what the CPU device's checker must find, and what
// compute-sanitizer finds on a GPU.
#pragma once

#include <memory>
#include <ostream>
#include <span>
#include <string>

#include "codegen/kernel_source.hpp"
#include "runtime/device.hpp"
#include "runtime/engine.hpp"

namespace cubit::tests {

struct Mutant {
  const char* name;
  const char* kernel;  ///< a descriptor, or "pipeline"
  const char* sizes;   ///< sizes of the made-up data: "batch=1,context=100"
  const char* file;    ///< name of the changed template; "" for no change
  const char* from;    ///< text that occurs once in the template
  const char* to;
  const char* found;      ///< part of the checker's report; "" if nothing may be found
  const char* sanitizer;  ///< the tool of compute-sanitizer that also finds the defect, or "none: …" with the reason
};

inline void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

std::span<const Mutant> mutants();
const Mutant& find_mutant(std::string_view name);  ///< throws Failure(invalid_argument)

/// Changes the kernel's source into the mutant. Throws Failure(internal) if the text to replace does not occur exactly
/// once.
void plant(const Mutant& mutant, codegen::KernelSource& source);

/// Compiles and launches the mutant, and waits. Throws the device's failure.
void run_mutant(const Mutant& mutant, runtime::Engine& engine, runtime::Device& device);

}  // namespace cubit::tests
