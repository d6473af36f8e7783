// Kernel argument of stream_copy, shared by host and device.
#pragma once

namespace cubit {

struct StreamCopyArguments {
  const void* source;  // 16-byte aligned
  void* destination;
  long long quads;  // number of 16-byte vectors
};

}  // namespace cubit
