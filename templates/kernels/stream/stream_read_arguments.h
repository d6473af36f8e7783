// Kernel argument of stream_read, shared by host and device.
#pragma once

namespace cubit {

/// Number of checksum words: one per block, so that no two blocks write the same word; unused words are zeroed.
constexpr int kStreamReadSlots = 4096;

struct StreamReadArguments {
  const void* source;   // 16-byte aligned
  long long words;      // 32-bit words, a multiple of 4
  unsigned* checksums;  // [kStreamReadSlots]; their exclusive or is the exclusive or of all words
};

}  // namespace cubit
