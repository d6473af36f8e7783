// gqa_decode over paged caches and caches with separate tensors of scales. These tests check parameters of launches,
// and what problems read and refuse, without running a kernel; tests/cover checks what kernels compute.
#include <cubit/gqa_decode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "check/gqa_decode/problem.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "tests/support/gqa_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
constexpr auto parameters_of = tests::gqa_parameters_of;

/// Arguments with one KV head of 128 channels of one byte, at made-up addresses.
cubit_gqa_decode_arguments made_up_arguments() {
  cubit_gqa_decode_arguments arguments = tests::made_up_gqa_arguments({});
  arguments.scales.key = address(0x5000);
  arguments.scales.value = address(0x6002);
  for (std::int64_t* strides : {arguments.scales.key_strides, arguments.scales.value_strides}) {
    strides[0] = 64;
    strides[1] = 1;
    strides[2] = 3;
  }
  return arguments;
}

void expect_refused(const char* text, const cubit_gqa_decode_arguments& arguments, const std::string& sentence) {
  tests::expect_refused([&] { parameters_of(text, arguments); }, sentence);
}

TEST(GqaScales, StridesAreThoseOfWhatHasAScale) {
  auto arguments = made_up_arguments();
  const auto per_head = parameters_of("gqa_decode:kv=int8_split,scale_type=fp16", arguments);
  EXPECT_EQ(per_head.key_scale_strides[0], 128);
  EXPECT_EQ(per_head.key_scale_strides[1], 2);
  EXPECT_EQ(per_head.value_scale_strides[2], 6);
  EXPECT_EQ(per_head.value_scales, address(0x6002));
  const auto per_token = parameters_of("gqa_decode:kv=fp8_e4m3,scales=token,scale_type=fp16", arguments);
  EXPECT_EQ(per_token.key_scale_strides[1], 2);
  EXPECT_EQ(per_token.key_scale_strides[2], 0) << "heads share it";
  const auto of_all = parameters_of("gqa_decode:kv=fp8_e5m2,scales=tensor,scale_type=fp16", arguments);
  for (const long long stride : of_all.value_scale_strides) EXPECT_EQ(stride, 0);
}

TEST(GqaScales, AreNeededAndAlignedToTheirType) {
  auto arguments = made_up_arguments();
  expect_refused("gqa_decode:kv=int8_split", arguments,
                 "scales.value at 0x6002: the address is not a multiple of 4 bytes; align it, and pad its rows");
  arguments.scales.value = nullptr;
  expect_refused("gqa_decode:kv=int8_split", arguments, "scales.value = NULL: the tensor is needed");
  arguments.max_length = 0;
  expect_refused("gqa_decode:kv=int8_split,scales=tensor", arguments, "scales.value = NULL: the tensor is needed");
  EXPECT_NO_THROW(parameters_of("gqa_decode:kv=int8_split", arguments)) << "there are no rows";
}

TEST(GqaPages, AreTakenWhereTheDescriptorHasThemAndOnlyThere) {
  auto arguments = made_up_arguments();
  const char* const paged = "gqa_decode:kv=int8_split,scale_type=fp16,cache=paged";
  expect_refused(paged, arguments, "page_table = NULL: the tensor is needed");
  arguments.page_size = 24;
  expect_refused("gqa_decode:kv=int8_split,scale_type=fp16", arguments,
                 "page_size = 24: it must be 0, for the descriptor has cache=contiguous");
  arguments.page_table = address<std::int32_t>(0x7000);
  arguments.page_table_stride = 5;
  for (const int tokens : {0, 257}) {
    arguments.page_size = tokens;
    expect_refused(paged, arguments, fmt::format("page_size = {}: it must be from 1 to 256", tokens));
  }
  arguments.page_size = 24;
  const auto parameters = parameters_of(paged, arguments);
  EXPECT_EQ(parameters.page_size.divisor, 24u);
  EXPECT_EQ(parameters.page_table, address(0x7000));
  EXPECT_EQ(parameters.page_table_stride, 5);
  arguments.page_size = 0;
  expect_refused("gqa_decode:kv=int8_split,scale_type=fp16", arguments,
                 "page_table at 0x7000: the descriptor does not have cache=paged; give NULL, or ask for cache=paged in "
                 "the descriptor");
}

/// One sequence of 3 tokens in a cache of 3 pages with 2 tokens each. The sequence uses the last page and then the
/// first page. Rows have 64 channels of signed bytes, and the scale is 0.5.
struct PagedCase {
  std::vector<std::uint16_t> query = std::vector<std::uint16_t>(64, 0);
  std::vector<char> keys = std::vector<char>(3 * 2 * 64, 1);
  std::vector<char> values = std::vector<char>(3 * 2 * 64, 99);
  std::vector<float> scale = {0.5f};
  std::vector<std::int32_t> table = {2, 0};
  std::vector<std::int32_t> lengths = {3};
  std::vector<check::Tensor> tensors = {
      {"query", "BF16", {1, 1, 64}, {}, query.data()},   {"key", "I8", {3, 2, 1, 64}, {}, keys.data()},
      {"value", "I8", {3, 2, 1, 64}, {}, values.data()}, {"lengths", "I32", {1}, {}, lengths.data()},
      {"key_scale", "F32", {}, {}, scale.data()},        {"value_scale", "F32", {1}, {}, scale.data()},
      {"page_table", "I32", {1, 2}, {}, table.data()}};
  std::string text = "gqa_decode:head_dim=64,kv=int8_split,scales=tensor,cache=paged,output=fp16";
  std::unique_ptr<check::Problem> problem() const { return check::find_problems(text).problem(text, tensors, {}); }
};

TEST(GqaPages, TheReferenceFindsRowsThroughTheTable) {
  PagedCase one;
  std::fill_n(one.values.begin() + 4 * 64, 64, 6);   // token 0
  std::fill_n(one.values.begin() + 5 * 64, 64, 12);  // token 1
  std::fill_n(one.values.begin(), 64, 18);           // token 2
  const auto problem = one.problem();
  EXPECT_EQ(problem->bytes_read(), 2u * 3 * 64 + 128 + 4 + 2 * 4);
  std::vector<std::uint16_t> output(64, 0x4600);  // the average of 3, 6 and 9
  const void* got[] = {output.data()};
  EXPECT_LE(problem->compare(got).error, 1e-3);
}

TEST(GqaPages, TokensInPagesThatAreNoneAreRefused) {
  const auto refused = [](const std::string& sentence, auto change) {
    PagedCase one;
    change(one);
    tests::expect_refused_with([&] { one.problem(); }, sentence);
  };
  refused("page_table[0, 1] = 3: the sequence has 3 tokens, and the cache 3 pages; accepted there: 0 to 2",
          [](PagedCase& c) { c.table[1] = 3; });
  refused("tensors without page_table: the descriptor has cache=paged", [](PagedCase& c) { c.tensors.pop_back(); });
  refused(
      "tensors without value_scale: a cache of int8_split with scales=tensor needs its scales; give value_scale [1] "
      "F32",
      [](PagedCase& c) { c.tensors.erase(c.tensors.begin() + 5); });
  refused("lengths[0] = 5: the cache holds 4 tokens", [](PagedCase& c) { c.lengths[0] = 5; });
  refused("tensor page_table [2]: it must have the dimensions [batch, pages of a sequence]",
          [](PagedCase& c) { c.tensors.back().shape = {2}; });
  PagedCase unused;
  unused.table[1] = -1;
  unused.lengths[0] = 2;
  EXPECT_NO_THROW(unused.problem()) << "a page that no token needs";
}

}  // namespace
}  // namespace cubit::ops
