// An operator's benchmark: its cases, their measurements side by side with what they shall reach. The operator has the
// cases; nothing here knows which.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/options/arguments.hpp"
#include "tools/text/format.hpp"

namespace cubit::tools {

/// The cases of the operator `name`, by cubit_operators' list; an empty array where it has none. Throws BadInput for an
/// unknown operator.
nlohmann::ordered_json bench_cases(const nlohmann::ordered_json& operators, const std::string& name);

/// The cases with other sizes: each number replaces the one of its name, and what it makes of a case has no target.
nlohmann::ordered_json with_sizes(nlohmann::ordered_json cases, const Numbers& sizes);

/// Each case that has a "comparable" descriptor once with each decomposition of the operator `name`, one after another,
/// named in "decomposition": all of them, or the one that `wanted` names. Its numbers join the case's sizes and its
/// fields the descriptor, and the case has no target. Throws BadInput where there is none.
nlohmann::ordered_json with_decompositions(const nlohmann::ordered_json& cases, const nlohmann::ordered_json& operators,
                                           const std::string& name, const std::string& wanted);

/// Adds "speedup" to every measured entry that follows one of its case with the operator's first decomposition: the
/// time of that one over its own.
void add_speedups(nlohmann::ordered_json& entries, const std::string& first);

/// The name of the operator's first decomposition; "" where it has none.
std::string first_decomposition(const nlohmann::ordered_json& operators, const std::string& name);

/// Those whose group, name or descriptor contains `part`.
nlohmann::ordered_json matching(const nlohmann::ordered_json& cases, const std::string& part);

/// Sizes as Problem takes them.
Numbers case_sizes(const nlohmann::ordered_json& one);

/// "yes" or "no" where a measured entry has a target that can be judged, else "". Microseconds are judged on the device
/// that they were stated for only; shares of the floor anywhere.
std::string target_met(const nlohmann::ordered_json& entry);

/// The entries as they are printed and written: with add_speedups, where `first` is not empty, and without "comparable".
nlohmann::ordered_json published_entries(nlohmann::ordered_json entries, const std::string& first);

/// The table of measurements, row by row: each entry is printed when it has been measured.
class BenchTableRows {
 public:
  /// `cases`: all entries that may follow, for the widths of the columns.
  explicit BenchTableRows(const nlohmann::ordered_json& cases) : cases_(cases) {}
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
