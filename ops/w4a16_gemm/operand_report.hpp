// Decisions of the weight format, for reports: how words become operands, where zeros are subtracted, and how loaded
// words and activations come to meet in a lane's operands.
#pragma once

#include <cubit/w4a16_gemm.hpp>

#include <vector>

#include "ops/operator.hpp"

namespace cubit::ops::w4a16_gemm {

std::vector<Decision> operand_decisions(const W4a16Gemm& descriptor);             ///< kernels with mma.sync
std::vector<Decision> wide_operand_decisions(const W4a16Gemm& descriptor);        ///< the wide kernel of family sm90
std::vector<Decision> persistent_operand_decisions(const W4a16Gemm& descriptor);  ///< family sm90_persistent

}  // namespace cubit::ops::w4a16_gemm
