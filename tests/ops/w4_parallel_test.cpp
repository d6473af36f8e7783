// Tests of <cubit/w4_parallel.hpp>: the slices of all ranks together are the layer, whatever the format, and a slice
// reads the weights of the layer at its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubit/w4_parallel.hpp>

namespace cubit {
namespace {

using ::testing::HasSubstr;

constexpr W4LayerSizes kSizes = {64, 96, 3};

std::string refusal_of_slice(const W4LayerSizes& sizes, W4Cut cut, W4Rank rank, bool activation_order) {
  try {
    slice_of(W4Format::gptq, sizes, cut, rank, activation_order);
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(W4Parallel, SlicesOfAllRanksAreTheLayer) {
  for (const W4Format format : {W4Format::gptq, W4Format::awq}) {
    const auto [rows, columns] = kSizes.qweight_shape(format);
    std::vector<std::uint32_t> words(kSizes.qweight_words());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i);
    for (const auto& [cut, size] : {std::pair{W4Cut::columns, 4}, {W4Cut::rows, 3}}) {
      std::vector<std::uint32_t> joined(words.size());
      for (int rank = 0; rank < size; ++rank) {
        const W4Slice slice = slice_of(format, kSizes, cut, {rank, size}, false);
        const W4Range& range = slice.qweight;
        std::vector<std::uint32_t> part(static_cast<std::size_t>(range.rows * range.columns));
        cut_w4(std::span<const std::uint32_t>(words), columns, range, std::span(part));
        const W4LayerSizes of_slice = {slice.n, slice.k, slice.scales.rows};
        EXPECT_EQ(part.size(), of_slice.qweight_words());
        EXPECT_EQ(of_slice.qweight_shape(format), (std::array{range.rows, range.columns}));
        for (std::int64_t i = 0; i < range.rows * range.columns; ++i) {
          const std::int64_t row = range.first_row + i / range.columns;
          joined[static_cast<std::size_t>(row * columns + range.first_column + i % range.columns)] =
              part[static_cast<std::size_t>(i)];
        }
      }
      EXPECT_EQ(joined, words);
      EXPECT_EQ(static_cast<std::size_t>(rows * columns), words.size());
    }
  }
}

TEST(W4Parallel, ScalesFollowTheCut) {
  const W4Slice columns = slice_of(W4Format::gptq, kSizes, W4Cut::columns, {1, 2}, false);
  EXPECT_EQ(columns.scales.rows, 3);
  EXPECT_EQ(columns.scales.first_column, 32);
  EXPECT_EQ(columns.qzeros.first_column, 4);
  EXPECT_EQ(columns.qzeros.columns, 4);
  const W4Slice rows = slice_of(W4Format::gptq, kSizes, W4Cut::rows, {2, 3}, false);
  EXPECT_EQ(rows.scales.first_row, 2);
  EXPECT_EQ(rows.scales.rows, 1);
  EXPECT_EQ(rows.first_k, 64);
  // With activation order g_idx names any group of the layer.
  const W4Slice ordered = slice_of(W4Format::gptq, kSizes, W4Cut::rows, {2, 4}, true);
  EXPECT_EQ(ordered.scales.first_row, 0);
  EXPECT_EQ(ordered.scales.rows, 3);
  EXPECT_EQ(ordered.first_k, 48);
  EXPECT_EQ(ordered.qweight.first_row, 6);
  EXPECT_EQ(slice_of(W4Format::gptq, {64, 96, 1}, W4Cut::rows, {1, 3}, false).scales.rows, 1);
  EXPECT_EQ(slice_of(W4Format::gptq, {64, 96, 3, 8}, W4Cut::rows, {1, 3}, false).qweight.first_row, 8);
}

TEST(W4Parallel, WhatCannotBeCutIsRefused) {
  EXPECT_THAT(refusal_of_slice(kSizes, W4Cut::rows, {0, 2}, false),
              HasSubstr("rank 0 of 2: a slice of 48 input features has no whole groups of 32"));
  EXPECT_EQ(refusal_of_slice(kSizes, W4Cut::rows, {0, 2}, true), "accepted");
  // Groups of 32, 32 and 16: slices of equal extents have no whole groups.
  EXPECT_THAT(refusal_of_slice({64, 80, 3}, W4Cut::rows, {0, 2}, false),
              HasSubstr("rank 0 of 2: a slice of 40 input features has no whole groups of 32"));
  EXPECT_EQ(refusal_of_slice({64, 80, 3}, W4Cut::rows, {0, 1}, false), "accepted");
  EXPECT_THAT(refusal_of_slice(kSizes, W4Cut::columns, {0, 16}, false),
              HasSubstr("n = 64 has no slices of multiples of 8"));
  EXPECT_THAT(refusal_of_slice(kSizes, W4Cut::columns, {4, 4}, false), HasSubstr("there is no such rank"));
  EXPECT_THAT(refusal_of_slice(kSizes, W4Cut::columns, {0, 0}, false), HasSubstr("there is no such rank"));
  std::vector<int> part(4);
  const std::vector<int> whole(6);
  EXPECT_THROW(cut_w4(std::span<const int>(whole), 3, {0, 2, 2, 2}, std::span(part)), Error);
  EXPECT_THROW(cut_w4(std::span<const int>(whole), 3, {0, 1, 0, 2}, std::span(part)), Error);
}

}  // namespace
}  // namespace cubit
