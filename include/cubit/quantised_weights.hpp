// Quantisation of a linear layer's weights to 8 bits, as w8a8_gemm takes them.
//
//   const auto weights = cubit::calibrate::quantise_weights(tensor, cubit::calibrate::Format::int8, true);
//
// Link libcubit_calibrate, which needs neither libcubit nor a GPU. Functions throw cubit::Error.
#pragma once

#include <cstddef>
#include <cubit/calibrate.hpp>
#include <vector>

namespace cubit::calibrate {

/// Weights [n, k] as codes and scales: weight = code · scale of its row.
struct QuantisedWeights {
  std::vector<std::byte> codes;  ///< [n, k], signed bytes or e4m3
  std::vector<float> scales;     ///< [n] for scales per channel, else [1]
  double error = 0;              ///< root mean square of the differences / root mean square of the weights
};

/// Quantises weights. With `per_channel` each row (output channel) has a scale, from the row's largest magnitude; else
/// all rows share one scale, from the largest magnitude of the tensor. scale = magnitude / 127 for int8 and magnitude /
/// 448 for e4m3, but at least 2^-126, and 1 if the magnitude is 0. code = weight / scale, rounded half to even. The
/// codes of int8 are -127 … 127.
///
/// Throws cubit::Error if the weights do not have two dimensions, their type is no floating-point type, a weight is not
/// finite, or the format is Format::int8_asymmetric.
CUBIT_CALIBRATE_API QuantisedWeights quantise_weights(const Tensor& weights, Format format, bool per_channel);

/// Decodes a tensor, such as scales, to float. Throws cubit::Error if the type is no floating-point type or the
/// data do not have the shape's size.
CUBIT_CALIBRATE_API std::vector<float> float_values(const Tensor& tensor);

}  // namespace cubit::calibrate
