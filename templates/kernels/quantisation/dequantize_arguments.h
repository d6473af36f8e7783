// Argument of the dequantize kernel, shared by host and device.
#pragma once

namespace cubit {

inline constexpr int kDequantisedRows = 4;  // most rows of a thread

struct DequantizeArguments {
  const char* input;
  const char* scale;         // floats
  const char* weight_scale;  // floats
  const char* bias;          // 16-bit values, as the residual and the output
  const char* residual;
  char* output;
  long long input_stride;     // elements from row to row, or from block to block of 32 columns
  long long residual_stride;  // bytes from row to row
  long long output_stride;    // bytes from row to row
  int rows;
  int vectors;          // of a row
  int rows_per_thread;  // 1 … kDequantisedRows
};

}  // namespace cubit
