// Problems of kv_append and kv_gather with scales, and with NaN: what a launch writes and reads, with results that
// can be worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "check/kv_append/problem.hpp"
#include "check/kv_gather/problem.hpp"
#include "tests/check/kv_row_case.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::check {
namespace {

/// A paged cache [pages, kv_heads, page_size, row] with pages of 2 tokens. Head 0 has a scale of 2, head 1 a scale of
/// 3.
TEST(KvGatherProblem, TakesOneScalePerKvHead) {
  std::vector<signed char> rows(3 * 2 * 2 * 64, 5);
  std::vector<float> scales = {2, 3, 4};  // a shape of two scales is accepted, a shape of three is refused
  std::vector<std::int32_t> table = {2, 0};
  std::vector<Tensor> tensors;
  for (const char* name : {"key_cache", "value_cache"}) tensors.push_back({name, "I8", {3, 2, 2, 64}, {}, rows.data()});
  for (const char* name : {"key_scale", "value_scale"}) tensors.push_back({name, "F32", {2}, {}, scales.data()});
  tensors.push_back({"page_table", "I32", {1, 2}, {}, table.data()});
  const char* const text = "kv_gather:head_dim=64,kv=int8_split,cache=paged";
  const auto problem = find_problems("kv_gather").problem(text, tensors, {{"hnd", 1}});
  std::vector<std::uint16_t> expected(4 * 2 * 64);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = i / 64 % 2 == 0 ? 0x4120 : 0x4170;  // 10 and 15
  const void* got[] = {expected.data(), expected.data()};
  const auto comparison = problem->compare(got);
  EXPECT_EQ(comparison.error, 0) << comparison.worst;
  EXPECT_EQ(problem->bytes_read(), 2u * 4 * 2 * 64 + 2 * 8 + 8);
  std::vector<int> memory(7);
  std::vector<void*> addresses(7, memory.data());
  cubit_kv_gather_arguments arguments;
  const std::vector<std::byte> bytes = problem->arguments(addresses);
  ASSERT_EQ(bytes.size(), sizeof arguments);
  std::memcpy(&arguments, bytes.data(), sizeof arguments);
  EXPECT_EQ(arguments.scales.key_strides[0], 0);
  EXPECT_EQ(arguments.scales.key_strides[1], 0);
  EXPECT_EQ(arguments.scales.key_strides[2], 1);
  tensors[2].shape = {3};
  tests::expect_refused_with(
      [&] {
        find_problems("kv_gather").problem(text, tensors, {{"hnd", 1}});
      },
      "tensor key_scale [3]: it must have the dimensions [pages, kv_heads, page_size] or [kv_heads]; accepted beside "
      "the other tensors: [3, 2, 2] or [2]");
}

TEST(KvRowsProblem, SaysHowFewScalesAreAccepted) {
  const auto refusal = [](const char* text) {
    std::vector<char> rows(2 * 4 * 2 * 64);
    std::vector<float> scales(6);
    std::vector<Tensor> tensors;
    for (const char* name : {"key_cache", "value_cache"})
      tensors.push_back({name, "I8", {2, 4, 2, 64}, {}, rows.data()});
    for (const char* name : {"key_scale", "value_scale"}) tensors.push_back({name, "F32", {6}, {}, scales.data()});
    return tests::refusal_of([&] { find_problems("kv_gather").problem(text, tensors, {}); });
  };
  const std::string given = "tensor key_scale [6]: it must have the dimensions ";
  const std::string beside = "; accepted beside the other tensors: ";
  EXPECT_EQ(refusal("kv_gather:head_dim=64,kv=int8_split,scales=tensor"), given + "[1] or []" + beside + "[1] or []");
  EXPECT_EQ(refusal("kv_gather:head_dim=64,kv=int8_split"),
            given + "[batch, max_length, kv_heads] or [kv_heads]" + beside + "[2, 4, 2] or [2]");
  EXPECT_EQ(refusal("kv_gather:head_dim=64,kv=int8_split,groups=2,scales=group"),
            given + "[batch, max_length, kv_heads, groups] or [kv_heads, groups]" + beside + "[2, 4, 2, 2] or [2, 2]");
  EXPECT_EQ(refusal("kv_gather:head_dim=64,kv=int8_split,scales=token"),
            given + "[batch, max_length]" + beside + "[2, 4]");
}

/// The first case with a cache of signed bytes: rows of ones.
struct ByteCase : RowCase {
  std::vector<float> scales = std::vector<float>(2 * 4 * 2, 0.25f);
  std::vector<char> bytes = std::vector<char>(2 * 4 * 2 * 64, 3);

