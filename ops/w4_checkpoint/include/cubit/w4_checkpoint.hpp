// Converts quantised weights from one checkpoint layout to another on the host. Weights have 4 bits, or 8 bits in all
// formats except awq. The meaning of each weight and each zero stays the same, bit for bit.
//
// A layer of k input and n output features has qweight, scales [groups, n] and qzeros: int32 [groups, n / 8], with 8
// bits [groups, n / 4], and none for symmetric. <cubit/w4a16_gemm.hpp> says what the words of each format mean, and
// docs/operators/w4a16_gemm.md#layouts shows them. Scales are the same in all formats. No function here opens a file or
// allocates tensors: source and result are the caller's, and dense.
#pragma once

#include <cubit/cubit.hpp>
#include <cubit/w4a16_gemm.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace cubit {

/// The text of a format in a descriptor.
inline const char* text_of(W4Format format) {
  constexpr const char* kNames[] = {"gptq", "gptq_v2", "awq", "symmetric", "dense"};
  return kNames[static_cast<int>(format)];
}

/// Sizes of a layer. n and k must be multiples of 8, some group_size() must give the groups, and bits must be 4 or 8.
struct W4LayerSizes {
  std::int64_t n = 0;       ///< output features
  std::int64_t k = 0;       ///< input features
  std::int64_t groups = 0;  ///< groups of input features, each with a scale per output feature
  int bits = 4;             ///< bits of a weight and of a zero

  /// Input features of a group, of which the last group may have fewer; 0 if no group size gives this number of groups.
  /// At most one power of two gives it, from two groups on. Another group size must divide k.
  std::int64_t group_size() const {
    if (groups < 1) return 0;
    for (std::int64_t size = 16; groups > 1 && size < k; size *= 2)
      if ((k + size - 1) / size == groups) return size;
    return k % groups == 0 ? k / groups : 0;
  }
  /// Weights or zeros in one int32 word.
  int in_word() const { return 32 / bits; }
  std::size_t qweight_words() const { return static_cast<std::size_t>(n / in_word() * k); }
  std::size_t qzeros_words() const { return static_cast<std::size_t>(groups * (n / in_word())); }
  /// Shape [rows, columns] of a format's qweight.
  std::array<std::int64_t, 2> qweight_shape(W4Format format) const {
    return format == W4Format::awq ? std::array{k, n / in_word()} : std::array{k / in_word(), n};
  }
};

/// Whether a checkpoint of this format has qzeros.
inline bool stores_zeros(W4Format format) { return format != W4Format::symmetric; }

namespace w4_checkpoint_detail {

constexpr std::array<int, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};  ///< nibble j is n = 8i + kAwqOrder[j]

[[noreturn]] inline void refuse(const std::string& given, const std::string& rule, const std::string& remedy) {
  const std::string message = given + ": " + rule + "; " + remedy;
  cubit_error error{};
  error.status = CUBIT_INVALID_ARGUMENT;
  error.message = message.c_str();
  error.what = given.c_str();
  error.why = rule.c_str();
  error.remedy = remedy.c_str();
  throw Error(error);
}

inline void require_bits(W4Format from, W4Format to, int bits) {
  const bool is_awq = from == W4Format::awq || to == W4Format::awq;
  if (bits == 4 || (bits == 8 && !is_awq)) return;
  refuse("weights of " + std::to_string(bits) + " bits",
         std::string(text_of(from)) + " cannot be converted to " + text_of(to) + " with this number of bits",
         is_awq ? "accepted: 4" : "accepted: 4, 8");
}

inline void require_sizes(const W4LayerSizes& sizes) {
  const auto is_multiple = [](std::int64_t size) { return size > 0 && size % 8 == 0; };
  if (is_multiple(sizes.n) && is_multiple(sizes.k) && sizes.group_size() > 0) return;
  refuse("n = " + std::to_string(sizes.n) + ", k = " + std::to_string(sizes.k) + " and " +
             std::to_string(sizes.groups) + " groups",
         "a layer cannot have these sizes",
         "accepted: multiples of 8 for n and k, and groups of a power of two input features or groups that divide k");
}

/// Whether groups of `size` input features are the groups of a layer of these sizes.
inline bool is_group_size(const W4LayerSizes& sizes, std::int64_t size) {
  return size > 0 && (size == sizes.group_size() || size * sizes.groups == sizes.k);
}

inline void require_words(const char* name, std::size_t given, std::size_t expected) {
  if (given == expected) return;
  refuse(std::string(name) + " of " + std::to_string(given) + " words", "it does not fit the layer's sizes",
         "accepted: " + std::to_string(expected));
}

