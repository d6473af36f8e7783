// Examines a run's outputs: --check compares them with the operator's double-precision reference, and summaries show
// the magnitude of floats.
#pragma once

#include <cubit/check.hpp>
#include <nlohmann/json.hpp>

#include "tools/kernels/device_case.hpp"

namespace cubit::tools {

inline constexpr const char* kNothingRan = "nothing was checked: the case is empty, so no kernel ran";

/// Returns {good, error, tolerance, worst}. {nan} names the first NaN, expected or not. {empty} appears if no output
/// has an element; such a check is never good.
nlohmann::ordered_json check_outputs(const Problem& problem, const HostTensors& outputs);

std::string check_text(const nlohmann::ordered_json& check);

/// {largest, mean} of the magnitudes in a tensor of floats (F32), such as errors or log-sum-exps. Empty for an empty
/// tensor and for other types. If an element is NaN, both values are NaN and {nan} counts the NaN elements.
nlohmann::ordered_json summarise(std::string_view type, std::span<const std::byte> data);

/// Index of the first NaN among the elements of `type` ("BF16", "F16", "F32", "F64"), or -1. Other types have no NaN.
std::ptrdiff_t first_nan(std::string_view type, std::span<const std::byte> data);

}  // namespace cubit::tools
