// Many kernels for many architectures: checked first, compiled in parallel, reported together. For compile and run.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/options/arguments.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {

struct CompileJob {
  std::string descriptor;  ///< canonical
  std::string architecture;
};

struct CompileResult {
  CompileJob job;
  std::string error;      ///< empty: it worked
  bool compiled = false;  ///< by this call; false: it came from a cache
  double milliseconds = 0;
  nlohmann::json kernel;  ///< as cubit_kernel_describe gives it
  std::vector<std::byte> cubin;
};

/// Every descriptor for every architecture of `architectures` (the text of --arch); without one, for this machine's
/// device, else for each of the usual architectures that the operator supports. One job per pair however often it is
/// named. Throws BadInput or cubit::Error before anything is compiled, for the first pair that cannot be.
std::vector<CompileJob> plan_jobs(const std::vector<DescriptorText>& descriptors,
                                  const std::optional<std::string>& architectures, bool use_device);

/// Results in the order of the jobs; one failure does not stop the others.
std::vector<CompileResult> compile_all(const std::vector<CompileJob>& jobs, int threads, Context& context);

/// As `cubit compile --json` prints it.
nlohmann::ordered_json to_json(const CompileResult& result);

std::string compile_table(const std::vector<CompileResult>& results);

/// Says each error once on standard error. Returns the exit code.
int report_failures(const std::vector<CompileResult>& results, Context& context);

}  // namespace cubit::tools
