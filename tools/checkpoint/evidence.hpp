// Finds what contradicts the way in which a case reads the weights of a checkpoint.
#pragma once

#include <cubit/check.hpp>
#include <cubit/w4_evidence.hpp>
#include <span>
#include <string>
#include <vector>

namespace cubit::tools {

/// One sentence about the packed weights among `inputs`, which the canonical `descriptor` takes, or an empty text if
/// nothing contradicts the descriptor. `configs` are the statements of the files beside the weights. `is_sorted`: the
/// layer had activation order before a conversion sorted it by group.
std::string contradictions_of_case(const std::string& descriptor, std::span<const cubit_tensor> inputs,
                                   std::vector<W4Config> configs, bool is_sorted);

/// How the canonical `descriptor` of w4a16_gemm reads packed weights; k and the number of groups are left open.
W4Reading reading_of(const std::string& descriptor);

}  // namespace cubit::tools
