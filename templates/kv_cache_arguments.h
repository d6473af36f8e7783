// A KV cache as a kernel's argument, shared by host and device. Strides in bytes.
#pragma once

namespace cubit {

/// Division by a number that the host knows: for dividends below 2^31, floor(dividend / divisor) =
/// dividend * multiplier >> shift with multiplier = ceil(2^shift / divisor) and shift = 31 + ceil(log2(divisor)).
/// Granlund and Montgomery, "Division by Invariant Integers using Multiplication", theorem 4.2.
struct DivideBy {
  unsigned divisor;
  unsigned multiplier;
  int shift;
};

struct KvCacheArguments {
  char* key;  // rows by sequence, token and KV head
  char* value;
  long long key_strides[3];
  long long value_strides[3];
  DivideBy kv_heads;
  int max_length;  // rows of later tokens do not exist
};

}  // namespace cubit
