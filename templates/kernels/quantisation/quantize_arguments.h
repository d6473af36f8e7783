// Argument of the quantize kernel, shared by host and device.
#pragma once

#include "quantisation/quantised_rows.h"

namespace cubit {

struct QuantizeArguments {
  const char* input;       // [rows, columns], 16-bit values
  long long input_stride;  // bytes from row to row
  QuantisedRows result;
  RowShape shape;
};

}  // namespace cubit
