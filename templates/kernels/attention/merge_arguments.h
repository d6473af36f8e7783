// Kernel argument of merge, shared by host and device. Strides are in bytes.
#pragma once

#include "core/divide_by.h"

namespace cubit {

struct MergeArguments {
  const char* partial_outputs;          // [parts, rows, heads, head_dim]
  const char* partial_lse;              // float [parts, rows, heads]
  char* output;                         // [rows, heads, head_dim]
  char* lse;                            // float [rows, heads], or null
  long long partial_output_strides[3];  // part, row, head
  long long partial_lse_strides[3];     // part, row, head
  long long output_strides[2];          // row, head
  long long lse_strides[2];             // row, head
  DivideBy heads;
  int parts;       // partial results; at least 1
  unsigned items;  // rows * heads * threads per head
};

}  // namespace cubit
