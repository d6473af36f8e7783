// Argument of the weight_sums kernel, shared by host and device.
#pragma once

namespace cubit {

struct WeightSumsArguments {
  const char* weights;  // signed bytes [n, k]
  int* sums;            // [n]
  int n;
  int k;  // a multiple of 16
};

}  // namespace cubit
