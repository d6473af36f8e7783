// Sorts the input features of a layer with activation order by group. A kernel then needs no g_idx.
//
//   const std::vector<std::int32_t> order = order_by_group(g_idx, sizes);
//   reorder_inputs(W4Format::gptq, sizes, order, qweight, sorted_qweight, threads);
//
// Input feature i of the sorted layer is input feature order[i] of the stored layer. Scales and zeros stay as they are.
// The sorted layer needs its activations in the same order. There are two ways to reorder the activations. Either
// permute_columns reorders the activations before each product, or reorder_outputs reorders the output features of the
// preceding layer once. The second way costs nothing at run time. The second way needs operations between the two
// layers that treat all features alike, such as an activation function and a gate: it suits down_proj after gate_proj
// and up_proj, but not q_proj after a residual stream that other layers share.
#pragma once

#include <cubit/w4_checkpoint.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cubit {

namespace w4_order_detail {

/// Throws Error unless `order` has each number from 0 to extent - 1 once.
inline void require_permutation(std::span<const std::int32_t> order, std::int64_t extent) {
  using w4_checkpoint_detail::refuse;
  const std::string accepted = "accepted: each number from 0 to " + std::to_string(extent - 1) + " once";
  if (order.size() != static_cast<std::size_t>(extent))
    refuse("an order of " + std::to_string(order.size()) + " features",
           "it is not a permutation of the layer's " + std::to_string(extent), accepted);
  std::vector<bool> seen(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || order[i] >= extent || seen[static_cast<std::size_t>(order[i])])
      refuse("place " + std::to_string(i) + " of an order, which is " + std::to_string(order[i]),
             "it is out of range or appears twice", accepted);
    seen[static_cast<std::size_t>(order[i])] = true;
  }
}

template <class Number>
void require_rows(std::span<const Number> src, std::size_t row, std::span<Number> dst) {
  w4_checkpoint_detail::require_words("the result", dst.size(), src.size());
  if (row != 0 && src.size() % row == 0) return;
  w4_checkpoint_detail::refuse("a tensor of " + std::to_string(src.size()) + " numbers", "it does not fit the order",
                               "accepted: multiples of " + std::to_string(row));
}

/// Reorders the fields of words that are packed along rows of order.size() fields.
inline void permute_fields(W4Format format, int bits, std::span<const std::int32_t> order,
                           std::span<const std::uint32_t> src, std::span<std::uint32_t> dst, int threads) {
  const auto in_word = static_cast<std::size_t>(32 / bits);
  const std::size_t columns = order.size() / in_word;
  const std::uint32_t mask = (1u << bits) - 1;
  require_rows(src, columns, dst);
  std::array<int, 8> shifts{};  // of the field of each column within a word
  for (int place = 0; place < 32 / bits; ++place) shifts[w4_checkpoint_detail::column_at(format, place)] = bits * place;
  const auto rows = static_cast<std::int64_t>(src.size() / columns);
  w4_checkpoint_detail::on_ranges(rows, threads, [&](std::int64_t first, std::int64_t last) {
    for (auto row = static_cast<std::size_t>(first); row < static_cast<std::size_t>(last); ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        std::uint32_t word = 0;
        for (std::size_t i = 0; i < in_word; ++i) {
          const auto from = static_cast<std::size_t>(order[column * in_word + i]);
          const std::uint32_t field = src[row * columns + from / in_word] >> shifts[from % in_word] & mask;
          word |= field << shifts[i];
        }
        dst[row * columns + column] = word;
      }
    }
  });
}

