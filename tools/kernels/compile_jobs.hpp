// Compiles many kernels for many architectures, for the commands compile and run: checks all jobs first, compiles in
// parallel, and reports all results together.
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
  std::string error;      ///< empty if the job succeeded
  bool compiled = false;  ///< true if this call compiled the kernel, false if a cache had it
  double milliseconds = 0;
  nlohmann::json kernel;  ///< the JSON of cubit_kernel_describe
  std::vector<std::byte> cubin;
  std::optional<Kernel> handle = {};  ///< empty if the job failed
};

/// Makes a job for every descriptor, or every member of a set, and every architecture in `architectures`, the value of
/// --arch. Without --arch the
/// jobs are for this machine's device, else for each of the usual architectures that the operator supports. A pair that
/// is named several times gets one job. Throws BadInput or cubit::Error for the first pair that cannot be compiled,
/// before any compilation.
std::vector<CompileJob> plan_jobs(const std::vector<DescriptorText>& descriptors,
                                  const std::optional<std::string>& architectures, bool use_device);

/// Returns results in the order of the jobs. A failed job does not stop the other jobs.
std::vector<CompileResult> compile_all(const std::vector<CompileJob>& jobs, int threads, Context& context);

/// The JSON of `cubit compile --json`.
nlohmann::ordered_json to_json(const CompileResult& result);

std::string compile_table(const std::vector<CompileResult>& results);

/// Prints each different error once on standard error. Returns the exit code.
int report_failures(const std::vector<CompileResult>& results, Context& context);

}  // namespace cubit::tools
