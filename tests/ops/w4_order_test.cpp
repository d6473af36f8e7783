// Tests of <cubit/w4_order.hpp>: place i of a reordered layer has the weights of feature order[i], whatever the format.
#include <gtest/gtest.h>

#include <cubit/w4_order.hpp>
#include <numeric>

#include "check/random.hpp"
#include "tests/support/refusals.hpp"

namespace cubit {
namespace {

using tests::expect_refused;
using Order = std::vector<std::int32_t>;
using Words = std::vector<std::uint32_t>;

/// The weight of an input and an output feature, by the layouts of docs/operators/w4a16_gemm.md.
std::uint32_t weight_of(W4Format format, const W4LayerSizes& sizes, const Words& qweight, std::int64_t k,
                        std::int64_t n) {
  constexpr std::array<std::int64_t, 8> kPlaces = {0, 4, 1, 5, 2, 6, 3, 7};  // of the columns of a word of awq
  const std::int64_t in_word = 32 / sizes.bits;
  const bool by_n = format == W4Format::awq;
  const std::int64_t at = by_n ? k * (sizes.n / 8) + n / 8 : k / in_word * sizes.n + n;
  const std::int64_t place = by_n ? kPlaces[static_cast<std::size_t>(n % 8)] : k % in_word;
  return qweight[static_cast<std::size_t>(at)] >> (sizes.bits * place) & ((1u << sizes.bits) - 1);
}

std::uint32_t zero_of(W4Format format, const W4LayerSizes& sizes, const Words& qzeros, std::int64_t group,
                      std::int64_t n) {
  if (format == W4Format::awq) return weight_of(format, sizes, qzeros, group, n);
  const std::int64_t in_word = 32 / sizes.bits;
  const std::uint32_t word = qzeros[static_cast<std::size_t>(group * (sizes.n / in_word) + n / in_word)];
  return word >> (sizes.bits * (n % in_word)) & ((1u << sizes.bits) - 1);
}

Words random_words(std::size_t count) {
  check::Random random(count);
  Words words(count);
  for (auto& word : words) word = static_cast<std::uint32_t>(random.bits());
  return words;
}

Order random_order(std::int64_t extent) {
  check::Random random(static_cast<std::uint64_t>(extent));
  Order order(static_cast<std::size_t>(extent));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.bits() % i]);
  return order;
}

TEST(W4Order, ReordersInputsAndOutputsOfEveryFormat) {
  for (const auto& [format, bits] : {std::pair{W4Format::gptq, 4}, {W4Format::awq, 4}, {W4Format::symmetric, 8}}) {
    SCOPED_TRACE(std::string(text_of(format)) + " " + std::to_string(bits));
    const W4LayerSizes sizes = {40, 96, 3, bits};
    const Words qweight = random_words(sizes.qweight_words());
    const Words qzeros = random_words(sizes.qzeros_words());
    const Order inputs = random_order(sizes.k);
    const Order outputs = random_order(sizes.n);
    Words by_inputs(qweight.size()), by_outputs(qweight.size()), zeros(qzeros.size());
    for (const int threads : {1, 5}) {
      reorder_inputs(format, sizes, inputs, qweight, by_inputs, threads);
      reorder_outputs(format, sizes, outputs, qweight, by_outputs, threads);
      reorder_output_zeros(format, sizes, outputs, qzeros, zeros, threads);
      for (std::int64_t n = 0; n < sizes.n; ++n) {
        const std::int64_t from_n = outputs[static_cast<std::size_t>(n)];
        for (std::int64_t k = 0; k < sizes.k; ++k) {
          const std::int64_t from_k = inputs[static_cast<std::size_t>(k)];
          ASSERT_EQ(weight_of(format, sizes, by_inputs, k, n), weight_of(format, sizes, qweight, from_k, n));
          ASSERT_EQ(weight_of(format, sizes, by_outputs, k, n), weight_of(format, sizes, qweight, k, from_n));
        }
        for (std::int64_t group = 0; group < sizes.groups; ++group)
          ASSERT_EQ(zero_of(format, sizes, zeros, group, n), zero_of(format, sizes, qzeros, group, from_n));
      }
    }
  }
}

TEST(W4Order, PermutesRowsAndColumns) {
  const Order order = {2, 0, 1};
  const std::vector<int> matrix = {1, 2, 3, 4, 5, 6};
  std::vector<int> result(6);
  permute_columns(std::span(matrix), order, std::span(result));
  EXPECT_EQ(result, (std::vector<int>{3, 1, 2, 6, 4, 5}));
  permute_rows(std::span(matrix), order, std::span(result));
  EXPECT_EQ(result, (std::vector<int>{5, 6, 1, 2, 3, 4}));
}

TEST(W4Order, SortsByGroupAndKeepsTheOrderWithinAGroup) {
  EXPECT_EQ(order_by_group(Order{1, 0, 1, 1, 0, 1, 0, 0}, {8, 8, 2}), (Order{1, 4, 6, 7, 0, 2, 3, 5}));
}

TEST(W4Order, SortsALayerWhoseLastGroupIsShorter) {
  constexpr W4LayerSizes kShorter = {8, 24, 2};  // groups of 16 and of 8
  Order g_idx(24);
  for (std::size_t i = 0; i < g_idx.size(); ++i) g_idx[i] = i % 3 == 1 ? 1 : 0;
  const Order order = order_by_group(g_idx, kShorter);
  ASSERT_EQ(order.size(), 24U);
  for (std::size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(g_idx[static_cast<std::size_t>(order[i])], i < 16 ? 0 : 1) << i;
  std::replace(g_idx.begin(), g_idx.end(), 1, 2);
  std::replace(g_idx.begin(), g_idx.end(), 0, 1);
  std::replace(g_idx.begin(), g_idx.end(), 2, 0);
  expect_refused([&] { order_by_group(g_idx, kShorter); },
                 "group 0 with 8 input features: a layer that is sorted by group needs 16 in this group; give the "
                 "whole layer, or keep its activation order");
}

TEST(W4Order, RefusesWhatIsNoOrder) {
  const W4LayerSizes sizes = {8, 8, 2};
  expect_refused(
      [&] {
        order_by_group(Order{0, 0, 0, 0, 0, 1, 1, 1}, sizes);
      },
      "group 0 with 5 input features: a layer that is sorted by group needs 4 in this group; give the whole "
      "layer, or keep its activation order");
  expect_refused(
      [&] {
        order_by_group(Order{0, 0, 0, 0, 1, 1, 1, 2}, sizes);
      },
      "g_idx[7] = 2: there are 2 groups; accepted: 0 to 1");
  expect_refused(
      [&] {
        order_by_group(Order{0, 1}, sizes);
      },
      "g_idx of 2 numbers: it has a number for each input feature; accepted: 8");
  const std::vector<int> row(3);
  std::vector<int> result(3);
  expect_refused(
      [&] {
        permute_columns(std::span(row), Order{0, 1, 1}, std::span(result));
      },
      "place 2 of an order, which is 1: it is out of range or appears twice; accepted: each number from 0 to "
      "2 once");
  expect_refused(
      [&] {
        permute_columns(std::span(row), Order{1, 0}, std::span(result));
      },
      "a tensor of 3 numbers: it does not fit the order; accepted: multiples of 2");
  Words words(8);
  expect_refused(
      [&] {
        reorder_inputs(W4Format::gptq, sizes, Order{0, 1}, words, words, 1);
      },
      "an order of 2 features: it is not a permutation of the layer's 8; accepted: each number from 0 to 7 "
      "once");
}

}  // namespace
}  // namespace cubit
