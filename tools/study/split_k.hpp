// The study of split-K: which launches of w4a16_gemm it compares, and the table that shows their measurements.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files/text/format.hpp"

namespace cubit::tools {

/// The decomposition that speedups refer to, and the one that leaves tiles and decomposition to cubit.
inline constexpr const char* kDataParallel = "data_parallel";
inline constexpr const char* kAutomatic = "automatic";

/// The cells of the study and the split-K factors. The defaults are those of Hoque et al., "Accelerating a Triton Fused
/// Kernel for W4A16 Quantized Inference with SplitK Work Decomposition", arXiv 2402.00025.
struct SplitKStudy {
  std::vector<int> rows = {1, 2, 4, 8, 16};
  std::vector<int> sizes = {512, 1024, 2048, 4096, 8192, 16384};  ///< n = k
  std::vector<int> splits = {2, 4, 8, 16};
};

/// Parse the values of --rows, --sizes and --splits: whole numbers without repetition, separated by commas. Throw
/// BadInput.
std::vector<int> parse_rows(const std::string& text);
std::vector<int> parse_sizes(const std::string& text);
std::vector<int> parse_splits(const std::string& text);

/// One entry per launch, cell by cell: data-parallel, split-K and split-K with atomics by factor, stream-K, and
/// automatic. An entry has the members of an entry of `cubit bench` before its measurement, and "splits". All kernels
/// of a cell have the same tiles, except for the kernel of the entry "automatic".
nlohmann::ordered_json split_k_entries(const SplitKStudy& study);

/// Adds the rates and resources that the study shows to a measured entry. `kernel` is the JSON of Kernel::describe, of
/// one kernel, and `launch` is the JSON of Problem::describe_launch.
void add_kernel_and_launch(nlohmann::ordered_json& entry, const nlohmann::ordered_json& kernel,
                           const nlohmann::ordered_json& launch);

/// The table of measured entries, row by row, below one heading per n = k.
class SplitKRows {
 public:
  SplitKRows();
  /// The entry's row, or a sentence that says why the entry was not measured. A heading and the titles of the columns
  /// precede the first row of each n = k.
  std::string next(const nlohmann::ordered_json& entry);

 private:
  std::vector<Column> columns_;
  std::string group_;
};

/// The entries without measurements, as a table for --dry-run.
std::string split_k_plan(const nlohmann::ordered_json& entries);

}  // namespace cubit::tools
