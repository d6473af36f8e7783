// What run says of the outputs: --check against the operator's double-precision reference, and how large floats are.
#pragma once

#include <cubit/cubit.hpp>
#include <nlohmann/json.hpp>

#include "tools/kernels/device_case.hpp"

namespace cubit::tools {

inline constexpr const char* kNothingRan = "nothing was checked: the case is empty, and no kernel ran";

/// {good, error, tolerance, worst}; also {nan} naming the first NaN, whether it should be one or not, or {empty} where
/// no output has an element: then it is never good.
nlohmann::ordered_json check_outputs(const Problem& problem, const HostTensors& outputs);

std::string check_text(const nlohmann::ordered_json& check);

/// {largest, mean} of a tensor of floats (F32), such as errors or log-sum-exps; nothing of an empty one or of another
/// type. With a NaN among the elements both are one, and {nan} counts them.
nlohmann::ordered_json summarise(std::string_view type, std::span<const std::byte> data);

/// Index of the first NaN among the elements of `type` ("BF16", "F16", "F32", "F64"; others have none), or -1.
std::ptrdiff_t first_nan(std::string_view type, std::span<const std::byte> data);

}  // namespace cubit::tools
