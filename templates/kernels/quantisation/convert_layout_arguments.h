// Argument of the convert_layout kernel, shared by host and device.
#pragma once

namespace cubit {

struct ConvertLayoutArguments {
  const char* input;
  char* output;
  long long input_stride;  // bytes from row to row, or from block to block of 32 columns
  long long output_stride;
  int rows;
  int blocks;  // of 32 columns
};

}  // namespace cubit