  explicit ByteCase(const std::string& fields) {
    text = "kv_append:head_dim=64,kv=int8_split" + fields;
    for (const int i : {2, 3}) tensors[i] = {tensors[i].name, "I8", {2, 4, 2, 64}, {}, bytes.data()};
  }
  void add_scales(std::vector<std::int64_t> shape) {
    for (const char* name : {"key_scale", "value_scale"}) tensors.push_back({name, "F32", shape, {}, scales.data()});
  }
};

TEST(KvAppendProblem, WritesTheScalesThatRowsMake) {
  ByteCase one("");
  one.add_scales({2, 4, 2});
  const auto problem = one.problem();
  ASSERT_EQ(problem->outputs().size(), 4u);
  EXPECT_EQ(problem->outputs()[3].name, "value_scale");
  EXPECT_EQ(problem->bytes_written(), 2u * 5 * 2 * (64 + 4));
  std::vector<char> rows = one.bytes;
  std::vector<float> scales = one.scales;
  std::fill(rows.begin() + 2 * 128, rows.begin() + (4 + 3) * 128, 127);
  std::fill(scales.begin() + 2 * 2, scales.begin() + (4 + 3) * 2, 1.f / 127);
  const void* got[] = {rows.data(), rows.data(), scales.data(), scales.data()};
  EXPECT_EQ(problem->compare(got).error, 0);
  std::vector<float> wrong = scales;
  wrong[(4 + 3) * 2 + 1] = 1;  // sequence 1, token 3: not to be touched
  const void* bad[] = {rows.data(), rows.data(), scales.data(), wrong.data()};
  EXPECT_EQ(problem->compare(bad).error, 1);
}

TEST(KvAppendProblem, ReadsTheScalesThatRowsShare) {
  for (const bool per_token : {true, false}) {
    ByteCase one(per_token ? ",scales=token" : ",scales=tensor");
    one.add_scales(per_token ? std::vector<std::int64_t>{2, 4} : std::vector<std::int64_t>{});
    one.scales[3] = 0.5f;  // sequence 0, token 3
    const auto problem = one.problem();
    ASSERT_EQ(problem->outputs().size(), 2u);
    EXPECT_EQ(problem->bytes_written(), 2u * 5 * 2 * 64);
    std::vector<char> rows = one.bytes;
    std::fill(rows.begin() + 2 * 128, rows.begin() + (4 + 3) * 128, 4);  // 1 / 0.25
    if (per_token) std::fill(rows.begin() + 3 * 128, rows.begin() + 4 * 128, 2);
    const void* got[] = {rows.data(), rows.data()};
    EXPECT_EQ(problem->compare(got).error, 0) << problem->compare(got).worst;
  }
}

/// Machines produce NaNs with different bits. The comparison accepts any NaN in 16-bit rows.
TEST(KvRowsProblem, NanAmong16BitValuesIsAnyNan) {
  RowCase one;
  one.rows[3 * 128 + 7] = 0x7fc1;  // sequence 1, token 0
  const auto append = one.problem();
  std::vector<std::uint16_t> cache = one.cache;
  std::fill(cache.begin() + 2 * 128, cache.begin() + (4 + 3) * 128, 0x3f80);
  cache[4 * 128 + 7] = 0xffff;
  const void* got[] = {cache.data(), cache.data()};
  EXPECT_EQ(append->compare(got).error, 0) << append->compare(got).worst;
  std::vector<std::uint16_t> wrong = cache;
  wrong[4 * 128 + 9] = 0x7fff;
  const void* of_a_number[] = {cache.data(), wrong.data()};
  EXPECT_EQ(append->compare(of_a_number).error, 1);
  EXPECT_EQ(append->compare(of_a_number).worst, "value_cache, sequence 1, token 0, head 0: byte 18 is 0xff, not 0x80");
  wrong = cache;
  wrong[4 * 128 + 7] = 0x7f80;
  const void* infinity[] = {cache.data(), wrong.data()};
  EXPECT_EQ(append->compare(infinity).error, 1) << "an infinity is none";

  const std::vector<Tensor> tensors = {{"key_cache", "BF16", {2, 3, 2, 64}, {}, one.rows.data()},
                                       {"value_cache", "BF16", {2, 3, 2, 64}, {}, one.rows.data()}};
  const auto gather = find_problems("kv_gather").problem("kv_gather:head_dim=64,output=fp16", tensors, {});
  std::vector<std::uint16_t> rows(2 * 3 * 2 * 64, 0x3c00);
  rows[3 * 128 + 7] = 0x7fff;
  const void* gathered[] = {rows.data(), rows.data()};
  EXPECT_EQ(gather->compare(gathered).error, 0) << gather->compare(gathered).worst;

  // In packed rows and scales every bit is compared, even if the bits look like NaN.
  ByteCase bytes(",scale_type=fp16");
  std::vector<std::uint16_t> scales(2 * 4 * 2, 0x7e00);
  for (const char* name : {"key_scale", "value_scale"})
    bytes.tensors.push_back({name, "F16", {2, 4, 2}, {}, scales.data()});
  const auto packed = bytes.problem();
  const auto found = [&](std::size_t which, std::size_t byte) {
    std::vector<std::vector<char>> outputs;
    for (const Tensor& tensor : packed->outputs()) {
      const auto* data = static_cast<const char*>(tensor.data);
      outputs.emplace_back(data, data + tensor.bytes());
    }
    std::vector<const void*> all;
    for (const auto& output : outputs) all.push_back(output.data());
    const double before = packed->compare(all).error;
    outputs[which][byte] ^= 1;
    return packed->compare(all).error - before;
  };
  EXPECT_EQ(found(3, 0), 1) << "a scale that is not touched";
}

TEST(KvAppendProblem, SaysWhatScalesItCannotTake) {
  const auto refused = [](const std::string& sentence, const char* fields, std::vector<std::int64_t> shape, int left) {
    ByteCase one(fields);
    one.add_scales(std::move(shape));
    one.tensors.resize(one.tensors.size() - (2 - left));
    tests::expect_refused_with([&] { one.problem(); }, sentence);
  };
  refused(
      "tensor key_scale [2, 4]: it must have the dimensions [batch, max_length, kv_heads]; accepted beside the other "
      "tensors: [2, 4, 2]",
      "", {2, 4}, 2);
  refused("3 of key_cache, value_cache, key_scale and value_scale: a launch writes them all; give all four, or none",
          "", {2, 4, 2}, 1);
  refused(
      "tensors without value_scale: a cache of int8_split with scales=token needs its scales; give value_scale "
      "[batch, max_length] F32",
      ",scales=token", {2, 4}, 1);
  refused("tensor key_scale of type F32: it must be F16", ",scales=token,scale_type=fp16", {2, 4}, 2);
  RowCase bf16;
  std::vector<float> scale = {1};
  bf16.tensors.push_back({"key_scale", "F32", {1}, {}, scale.data()});
  EXPECT_THROW(bf16.problem(), Failure) << "a cache of bf16 has none";
}

TEST(KvGatherProblem, MultipliesByTheScaleOfEachGroup) {
  std::vector<char> rows(1 * 2 * 1 * 64, 3);
  std::vector<std::uint16_t> scales = {0x3c00, 0x4000, 0x4200, 0x4400};  // 1, 2, 3, 4
  std::vector<Tensor> tensors;
  for (const char* name : {"key_cache", "value_cache"}) tensors.push_back({name, "I8", {1, 2, 1, 64}, {}, rows.data()});
  for (const char* name : {"key_scale", "value_scale"})
    tensors.push_back({name, "F16", {1, 2, 1, 2}, {}, scales.data()});
  const auto problem =
      find_problems("kv_gather")
          .problem("kv_gather:head_dim=64,kv=int8_split,groups=2,scales=group,scale_type=fp16,output=fp16", tensors,
                   {});
  EXPECT_EQ(problem->bytes_read(), 2u * 2 * (64 + 4));
  std::vector<std::uint16_t> expected;
  for (const int x : {0x4200, 0x4600, 0x4880, 0x4a00})
    expected.insert(expected.end(), 32, static_cast<std::uint16_t>(x));  // 3, 6, 9, 12
  const void* got[] = {expected.data(), expected.data()};
  EXPECT_EQ(problem->compare(got).error, 0);
}

}  // namespace
}  // namespace cubit::check
