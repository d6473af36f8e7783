// Argument of the norm_quantize kernel, shared by host and device.
#pragma once

#include "quantisation/quantised_rows.h"

namespace cubit {

struct NormQuantizeArguments {
  const char* input;       // [rows, columns], 16-bit values, as all tensors here
  const char* residual;    // [rows, columns]; null unless the plan adds a residual
  char* sum;               // [rows, columns]: input + residual; may be `residual` or `input`
  const char* weight;      // [columns]
  const char* bias;        // [columns]; null unless the plan adds a bias
  long long input_stride;  // bytes from row to row, as all strides here
  long long residual_stride;
  long long sum_stride;
  QuantisedRows result;
  RowShape shape;
  float epsilon;
};

}  // namespace cubit
