// The table of an operator's benchmark: its cases, their measurements and their targets. The operator provides the
// cases; this file knows no operator.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "files/text/format.hpp"
#include "tools/options/arguments.hpp"

namespace cubit::tools {

/// The benchmark cases of the operator `name`, from the list of cubit_operators; an empty array if the operator has
/// none. Throws BadInput for an unknown operator.
nlohmann::ordered_json bench_cases(const nlohmann::ordered_json& operators, const std::string& name);

/// The cases with other sizes. Each number replaces the size of the same name. A changed case has no target.
nlohmann::ordered_json with_sizes(nlohmann::ordered_json cases, const Numbers& sizes);

/// Repeats each case that has a "comparable" descriptor for each decomposition of the operator `name`; `wanted` is
/// "all" or the name of one decomposition. An entry names its decomposition in "decomposition". The decomposition adds
/// numbers to the sizes and fields to the descriptor, and the entry has no target. Throws BadInput if no such entry
/// exists.
nlohmann::ordered_json with_decompositions(const nlohmann::ordered_json& cases, const nlohmann::ordered_json& operators,
                                           const std::string& name, const std::string& wanted);

/// Adds "speedup" to measured entries. The speedup is the time of the operator's first decomposition divided by the
/// entry's own time. An entry is compared with the preceding entry of the same case that has the first decomposition.
void add_speedups(nlohmann::ordered_json& entries, const std::string& first);

/// The name of the operator's first decomposition; "" if the operator has no decompositions.
std::string first_decomposition(const nlohmann::ordered_json& operators, const std::string& name);

/// The cases whose group, name or descriptor contains `part`.
nlohmann::ordered_json matching(const nlohmann::ordered_json& cases, const std::string& part);

/// The sizes of a case, in the form that Problem takes.
Numbers case_sizes(const nlohmann::ordered_json& one);

/// "yes" or "no" if a measured entry has a target that can be judged, else "". A target in microseconds is judged only
/// on the device it was stated for. A share of the floor is judged on every device.
std::string target_met(const nlohmann::ordered_json& entry);

/// The entries as they are printed and written: without "comparable". add_speedups is applied if `first` is not empty.
nlohmann::ordered_json published_entries(nlohmann::ordered_json entries, const std::string& first);

/// The table of measurements, row by row: each entry is printed when it has been measured.
class BenchTableRows {
 public:
  /// `cases`: all entries that may follow, for the widths of the columns.
  explicit BenchTableRows(nlohmann::ordered_json cases) : cases_(std::move(cases)) {}
  /// The entry's row, or a sentence that says why the entry was skipped. The group's name precedes its first entry, and
  /// the titles of the columns precede its first row.
  std::string next(const nlohmann::ordered_json& entry);

 private:
  nlohmann::ordered_json cases_;
  std::string group_;
  std::vector<Column> columns_;  ///< of the group; empty until its first row
  bool begun_ = false;           ///< an entry has been printed
};

/// The tables of all entries by group, as BenchTableRows prints them. Without any measurement, as in a dry run, the
/// tables show sizes and targets.
std::string bench_table_text(const nlohmann::ordered_json& entries);

}  // namespace cubit::tools