/// Splits [0, count) into one range per thread and calls body(first, last) for each range on its own thread. If ranges
/// throw, the exception of the first such range is rethrown after all threads have ended.
template <class Body>
void on_ranges(std::int64_t count, int threads, Body body) {
  const std::int64_t parts = std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(count, 1));
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(parts));
  const auto work = [&](std::int64_t part) {
    try {
      body(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      failures[static_cast<std::size_t>(part)] = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  std::int64_t part = 1;
  try {
    for (; part < parts; ++part) helpers.emplace_back(work, part);
  } catch (const std::exception&) {  // no more threads: the calling thread takes the remaining ranges
  }
  work(0);
  for (; part < parts; ++part) work(part);
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

/// Nibble j of word i becomes nibble i of word j: the first step swaps halves of words, the next bytes, the last
/// nibbles.
inline void transpose(std::array<std::uint32_t, 8>& words) {
  constexpr std::uint32_t kLow[] = {0x0000ffff, 0x00ff00ff, 0x0f0f0f0f};
  for (int step = 0, distance = 4; distance > 0; ++step, distance /= 2) {
    for (int i = 0; i < 8; ++i) {
      if ((i & distance) != 0) continue;
      std::uint32_t& a = words[static_cast<std::size_t>(i)];
      std::uint32_t& b = words[static_cast<std::size_t>(i + distance)];
      const std::uint32_t moved = (a >> (4 * distance) ^ b) & kLow[step];
      b ^= moved;
      a ^= moved << (4 * distance);
    }
  }
}

/// The column, counted within a word, of the field at `place` of the word.
inline std::size_t column_at(W4Format format, int place) {
  const auto index = static_cast<std::size_t>(place);
  return format == W4Format::awq ? static_cast<std::size_t>(kAwqOrder[index]) : index;
}

/// The difference between a zero and its stored value: gptq stores zero - 1.
inline int stored_less(W4Format format) { return format == W4Format::gptq ? 1 : 0; }

/// The zeros that a word of fields of `bits` stands for, in the order of columns.
inline std::array<int, 8> zeros_of(W4Format format, int bits, std::uint32_t word) {
  std::array<int, 8> zeros{};
  for (int place = 0; place < 32 / bits; ++place) {
    const std::uint32_t field = word >> (bits * place) & ((1u << bits) - 1);
    zeros[column_at(format, place)] = static_cast<int>(field) + stored_less(format);
  }
  return zeros;
}

/// The zeros that a format can store.
struct ZeroRange {
  int least;
  int largest;
};
inline ZeroRange zero_range(W4Format format, int bits) {
  const int middle = 1 << (bits - 1);
  if (format == W4Format::symmetric) return {middle, middle};
  return {stored_less(format), 2 * middle - 1 + stored_less(format)};
}

inline std::uint32_t word_of(W4Format format, int bits, const std::array<int, 8>& zeros) {
  std::uint32_t word = 0;
  for (int place = 0; place < 32 / bits; ++place)
    word |= static_cast<std::uint32_t>(zeros[column_at(format, place)] - stored_less(format)) << (bits * place);
  return word;
}

}  // namespace w4_checkpoint_detail

/// Converts a layer's weights on up to `threads` threads. `src` and `dst` have sizes.qweight_words() words each and do
/// not overlap. Throws Error (invalid argument) for another number of words, for illegal sizes, and for bits that a
/// format does not have.
inline void convert_qweight(W4Format from, W4Format to, const W4LayerSizes& sizes, std::span<const std::uint32_t> src,
                            std::span<std::uint32_t> dst, int threads) {
  using namespace w4_checkpoint_detail;
  require_bits(from, to, sizes.bits);
  require_sizes(sizes);
  require_words("the source's qweight", src.size(), sizes.qweight_words());
  require_words("the result's qweight", dst.size(), sizes.qweight_words());
  const bool from_n = from == W4Format::awq;
  if (from_n == (to == W4Format::awq)) {
    std::copy(src.begin(), src.end(), dst.begin());
    return;
  }
  const std::int64_t columns = sizes.n / 8;
  // Each step converts 8 x 8 weights, eight input features of eight output features: eight words of either layout.
  on_ranges(sizes.k / 8, threads, [&](std::int64_t first, std::int64_t last) {
    std::array<std::uint32_t, 8> words{};
    for (std::int64_t i = first; i < last; ++i) {
      for (std::int64_t column = 0; column < columns; ++column) {
        for (std::int64_t j = 0; j < 8; ++j) {
          const auto order = static_cast<std::int64_t>(kAwqOrder[static_cast<std::size_t>(j)]);
          const std::int64_t at = from_n ? (8 * i + j) * columns + column : i * sizes.n + 8 * column + order;
          words[static_cast<std::size_t>(j)] = src[static_cast<std::size_t>(at)];
        }
        transpose(words);
        for (std::int64_t j = 0; j < 8; ++j) {
          const auto order = static_cast<std::int64_t>(kAwqOrder[static_cast<std::size_t>(j)]);
          const std::int64_t at = from_n ? i * sizes.n + 8 * column + order : (8 * i + j) * columns + column;
          dst[static_cast<std::size_t>(at)] = words[static_cast<std::size_t>(j)];
        }
      }
    }
  });
}

/// Converts a layer's zeros on up to `threads` threads. `src` and `dst` have sizes.qzeros_words() words each. For a
/// format that stores no zeros the span is empty, and every zero is 8, with 8 bits 128. `src` and `dst` do not overlap.
///
/// Throws Error (invalid argument) that names the first zero that `to` cannot store. With 4 bits gptq stores 1 to 16,
/// gptq_v2 and awq 0 to 15, symmetric 8. With 8 bits gptq stores 1 to 256, gptq_v2 0 to 255, symmetric 128.
inline void convert_qzeros(W4Format from, W4Format to, const W4LayerSizes& sizes, std::span<const std::uint32_t> src,
                           std::span<std::uint32_t> dst, int threads) {
  using namespace w4_checkpoint_detail;
  require_bits(from, to, sizes.bits);
  require_sizes(sizes);
  require_words("the source's qzeros", src.size(), stores_zeros(from) ? sizes.qzeros_words() : 0);
  require_words("the result's qzeros", dst.size(), stores_zeros(to) ? sizes.qzeros_words() : 0);
  const ZeroRange range = zero_range(to, sizes.bits);
  const std::int64_t columns = sizes.n / sizes.in_word();
  on_ranges(sizes.groups, threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first * columns; at < last * columns; ++at) {
      std::array<int, 8> zeros{};
      zeros.fill(1 << (sizes.bits - 1));
      if (!src.empty()) zeros = zeros_of(from, sizes.bits, src[static_cast<std::size_t>(at)]);
      for (int i = 0; i < sizes.in_word(); ++i) {
        const int zero = zeros[static_cast<std::size_t>(i)];
        if (zero >= range.least && zero <= range.largest) continue;
        refuse("the zero of group " + std::to_string(at / columns) + ", column " +
                   std::to_string(at % columns * sizes.in_word() + i) + ", which is " + std::to_string(zero),
               std::string(text_of(to)) + " cannot store it",
               range.least == range.largest
                   ? "accepted: " + std::to_string(range.least)
                   : "accepted: " + std::to_string(range.least) + " to " + std::to_string(range.largest));
      }
      if (!dst.empty()) dst[static_cast<std::size_t>(at)] = word_of(to, sizes.bits, zeros);
    }
  });
}

