// Argument of the w4_quantize kernel, shared by host and device.
#pragma once

namespace cubit {

struct W4QuantizeArguments {
  const char* weights;   // [n, k], 16-bit values
  long long row_stride;  // bytes from one output feature to the next
  char* qweight;         // packed words in the checkpoint format's layout
  char* qzeros;          // [groups, n / 8] words; null if no zeros are stored
  char* scales;          // fp16 [groups, n]
  char* max_error;       // float [groups, n], or null
  char* rms_error;       // float [groups, n], or null
  int n;
  int k;
};

}  // namespace cubit
