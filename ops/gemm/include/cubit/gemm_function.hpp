// The function that an epilogue applies, for the descriptors of all GEMMs and of the operator dequantize.
#pragma once

namespace cubit {

/// The function that is applied to the product plus its bias.
enum class GemmFunction {
  none,
  relu,
  silu,
  gelu,       ///< exact, by the error function
  gelu_tanh,  ///< gelu approximated by tanh
  silu_gate,  ///< silu of the first half of the columns (the gates) times the second half; not for dequantize
};

}  // namespace cubit
