// Kernels with one planted defect each, on any device. The table states what the CPU device's checker must find and
// what compute-sanitizer finds on a GPU.
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
  const char* sizes;   ///< sizes of the random problem: "batch=1,context=100"
  const char* file;    ///< template that the mutant changes; "" for a healthy kernel
  const char* from;    ///< text that occurs exactly once in the template without its comments
  const char* to;
  const char* found;      ///< part of the checker's report; "" if nothing may be found
  const char* sanitizer;  ///< tool of compute-sanitizer that finds the defect too, or why no tool can: "none: …"
};

inline void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

std::span<const Mutant> mutants();
const Mutant& find_mutant(std::string_view name);  ///< throws Failure(invalid_argument)

/// Plants a mutant's defect in its kernel. Throws Failure(internal) if the mutant's text does not occur exactly once.
void plant(const Mutant& mutant, codegen::KernelSource& source);

/// Compiles and launches a mutant, and waits for its end. Throws what the device throws.
void run_mutant(const Mutant& mutant, runtime::Engine& engine, runtime::Device& device);

}  // namespace cubit::tests
