// Shows what a CPU device counted of its launches, as tables and in comparison with a plan's proofs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cubit::tools {

/// Tables of instructions and of accesses to shared and global memory. `launches`: the list of cubit_device_counters.
std::string counters_text(const nlohmann::ordered_json& launches);

/// For each proof of `plan` (the JSON of cubit_explain): {access, degree, wavefronts, ideal, counted_requests,
/// counted_wavefronts, counted_ideal, agrees}. The plan counts one tile and a launch counts many tiles, so "agrees"
/// compares the ratios of wavefronts to ideal wavefronts.
nlohmann::ordered_json compare_with_plan(const nlohmann::ordered_json& plan, const nlohmann::ordered_json& launches);

}  // namespace cubit::tools
