// The descriptor of the operator gate_quantize as a C++ value, and its text.
#pragma once

#include <cubit/gate_quantize.h>
#include <cubit/element.hpp>
#include <cubit/quantisation.hpp>

#include <compare>
#include <string>

namespace cubit {

enum class GateFunction {
  silu,
  gelu,       ///< exact, by the error function
  gelu_tanh,  ///< gelu approximated by tanh
};

inline const char* text_of(GateFunction function) {
  constexpr const char* kNames[] = {"silu", "gelu", "gelu_tanh"};
  return kNames[static_cast<int>(function)];
}

/// Gated activation of rows, function(gate) · up, and quantisation of the products.
/// Text form: gate_quantize:function=gelu   (fields at their default are left out)
struct GateQuantize : RowQuantisation {
  GateFunction function = GateFunction::silu;
  Element input = Element::fp16;  ///< type of gate and up

  auto operator<=>(const GateQuantize&) const = default;

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    std::string text = "gate_quantize:" + text_of_fields();
    if (function != GateFunction::silu) text += std::string("function=") + text_of(function) + ",";
    if (input != Element::fp16) text += "input=bf16,";
    text.pop_back();  // the last comma, or the colon if no field is given
    return text;
  }
};

}  // namespace cubit
