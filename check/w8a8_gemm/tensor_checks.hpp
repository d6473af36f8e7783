// Checks of the values of w8a8_gemm's tensors: of inputs that a problem accepts, and of second outputs.
#pragma once

#include <cstdint>
#include <span>

#include "check/w8a8_gemm/reference.hpp"

namespace cubit::check::w8a8_gemm {

/// Refuses scales that no quantiser writes. Given scales of bytes have the range that kernels accept.
void check_scales(const Tensor* scales, bool is_of_bytes);

/// Refuses sums that are not those of the weights, whose products would be wrong without a trace.
void check_sums(const Operands& operands);

/// Counts the bytes of the second output, from element `first` on, that the formula of quantize with scale=tensor does
/// not give for the first output as it is stored. `got`: the data of both outputs.
int second_differences(const W8a8Gemm& descriptor, const Operands& operands, std::int64_t first, int count,
                       std::span<const void* const> got);

}  // namespace cubit::check::w8a8_gemm
