// The one argument of the stream_read kernel, shared by host and device.
#pragma once

namespace cubit {

/// One word per block, so that no two blocks meet; unused ones are zeroed.
constexpr int kStreamReadSlots = 4096;

struct StreamReadArguments {
  const void* source;   // 16-byte aligned
  long long words;      // 32-bit words, a multiple of 4
  unsigned* checksums;  // [kStreamReadSlots]; the exclusive or of all is that of the words
};

}  // namespace cubit
