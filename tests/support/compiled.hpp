// Compiles kernels and checks the registers and spills that ptxas reports.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "ops/operator.hpp"
#include "tests/support/machine_nvrtc.hpp"
#include "tests/support/sample.hpp"

namespace cubit::tests {

constexpr const char* kAllArchitectures[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"};

struct KernelFor {
  std::string text;
  const char* architecture;
  int registers = 0;  ///< exact registers per thread if the kernel relies on the number; 0: any number
};

/// Takes every `stride`-th text, and assigns the architectures in turn.
inline std::vector<KernelFor> some_in_turn(const std::vector<std::string>& texts, std::size_t stride) {
  std::vector<KernelFor> some;
  for (std::size_t i = 0; i < texts.size(); i += stride)
    some.push_back({texts[i], kAllArchitectures[some.size() % std::size(kAllArchitectures)]});
  return some;
}

/// Writes the cubin to the folder that CUBIT_KEEP_CUBINS names, if it is set: see scripts/scan_cubins.py.
inline void keep_cubin(const KernelFor& kernel, std::span<const std::byte> cubin) {
  const char* const folder = std::getenv("CUBIT_KEEP_CUBINS");
  if (folder == nullptr) return;
  std::filesystem::create_directories(folder);
  std::string name = kernel.text + "@" + kernel.architecture + ".cubin";
  std::replace(name.begin(), name.end(), ':', '_');
  std::ofstream(std::filesystem::path(folder) / name, std::ios::binary)
      .write(reinterpret_cast<const char*>(cubin.data()), std::ssize(cubin));
}

/// Checks that every kernel compiles with at most `most_registers` registers, or with the exact number that it relies
/// on. A kernel may spill only if its plan gives a reason, and then at most `most_said` bytes. A kernel whose plan
/// counts dynamic shared memory must have no static shared memory. A sampled run compiles its part of `kernels` (see
/// sample.hpp). Skips the test without a compiler.
inline void expect_no_spills(std::vector<KernelFor> kernels, int most_registers = 255,
                             int most_said = std::numeric_limits<int>::max()) {
  std::string why;
  const auto compiler = machine_nvrtc(why);
  if (compiler == nullptr) GTEST_SKIP() << "no compiler: " << why;
  keep_sample(kernels, [](const KernelFor& kernel) { return kernel.text + " " + kernel.architecture; });
  std::vector<std::string> troubles(kernels.size());
  parallel_for(std::ssize(kernels), [&](std::int64_t i) {
    try {
      const auto& [text, architecture, registers] = kernels[static_cast<std::size_t>(i)];
      const auto made = ops::find_operator(text).specialise(text, codegen::find_architecture(architecture));
      const auto compiled = compiler->compile(made->source());
      keep_cubin(kernels[static_cast<std::size_t>(i)], compiled.cubin);
      const auto& resources = compiled.resources;
      const int spills = resources.spill_load_bytes + resources.spill_store_bytes;
      const bool spills_unsaid = spills > (made->report().spills_allowed_because.empty() ? 0 : most_said);
      const bool memory_uncounted = resources.static_shared_memory > 0 && !made->report().memory.empty();
      const bool miscounted = registers > 0 && resources.registers != registers;
      if (spills_unsaid || memory_uncounted || miscounted || resources.registers > most_registers) {
        troubles[static_cast<std::size_t>(i)] =
            fmt::format("{} bytes of spills, {} of static shared memory, {} registers", spills,
                        resources.static_shared_memory, resources.registers);
      }
    } catch (const Failure& failure) {
      troubles[static_cast<std::size_t>(i)] = failure.what();
    }
  });
  for (std::size_t i = 0; i < kernels.size(); ++i)
    EXPECT_EQ(troubles[i], "") << kernels[i].text << " for " << kernels[i].architecture;
}

}  // namespace cubit::tests