/// Reorders the fields of words that are packed along columns: word (i, c) has the fields of column c in the in_word
/// rows from row i * in_word on.
inline void permute_fields_of_columns(const W4LayerSizes& sizes, std::span<const std::int32_t> order,
                                      std::span<const std::uint32_t> src, std::span<std::uint32_t> dst, int threads) {
  const auto in_word = static_cast<std::size_t>(sizes.in_word());
  const auto n = static_cast<std::size_t>(sizes.n);
  const std::uint32_t mask = (1u << sizes.bits) - 1;
  w4_checkpoint_detail::on_ranges(sizes.k / sizes.in_word(), threads, [&](std::int64_t first, std::int64_t last) {
    for (auto row = static_cast<std::size_t>(first); row < static_cast<std::size_t>(last); ++row) {
      const std::span<std::uint32_t> to = dst.subspan(row * n, n);
      std::fill(to.begin(), to.end(), 0u);
      for (std::size_t place = 0; place < in_word; ++place) {
        const auto feature = static_cast<std::size_t>(order[row * in_word + place]);
        const std::span<const std::uint32_t> from = src.subspan(feature / in_word * n, n);
        const auto right = static_cast<unsigned>(feature % in_word) * static_cast<unsigned>(sizes.bits);
        const auto left = static_cast<unsigned>(place) * static_cast<unsigned>(sizes.bits);
        for (std::size_t column = 0; column < n; ++column) to[column] |= (from[column] >> right & mask) << left;
      }
    }
  });
}

}  // namespace w4_order_detail

/// Column i of the result is column order[i] of a dense matrix with order.size() columns: activations [m, k], scales
/// [groups, n], or a bias [n]. Throws Error (invalid argument) for other sizes, and for an order that is no
/// permutation.
template <class Number>
void permute_columns(std::span<const Number> src, std::span<const std::int32_t> order, std::span<Number> dst) {
  w4_order_detail::require_permutation(order, static_cast<std::int64_t>(order.size()));
  w4_order_detail::require_rows(src, order.size(), dst);
  for (std::size_t row = 0; row < src.size(); row += order.size())
    for (std::size_t i = 0; i < order.size(); ++i) dst[row + i] = src[row + static_cast<std::size_t>(order[i])];
}

/// Row i of the result is row order[i] of a dense matrix with order.size() rows: dense weights [n, k]. Throws as
/// permute_columns does.
template <class Number>
void permute_rows(std::span<const Number> src, std::span<const std::int32_t> order, std::span<Number> dst) {
  w4_order_detail::require_permutation(order, static_cast<std::int64_t>(order.size()));
  w4_order_detail::require_rows(src, order.size(), dst);
  if (order.empty()) return;
  const std::size_t columns = src.size() / order.size();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto from = src.subspan(static_cast<std::size_t>(order[i]) * columns, columns);
    std::copy(from.begin(), from.end(), dst.begin() + static_cast<std::ptrdiff_t>(i * columns));
  }
}

/// The input features sorted by group. Features of one group keep their order. Throws Error (invalid argument) if g_idx
/// has another size than k or names a group that does not exist. Also throws unless the groups have the sizes that they
/// have in a layer without activation order: equally many features, and perhaps fewer in the last group. A row-parallel
/// slice usually has groups of other sizes; sort the whole layer before you cut it.
inline std::vector<std::int32_t> order_by_group(std::span<const std::int32_t> g_idx, const W4LayerSizes& sizes) {
  using w4_checkpoint_detail::refuse;
  w4_checkpoint_detail::require_sizes(sizes);
  if (g_idx.size() != static_cast<std::size_t>(sizes.k))
    refuse("g_idx of " + std::to_string(g_idx.size()) + " numbers", "it has a number for each input feature",
           "accepted: " + std::to_string(sizes.k));
  std::vector<std::vector<std::int32_t>> members(static_cast<std::size_t>(sizes.groups));
  for (std::size_t i = 0; i < g_idx.size(); ++i) {
    if (g_idx[i] < 0 || g_idx[i] >= sizes.groups)
      refuse("g_idx[" + std::to_string(i) + "] = " + std::to_string(g_idx[i]),
             "there are " + std::to_string(sizes.groups) + " groups",
             "accepted: 0 to " + std::to_string(sizes.groups - 1));
    members[static_cast<std::size_t>(g_idx[i])].push_back(static_cast<std::int32_t>(i));
  }
  std::vector<std::int32_t> order;
  const auto first = static_cast<std::int64_t>(members[0].size());
  const std::int64_t size = w4_checkpoint_detail::is_group_size(sizes, first) ? first : sizes.group_size();
  for (std::size_t group = 0; group < members.size(); ++group) {
    const std::int64_t wanted = std::min(size, sizes.k - static_cast<std::int64_t>(group) * size);
    if (static_cast<std::int64_t>(members[group].size()) != wanted)
      refuse("group " + std::to_string(group) + " with " + std::to_string(members[group].size()) + " input features",
             "a layer that is sorted by group needs " + std::to_string(wanted) + " in this group",
             "give the whole layer, or keep its activation order");
    order.insert(order.end(), members[group].begin(), members[group].end());
  }
  return order;
}

