// The one argument of the stream_copy kernel, shared by host and device.
#pragma once

namespace cubit {

struct StreamCopyArguments {
  const void* source;  // 16-byte aligned
  void* destination;
  long long quads;  // of 16 bytes
};

}  // namespace cubit
