// The descriptor of the operator convert_layout as a C++ value, and its text.
#pragma once

#include <cubit/convert_layout.h>
#include <cubit/matrix_layout.hpp>

#include <compare>
#include <string>

namespace cubit {

/// Conversion of a matrix of bytes from one layout to another.
/// Text form: convert_layout:from=col32,to=row   (fields at their default are left out)
struct ConvertLayout {
  MatrixLayout from = MatrixLayout::row;
  MatrixLayout to = MatrixLayout::col32;  ///< differs from `from`

  auto operator<=>(const ConvertLayout&) const = default;

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    std::string text = "convert_layout:";
    if (from != MatrixLayout::row) text += std::string("from=") + text_of(from) + ",";
    if (to != MatrixLayout::col32) text += std::string("to=") + text_of(to) + ",";
    text.pop_back();  // the last comma, or the colon if no field is given
    return text;
  }
};

}  // namespace cubit
