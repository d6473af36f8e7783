// Argument of GEMM kernels with packed weights, shared by host and device. Tensor maps may follow the argument.
#pragma once

#include "kernels/gemm/gemm_arguments.h"

namespace cubit {

/// GemmArguments::weights are packed words: see the headers in weight_format/. GemmArguments::scales are [groups, n]
/// fp16. There are k / group size groups, rounded up; with activation order the member `groups` has their number.
struct PackedGemmArguments : GemmArguments {
  const void* qzeros;     // [groups, n / 8] words, for 8 bits n / 4; not read if zeros are not stored
  const unsigned* g_idx;  // [k] group of each k; read only with activation order
  int groups;             // rows of scales and zeros; read only with activation order
};

}  // namespace cubit
