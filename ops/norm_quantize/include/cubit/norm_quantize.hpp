// The descriptor of the operator norm_quantize as a C++ value, and its text.
#pragma once

#include <cubit/norm_quantize.h>
#include <cubit/element.hpp>
#include <cubit/quantisation.hpp>

#include <compare>
#include <string>

namespace cubit {

enum class Norm {
  rms,    ///< by the root of the mean square
  layer,  ///< by mean and variance
};

/// RMSNorm or LayerNorm of rows, with an optional residual, and quantisation of the result.
/// Text form: norm_quantize:norm=layer,residual=true   (fields at their default are left out)
struct NormQuantize : RowQuantisation {
  Norm norm = Norm::rms;
  bool residual = false;          ///< whether a residual is added to the input first, and the sum written
  bool bias = false;              ///< whether a bias is added to the normalised row
  Element input = Element::fp16;  ///< type of the rows, the residual, the sum, the weight and the bias

  auto operator<=>(const NormQuantize&) const = default;

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    std::string text = "norm_quantize:" + text_of_fields();
    if (norm != Norm::rms) text += "norm=layer,";
    if (residual) text += "residual=true,";
    if (bias) text += "bias=true,";
    if (input != Element::fp16) text += "input=bf16,";
    text.pop_back();  // the last comma, or the colon if no field is given
    return text;
  }
};

}  // namespace cubit
