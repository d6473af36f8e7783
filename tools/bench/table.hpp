// An operator's benchmark: its cases, their measurements side by side with what they shall reach. The operator has the
// cases; nothing here knows which.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/options/arguments.hpp"

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

/// Tables by group. An entry is a case, with what was measured of it, or with "skipped": why not; cases alone, of a dry
/// run, are shown without the columns of measurements.
std::string bench_table_text(const nlohmann::ordered_json& entries);

}  // namespace cubit::tools
