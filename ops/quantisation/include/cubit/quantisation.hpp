// The fields of descriptors whose operators quantise rows, and the text of these fields.
#pragma once

#include <cubit/quantisation.h>

#include <compare>
#include <string>

namespace cubit {

/// Type of a result.
enum class Quantised {
  int8,
  fp8_e4m3,
  none,  ///< "unquantised": values of the type of the operator's input; not for the operator quantize
};

/// The elements that share a scale.
enum class ScaleScope {
  token,   ///< a row; an operator that quantises computes each row's scale, and dequantize reads the scales
  tensor,  ///< all rows; the caller gives the scale
};

/// The range of values that the codes cover.
enum class QuantisationScheme {
  symmetric,   ///< from -r to r: as far below 0 as above
  asymmetric,  ///< from a row's smallest to its largest value, always including 0; int8 and scale=token only
};

/// The order of elements in memory: of the result of an operator that quantises, and of the input of dequantize.
enum class RowLayout {
  row,    ///< row-major
  col32,  ///< blocks of 32 columns, row-major inside
};

/// How an operator quantises rows; see <cubit/quantisation.h>.
struct RowQuantisation {
  Quantised output = Quantised::int8;
  ScaleScope scale = ScaleScope::token;
  QuantisationScheme scheme = QuantisationScheme::symmetric;
  RowLayout layout = RowLayout::row;

  auto operator<=>(const RowQuantisation&) const = default;

  bool has_zero_points() const { return scheme == QuantisationScheme::asymmetric; }
  /// Whether the operator computes and writes scales.
  bool writes_scales() const { return output != Quantised::none && scale == ScaleScope::token; }
  /// Whether the operator reads one scale that the caller gives.
  bool reads_scale() const { return output != Quantised::none && scale == ScaleScope::tensor; }

  /// The fields that are not at their default, each followed by a comma: "output=fp8_e4m3,".
  std::string text_of_fields() const {
    std::string fields;
    if (output == Quantised::fp8_e4m3) fields += "output=fp8_e4m3,";
    if (output == Quantised::none) fields += "output=unquantised,";
    if (scale != ScaleScope::token) fields += "scale=tensor,";
    if (scheme != QuantisationScheme::symmetric) fields += "scheme=asymmetric,";
    if (layout != RowLayout::row) fields += "layout=col32,";
    return fields;
  }
};

}  // namespace cubit
