// The descriptor of the operator quantize as a C++ value, and its text.
#pragma once

#include <cubit/quantize.h>
#include <cubit/element.hpp>
#include <cubit/quantisation.hpp>

#include <compare>
#include <string>

namespace cubit {

/// Quantises rows of activations, each token by its own scale or all by a given scale.
/// Text form: quantize:output=fp8_e4m3,scale=tensor   (fields at their default are left out)
struct Quantize : RowQuantisation {
  Element input = Element::fp16;  ///< type of the rows

  auto operator<=>(const Quantize&) const = default;

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    std::string text = "quantize:" + text_of_fields();
    if (input != Element::fp16) text += "input=bf16,";
    text.pop_back();  // the last comma, or the colon if no field is given
    return text;
  }
};

}  // namespace cubit
