// The descriptor of the operator dequantize as a C++ value, and its text.
#pragma once

#include <cubit/dequantize.h>
#include <cubit/element.hpp>
#include <cubit/gemm_function.hpp>
#include <cubit/quantisation.hpp>

#include <compare>
#include <string>

namespace cubit {

/// Type of the integers that are dequantised.
enum class QuantisedInteger {
  int8,   ///< codes of activations
  int32,  ///< sums of a product of int8 matrices
};

/// The columns that share a scale of the weights.
enum class WeightScale {
  none,     ///< no scale of columns
  tensor,   ///< all columns
  channel,  ///< each column has its own
};

/// Dequantisation of rows: function(input · scale · weight_scale + bias) + residual.
/// Text form: dequantize:input=int32,weight_scale=channel   (fields at their default are left out)
struct Dequantize {
  QuantisedInteger input = QuantisedInteger::int8;
  ScaleScope scale = ScaleScope::token;
  WeightScale weight_scale = WeightScale::none;
  GemmFunction function = GemmFunction::none;  ///< silu_gate is not accepted
  bool bias = false;
  bool residual = false;
  RowLayout layout = RowLayout::row;  ///< of the input
  Element output = Element::fp16;     ///< type of output, bias and residual

  auto operator<=>(const Dequantize&) const = default;

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    constexpr const char* kFunctions[] = {"none", "relu", "silu", "gelu", "gelu_tanh", "silu_gate"};
    std::string text = "dequantize:";
    if (input != QuantisedInteger::int8) text += "input=int32,";
    if (scale != ScaleScope::token) text += "scale=tensor,";
    if (weight_scale == WeightScale::tensor) text += "weight_scale=tensor,";
    if (weight_scale == WeightScale::channel) text += "weight_scale=channel,";
    if (function != GemmFunction::none) text += std::string("function=") + kFunctions[static_cast<int>(function)] + ",";
    if (bias) text += "bias=true,";
    if (residual) text += "residual=true,";
    if (layout != RowLayout::row) text += "layout=col32,";
    if (output != Element::fp16) text += "output=bf16,";
    text.pop_back();  // the last comma, or the colon if no field is given
    return text;
  }
};

}  // namespace cubit
