// --check: the outputs against the operator's double-precision reference.
#pragma once

#include <cubit/cubit.hpp>
#include <nlohmann/json.hpp>

#include "tools/device_case.hpp"

namespace cubit::tools {

/// {good, error, tolerance, worst}; also {nan} naming the first NaN, if there is one: then it is never good.
nlohmann::ordered_json check_outputs(const Problem& problem, const HostTensors& outputs);

std::string check_text(const nlohmann::ordered_json& check);

/// Index of the first NaN among the elements of `type` ("BF16", "F16", "F32", "F64"; others have none), or -1.
std::ptrdiff_t first_nan(std::string_view type, std::span<const std::byte> data);

}  // namespace cubit::tools
