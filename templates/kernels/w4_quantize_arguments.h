// The one argument of the w4_quantize kernel, shared by host and device.
#pragma once

namespace cubit {

struct W4QuantizeArguments {
  const char* weights;   // [n, k] of 16-bit values
  long long row_stride;  // in bytes, from output feature to output feature
  char* qweight;         // words of the format
  char* qzeros;          // [groups, n / 8] words, or null where none are stored
  char* scales;          // fp16 [groups, n]
  char* max_error;       // float [groups, n], or null
  char* rms_error;       // likewise
  int n;
  int k;
};

}  // namespace cubit
