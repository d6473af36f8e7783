// The function that a GEMM's epilogue applies, for the descriptors of all GEMMs.
#pragma once

namespace cubit {

/// The function that is applied to the product plus its bias.
enum class GemmFunction {
  none,
  relu,
  silu,
  gelu,       ///< exact, by the error function
  gelu_tanh,  ///< gelu approximated by tanh
  silu_gate,  ///< silu of the first half of the columns times the second half
};

}  // namespace cubit
