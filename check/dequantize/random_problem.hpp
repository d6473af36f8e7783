// Made-up tensors of dequantize.
#pragma once

#include "check/host_tensors.hpp"
#include "check/quantisation/row_sizes.hpp"
#include "ops/dequantize/dequantize.hpp"

namespace cubit::check::dequantize {

/// The inputs that the descriptor takes. `sizes.special`: some rows have a NaN scale, a scale with infinite results, a
/// residual that is not finite, and the smallest and the largest integer.
Tensors made_up_tensors(const Dequantize& descriptor, const quantisation::RowSizes& sizes, std::uint64_t seed);

}  // namespace cubit::check::dequantize
