// The one argument of the merge kernel, shared by host and device. Strides in bytes.
#pragma once

#include "core/divide_by.h"

namespace cubit {

struct MergeArguments {
  const char* partial_outputs;          // [parts, rows, heads, head_dim]
  const char* partial_lse;              // float [parts, rows, heads]
  char* output;                         // [rows, heads, head_dim]
  char* lse;                            // float [rows, heads], or null
  long long partial_output_strides[3];  // part, row, head
  long long partial_lse_strides[3];     // likewise
  long long output_strides[2];          // row, head
  long long lse_strides[2];             // likewise
  DivideBy heads;
  int parts;       // at least 1
  unsigned items;  // rows * heads * the threads that share a head's channels
};

}  // namespace cubit
