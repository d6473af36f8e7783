// Kernels with one planted defect each, on whatever device: what the CPU device's checker must find, and what
// compute-sanitizer finds of it on a GPU.
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
  const char* sizes;   ///< of the made-up data: "batch=1,context=100"
  const char* file;    ///< template that is changed; "" for no change
  const char* from;    ///< occurs once in it
  const char* to;
  const char* found;      ///< part of the checker's report; "" where nothing may be found
  const char* sanitizer;  ///< the tool of compute-sanitizer that finds it too, or why none can: "none: …"
};

inline void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

std::span<const Mutant> mutants();
const Mutant& find_mutant(std::string_view name);  ///< throws Failure(invalid_argument)

/// Into the kernel that it is a mutant of. Throws Failure(internal) if its place is not there once.
void plant(const Mutant& mutant, codegen::KernelSource& source);

/// Compiles and launches it, and waits. Throws what the device throws.
void run_mutant(const Mutant& mutant, runtime::Engine& engine, runtime::Device& device);

}  // namespace cubit::tests