/// Reorders the input features in the words of qweight, on up to `threads` threads: input feature i of `dst` is input
/// feature order[i] of `src`. `src` and `dst` have sizes.qweight_words() words each and do not overlap. Throws Error
/// (invalid argument) for other sizes, for bits that the format does not have, and if `order` is no permutation of k
/// features.
inline void reorder_inputs(W4Format format, const W4LayerSizes& sizes, std::span<const std::int32_t> order,
                           std::span<const std::uint32_t> src, std::span<std::uint32_t> dst, int threads) {
  w4_checkpoint_detail::require_bits(format, format, sizes.bits);
  w4_checkpoint_detail::require_sizes(sizes);
  w4_order_detail::require_permutation(order, sizes.k);
  w4_checkpoint_detail::require_words("the source's qweight", src.size(), sizes.qweight_words());
  w4_checkpoint_detail::require_words("the result's qweight", dst.size(), sizes.qweight_words());
  if (format == W4Format::awq)
    permute_rows(src, order, dst);
  else
    w4_order_detail::permute_fields_of_columns(sizes, order, src, dst, threads);
}

/// Reorders the output features in the words of qweight, as reorder_inputs reorders the input features; `order` is a
/// permutation of n features. Reorder the layer's qzeros with reorder_output_zeros, and its scales and bias with
/// permute_columns.
inline void reorder_outputs(W4Format format, const W4LayerSizes& sizes, std::span<const std::int32_t> order,
                            std::span<const std::uint32_t> src, std::span<std::uint32_t> dst, int threads) {
  w4_checkpoint_detail::require_bits(format, format, sizes.bits);
  w4_checkpoint_detail::require_sizes(sizes);
  w4_order_detail::require_permutation(order, sizes.n);
  w4_checkpoint_detail::require_words("the source's qweight", src.size(), sizes.qweight_words());
  w4_checkpoint_detail::require_words("the result's qweight", dst.size(), sizes.qweight_words());
  if (format == W4Format::awq)
    w4_order_detail::permute_fields(format, sizes.bits, order, src, dst, threads);
  else
    permute_columns(src, order, dst);
}

/// Reorders the output features in the words of qzeros; `src` and `dst` have sizes.qzeros_words() words each. Otherwise
/// as reorder_outputs.
inline void reorder_output_zeros(W4Format format, const W4LayerSizes& sizes, std::span<const std::int32_t> order,
                                 std::span<const std::uint32_t> src, std::span<std::uint32_t> dst, int threads) {
  w4_checkpoint_detail::require_bits(format, format, sizes.bits);
  w4_checkpoint_detail::require_sizes(sizes);
  w4_order_detail::require_permutation(order, sizes.n);
  w4_checkpoint_detail::require_words("the source's qzeros", src.size(), sizes.qzeros_words());
  w4_checkpoint_detail::require_words("the result's qzeros", dst.size(), sizes.qzeros_words());
  w4_order_detail::permute_fields(format, sizes.bits, order, src, dst, threads);
}

}  // namespace cubit
