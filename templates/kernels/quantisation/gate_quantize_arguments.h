// Argument of the gate_quantize kernel, shared by host and device.
#pragma once

#include "quantisation/quantised_rows.h"

namespace cubit {

struct GateQuantizeArguments {
  const char* gate;       // [rows, columns], 16-bit values
  const char* up;         // [rows, columns]
  long long gate_stride;  // bytes from row to row
  long long up_stride;
  QuantisedRows result;
  RowShape shape;
};

}  // namespace cubit
