// Memory for a KV cache of 2^20 tokens, 8 KiB apart, so that most rows lie beyond 2^31 and half of them beyond 2^32
// bytes after the first: a token's keys, of all KV heads, and behind them its values.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/gpu/gpu_case.hpp"

namespace cubit::tests {

class LongCache {
 public:
  static constexpr std::int64_t kTokens = 1 << 20;
  static constexpr std::int64_t kTokenBytes = 8192;
  static constexpr std::int64_t kQuarter = kTokens / 4;  ///< tokens; as many bytes as 31 bits count
  static constexpr int kPageSize = 16;
  static constexpr std::int64_t kPages = kTokens / kPageSize;

  /// Throws Error where the device has no 8 GiB left.
  explicit LongCache(const Device& device) : device_(device), memory_(device, kTokens * kTokenBytes) {}

  char* key(std::int64_t token = 0) const { return static_cast<char*>(memory_.data()) + token * kTokenBytes; }
  char* value(std::int64_t token = 0) const { return key(token) + kTokenBytes / 2; }
  void clear() const { device_.fill_zero(memory_.data(), memory_.bytes()); }

  /// Each quarter is one of four blocks of tokens, again and again. `keys` and `values`: dense, of all four.
  void fill(const void* keys, const void* values, std::int64_t block, std::size_t token_bytes) const {
    const auto bytes = static_cast<std::size_t>(block * kTokenBytes);
    std::vector<char> host(bytes);
    for (std::int64_t quarter = 0; quarter < 4; ++quarter) {
      for (std::int64_t token = 0; token < block; ++token) {
        const std::size_t src = static_cast<std::size_t>(quarter * block + token) * token_bytes;
        std::memcpy(&host[token * kTokenBytes], static_cast<const char*>(keys) + src, token_bytes);
        std::memcpy(&host[token * kTokenBytes + kTokenBytes / 2], static_cast<const char*>(values) + src, token_bytes);
      }
      for (std::int64_t token = 0; token < kQuarter; token += block)
        device_.upload(key(quarter * kQuarter + token), host.data(), bytes);
    }
  }

  /// A sequence's pages: the second half of the memory first.
  static std::vector<std::int32_t> pages() {
    std::vector<std::int32_t> table(kPages);
    for (std::int64_t i = 0; i < kPages; ++i) table[i] = static_cast<std::int32_t>((i + kPages / 2) % kPages);
    return table;
  }
  /// The place of a token of the long sequence in the cache.
  static std::int64_t place(std::int64_t token, bool is_paged) {
    return is_paged ? (token + kTokens / 2) % kTokens : token;
  }
  /// Sets the strides of sequence or page, token and KV head for rows of `row_bytes` and elements of `element` bytes.
  static void set_strides(std::int64_t (&strides)[3], bool is_paged, std::int64_t row_bytes, std::int64_t element) {
    strides[0] = (is_paged ? kPageSize : 1) * kTokenBytes / element;  // sequences begin a token apart
    strides[1] = kTokenBytes / element;
    strides[2] = row_bytes / element;
  }

 private:
  Device device_;
  Buffer memory_;
};

/// A copy of host values on a device.
class Uploaded {
 public:
  Uploaded(const Device& device, const std::vector<std::int32_t>& values) : buffer_(device, 4 * values.size()) {
    device.upload(buffer_.data(), values.data(), 4 * values.size());
    device.synchronise();
  }
  const std::int32_t* data() const { return static_cast<const std::int32_t*>(buffer_.data()); }

 private:
  Buffer buffer_;
};

}  // namespace cubit::tests