/// Exchanges rows and columns of a matrix of `rows` rows. compressed-tensors (`pack-quantized`) stores the words and
/// the zeros of gptq_v2, and scales, in this way: weight_packed is [n, k / 8], weight_zero_point [n / 8, groups] and
/// weight_scale [n, groups]. Without weight_zero_point the layer is symmetric. With 8 bits 4 takes the place of 8.
/// `src` and `dst` do not overlap. Throws Error (invalid argument) if `src` is not a matrix of that many rows, or `dst`
/// has another size.
template <class Number>
void transpose_w4(std::span<const Number> src, std::int64_t rows, std::span<Number> dst) {
  w4_checkpoint_detail::require_words("the result", dst.size(), src.size());
  if (src.empty()) return;
  if (rows < 1 || src.size() % static_cast<std::size_t>(rows) != 0)
    w4_checkpoint_detail::refuse(
        "a matrix of " + std::to_string(src.size()) + " numbers and " + std::to_string(rows) + " rows",
        "every row has as many numbers", "accepted: rows that divide the numbers");
  const auto height = static_cast<std::size_t>(rows);
  const std::size_t width = src.size() / height;
  constexpr std::size_t kTile = 32;  // lines of the cache that stay in the L1 cache
  for (std::size_t top = 0; top < height; top += kTile)
    for (std::size_t left = 0; left < width; left += kTile)
      for (std::size_t row = top; row < std::min(top + kTile, height); ++row)
        for (std::size_t column = left; column < std::min(left + kTile, width); ++column)
          dst[column * height + row] = src[row * width + column];
}

/// Whether g_idx[k] = k / group size for every k and some group size, so that g_idx is not needed. Only such a layer
/// can be converted to awq, because awq has no g_idx. False if g_idx has another size than k, or if a layer of these
/// sizes cannot have that group size.
inline bool is_in_order(std::span<const std::int32_t> g_idx, const W4LayerSizes& sizes) {
  if (g_idx.size() != static_cast<std::size_t>(sizes.k)) return false;
  const auto end = std::find_if(g_idx.begin(), g_idx.end(), [](std::int32_t group) { return group != 0; });
  const std::int64_t group_size = end - g_idx.begin();  // the features of the first group
  if (!w4_checkpoint_detail::is_group_size(sizes, group_size)) return false;
  for (std::size_t i = 0; i < g_idx.size(); ++i) {
    if (g_idx[i] != static_cast<std::int64_t>(i) / group_size) return false;
  }
  return true;
}

}  // namespace cubit
