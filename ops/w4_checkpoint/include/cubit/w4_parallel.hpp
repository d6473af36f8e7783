// Cuts a quantised layer for tensor parallelism: which part of each tensor a rank has.
//
// Along n (column-parallel) qweight, scales, zeros and the bias are cut. Along k (row-parallel) qweight and g_idx are
// cut. With activation order the scales and zeros stay whole, because the slice's g_idx may name any of the layer's
// groups. They also stay whole if the layer has one group. Otherwise scales and zeros are cut too, and a slice must
// consist of whole groups.
#pragma once

#include <cubit/w4_checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cubit {

enum class W4Cut {
  columns,  ///< each rank has some output features
  rows,     ///< each rank has some input features; the ranks' products are added
};

struct W4Rank {
  int rank = 0;
  int size = 1;
};

/// A range of rows and columns of a tensor with two dimensions.
struct W4Range {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
};

/// The part of a layer that a rank has. The rank's bias is the elements from first_n to first_n + n - 1 of the layer's
/// bias. With W4Cut::rows only one rank may add the bias.
struct W4Slice {
  std::int64_t first_n = 0;
  std::int64_t n = 0;
  std::int64_t first_k = 0;  ///< first column of the layer's activations, and first element of g_idx
  std::int64_t k = 0;
  W4Range qweight;
  W4Range scales;
  W4Range qzeros;  ///< applies only to a format that stores zeros
};

/// The slice of a rank. n and k of a slice must be multiples of 8. Without activation order a slice along k must
/// consist of whole groups, unless one group has all of k. A layer whose last group is shorter therefore cannot be cut
/// along k without activation order. Throws Error (invalid argument) if the layer cannot be cut in this way.
inline W4Slice slice_of(W4Format format, const W4LayerSizes& sizes, W4Cut cut, W4Rank rank, bool activation_order) {
  using namespace w4_checkpoint_detail;
  require_sizes(sizes);
  const std::string given = "rank " + std::to_string(rank.rank) + " of " + std::to_string(rank.size);
  if (rank.size < 1 || rank.rank < 0 || rank.rank >= rank.size)
    refuse(given, "there is no such rank", "accepted: 0 to size - 1, of at least 1");
  const bool by_rows = cut == W4Cut::rows;
  const std::int64_t extent = by_rows ? sizes.k : sizes.n;
  if (extent % (std::int64_t{8} * rank.size) != 0)
    refuse(given, std::string(by_rows ? "k = " : "n = ") + std::to_string(extent) + " has no slices of multiples of 8",
           "accepted: sizes that divide it into such slices");
  const std::int64_t share = extent / rank.size;
  W4Slice slice{0, sizes.n, 0, sizes.k, {}, {}, {}};
  (by_rows ? slice.first_k : slice.first_n) = rank.rank * share;
  (by_rows ? slice.k : slice.n) = share;
  const std::int64_t group_size = sizes.group_size();
  const bool cuts_groups = by_rows && rank.size > 1 && !activation_order && sizes.groups > 1;
  if (cuts_groups && share % group_size != 0)
    refuse(
        given,
        "a slice of " + std::to_string(share) + " input features has no whole groups of " + std::to_string(group_size),
        "accepted: slices of whole groups");
  const std::int64_t in_word = sizes.in_word();
  const bool by_n = format == W4Format::awq;
  const std::int64_t k_in_row = by_n ? 1 : in_word;
  const std::int64_t n_in_column = by_n ? in_word : 1;
  slice.qweight = {slice.first_k / k_in_row, slice.k / k_in_row, slice.first_n / n_in_column, slice.n / n_in_column};
  slice.scales = {cuts_groups ? slice.first_k / group_size : 0, cuts_groups ? share / group_size : sizes.groups,
                  slice.first_n, slice.n};
  slice.qzeros = {slice.scales.first_row, slice.scales.rows, slice.first_n / in_word, slice.n / in_word};
  return slice;
}

/// Copies a range of a dense tensor whose rows have `columns` numbers. `dst` has range.rows * range.columns numbers.
/// Throws Error (invalid argument) if `dst` has another size, or if the tensor is smaller than the range.
template <class Number>
void cut_w4(std::span<const Number> src, std::int64_t columns, const W4Range& range, std::span<Number> dst) {
  using namespace w4_checkpoint_detail;
  const std::int64_t rows = columns < 1 ? 0 : static_cast<std::int64_t>(src.size()) / columns;
  if (range.first_row + range.rows > rows || range.first_column + range.columns > columns)
    refuse("a tensor of " + std::to_string(rows) + " rows and " + std::to_string(columns) + " columns",
           "it is smaller than the layer's sizes say", "accepted: the whole tensor of the layer");
  require_words("the result", dst.size(), static_cast<std::size_t>(range.rows * range.columns));
  for (std::int64_t row = 0; row < range.rows; ++row) {
    const auto from = src.subspan(static_cast<std::size_t>((range.first_row + row) * columns + range.first_column),
                                  static_cast<std::size_t>(range.columns));
    std::copy(from.begin(), from.end(), dst.begin() + static_cast<std::ptrdiff_t>(row * range.columns));
  }
}

}  // namespace cubit
