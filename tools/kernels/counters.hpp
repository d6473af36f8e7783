// What a CPU device has counted of its launches, as text, and beside a plan's proofs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cubit::tools {

/// Tables of instructions and of accesses to shared and global memory. `launches`: cubit_device_counters' list.
std::string counters_text(const nlohmann::ordered_json& launches);

/// For each proof of `plan` (cubit_explain's): {access, degree, wavefronts, ideal, counted_requests,
/// counted_wavefronts, counted_ideal, agrees}. The plan counts one tile and a launch many, so it is the ratio to the
/// ideal that agrees.
nlohmann::ordered_json compare_with_plan(const nlohmann::ordered_json& plan, const nlohmann::ordered_json& launches);

}  // namespace cubit::tools
