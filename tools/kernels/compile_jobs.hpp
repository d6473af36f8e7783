// Compiles many kernels for many architectures, for the commands compile and run: checks all jobs first, compiles in
// parallel, and reports all results together.
#pragma once

#include <cstddef>
#include <functional>
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
  bool missing = false;   ///< the job failed because no store has the kernel and the engine may not compile
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

/// The jobs of one of `count` machines that share the work: every `count`-th job, from the job `index` (from 1) on.
std::vector<CompileJob> shard_of(const std::vector<CompileJob>& jobs, std::size_t index, std::size_t count);

/// Each job twice: for the architecture, and as PTX for the CPU device of that name.
std::vector<CompileJob> with_ptx(const std::vector<CompileJob>& jobs);

/// Returns results in the order of the jobs. A failed job does not stop the other jobs. `each` is called with every
/// kernel on the thread that made the kernel; an exception of `each` becomes the error of the job. The
/// status line shows the time left. A cached kernel takes no time, so only compiled kernels count for the estimate.
std::vector<CompileResult> compile_all(const std::vector<CompileJob>& jobs, int threads, Context& context,
                                       const std::function<void(CompileResult&)>& each = {});

/// The JSON of `cubit compile --json`.
nlohmann::ordered_json to_json(const CompileResult& result);

/// The jobs that failed, with the first line of each error; "" if there are none.
std::string failure_table(const std::vector<CompileResult>& results);

std::string compile_table(const std::vector<CompileResult>& results);

/// Prints each different error once on standard error. If several kernels are missing, prints the error of the first
/// missing kernel and the commands that compile all missing kernels. Returns the exit code.
int report_failures(const std::vector<CompileResult>& results, Context& context);

}  // namespace cubit::tools
