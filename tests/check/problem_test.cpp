// Problems of gqa_decode and the streams: named tensors are checked against the descriptor and refused with one clear
// sentence, made-up data is reproducible, and the comparison finds wrong outputs and accepts right ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "check/gqa_decode/problem.hpp"
#include "check/made_up_data.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::check {
namespace {

const std::string kInt4 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";

/// Two sequences of 10 tokens, 2 KV heads, 16 query heads. A problem copies its tensors before it checks them. `query`
/// and `cache` therefore have room for the largest shapes that a case declares: 17 query tokens, rows of 96 bytes.
struct Case {
  std::vector<char> query = std::vector<char>(std::size_t{2} * 17 * 16 * 128 * 2);
  std::vector<char> cache = std::vector<char>(std::size_t{2} * 10 * 2 * 96);
  std::vector<std::int32_t> lengths = {10, 3, 0, 0};
  std::vector<Tensor> tensors = {{"query", "BF16", {2, 16, 128}, {}, query.data()},
                                 {"key", "U8", {2, 10, 2, 80}, {}, cache.data()},
                                 {"value", "U8", {2, 10, 2, 80}, {}, cache.data()},
                                 {"lengths", "I32", {2}, {}, lengths.data()}};
  Numbers numbers;
  std::string text = kInt4;
};

struct BadCase {
  const char* sentence;
  void (*change)(Case&);
};

class RefusedProblem : public ::testing::TestWithParam<BadCase> {};

TEST_P(RefusedProblem, NamesTheRule) {
  Case one;
  GetParam().change(one);
  tests::expect_refused_with([&] { find_problems(one.text).problem(one.text, one.tensors, one.numbers); },
                             GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedProblem,
    ::testing::Values(
        BadCase{"tensor query of type F32: the descriptor", [](Case& c) { c.tensors[0].type = "F32"; }},
        BadCase{"tensor query [2, 16, 64]: head_dim is 128", [](Case& c) { c.tensors[0].shape[2] = 64; }},
        BadCase{"tensor query [2, 2048]: it must have the dimensions",
                [](Case& c) {
                  c.tensors[0].shape = {2, 2048};
                }},
        BadCase{"tensor key [2, 10, 2, 68]: its rows have 68 elements; ",
                [](Case& c) { c.tensors[1].shape[3] = c.tensors[2].shape[3] = 68; }},
        BadCase{"tensor query [2, 2, 16, 128]: the descriptor has query_tokens=1; ask for query_tokens=2",
                [](Case& c) {
                  c.tensors[0].shape = {2, 2, 16, 128};
                }},
        BadCase{
            "tensor query [2, 17, 16, 128]: the descriptor has query_tokens=1; accepted: [batch, 1, query heads, 128]",
            [](Case& c) {
              c.tensors[0].shape = {2, 17, 16, 128};
            }},
        BadCase{"query has a batch of 2", [](Case& c) { c.tensors[1].shape[0] = 1; }},
        BadCase{"tensor value [2, 9, 2, 80]: it must have the dimensions [batch, max_length, kv_heads, row]; accepted "
                "beside the other tensors: [2, 10, 2, 80]",
                [](Case& c) { c.tensors[2].shape[1] = 9; }},
        BadCase{"15 query heads and 2 KV heads: query heads are not a multiple of KV heads; accepted: 16 query heads",
                [](Case& c) { c.tensors[0].shape[1] = 15; }},
        BadCase{"14 query heads and 2 KV heads: the descriptor has heads_per_kv=8",
                [](Case& c) { c.tensors[0].shape[1] = 14; }},
        BadCase{"lengths[1] = 11: the cache holds 10 tokens; accepted: 0 to 10", [](Case& c) { c.lengths[1] = 11; }},
        BadCase{"lengths[0] = -1: the cache holds 10 tokens", [](Case& c) { c.lengths[0] = -1; }},
        BadCase{"tensor lengths of type I64", [](Case& c) { c.tensors[3].type = "I64"; }},
        BadCase{"tensor lengths [1]: query has a batch of 2", [](Case& c) { c.tensors[3].shape[0] = 1; }},
        BadCase{"tensors without value", [](Case& c) { c.tensors.erase(c.tensors.begin() + 2); }},
        BadCase{"tensor weights: gqa_decode has no such input", [](Case& c) { c.tensors[3].name = "weights"; }},
        BadCase{"softmax_scale = nan: it is not a finite number",
                [](Case& c) { c.numbers["softmax_scale"] = std::numeric_limits<double>::quiet_NaN(); }},
        BadCase{"softmax_scale = 1e+300: its magnitude is beyond 1e30; accepted: -1e30 to 1e30 but not "
                "0, usually 1 / sqrt(head_dim)",
                [](Case& c) { c.numbers["softmax_scale"] = 1e300; }},
        BadCase{"lse = 2: it is not a number that is accepted; accepted: whole numbers from 0 to 1",
                [](Case& c) { c.numbers["lse"] = 2; }},
        BadCase{"splits = 10000000000: it is not a number that is accepted; accepted: whole numbers from 0 to 256",
                [](Case& c) { c.numbers["splits"] = 1e10; }},
        BadCase{"number speed: gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 has no such launch argument",
                [](Case& c) { c.numbers["speed"] = 1; }},
        BadCase{"its rows are 68 bytes apart, not a multiple of alignment=16; ask for alignment=4",
                [](Case& c) {
                  c.text = "gqa_decode:heads_per_kv=8,kv=int4_rows,alignment=16";
                  c.tensors[1].shape[3] = c.tensors[2].shape[3] = 68;
                }},
        BadCase{"tensor key [2, 10, 2, 96]: its rows have 96 elements; gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 "
                "wants rows of 80; give padded_rows=1 if the rest of a row is padding",
                [](Case& c) { c.tensors[1].shape[3] = 96; }},
        BadCase{"tensor key [2, 10, 2, 68]: its rows have 68 elements; ",
                [](Case& c) {
                  c.tensors[1].shape[3] = 68;
                  c.numbers["padded_rows"] = 1;
                }},
        BadCase{"its rows are 88 bytes apart, not a multiple of alignment=16; ask for alignment=8 in the descriptor",
                [](Case& c) {
                  c.tensors[1].shape[3] = 88;
                  c.numbers["padded_rows"] = 1;
                }},
        BadCase{"its rows are 82 bytes apart, not a multiple of alignment=16; pad rows to a multiple of 4 bytes",
                [](Case& c) {
                  c.tensors[1].shape[3] = 82;
                  c.numbers["padded_rows"] = 1;
                }}));

// A launch assumes as much as tensors have, unless the descriptor says what it may assume.
TEST(GqaProblem, TensorsChooseAnAlignmentThatTheDescriptorLeavesOut) {
  const auto fit = [](const std::string& text, std::int64_t key_row, std::int64_t value_row) {
    const std::vector<Tensor> tensors = {{"query", "BF16", {1, 8, 128}, {}, nullptr},
                                         {"key", "U8", {1, 10, 1, key_row}, {}, nullptr},
                                         {"value", "U8", {1, 10, 1, value_row}, {}, nullptr}};
    return find_problems(text).fit(text, tensors, {{"padded_rows", 1}});
  };
  const std::string one_group = "gqa_decode:heads_per_kv=8,kv=int4_rows";
  EXPECT_EQ(fit(one_group, 68, 68), one_group);
  EXPECT_EQ(fit(one_group, 80, 80), one_group + ",alignment=16");
  EXPECT_EQ(fit(one_group, 80, 72), one_group + ",alignment=8");
  EXPECT_EQ(fit(one_group, 80, 68), one_group);
  EXPECT_EQ(fit(one_group, 80, 70), one_group) << "the problem refuses such rows";
  EXPECT_EQ(fit(one_group + ",alignment=8", 80, 80), one_group + ",alignment=8");
  EXPECT_EQ(fit("gqa_decode:kv=int4_rows,alignment=4,heads_per_kv=8", 80, 80), one_group);
  EXPECT_EQ(fit(one_group + ",family=sm90", 80, 80), one_group + ",family=sm90") << "the family takes 4 alone";
  EXPECT_EQ(fit("gqa_decode:kv=fp8_e4m3", 132, 132), "gqa_decode:kv=fp8_e4m3,alignment=4");
  EXPECT_EQ(fit(one_group, 48, 48), one_group) << "the problem refuses shorter rows";
  const OperatorProblems& problems = find_problems(one_group);
  EXPECT_EQ(problems.fit(one_group, {}, {{"padded_rows", 1}}), one_group) << "the problem refuses missing tensors";
  const std::vector<Tensor> longer = {{"key", "U8", {1, 10, 1, 80}, {}, nullptr}};
  EXPECT_EQ(problems.fit(one_group, longer, {}), one_group) << "the problem refuses longer rows";
}

TEST(GqaProblem, BytesOf16BitRowsChooseTheAlignment) {
  const std::vector<Tensor> tensors = {{"key", "BF16", {1, 10, 1, 132}, {}, nullptr},
                                       {"value", "BF16", {1, 10, 1, 128}, {}, nullptr}};
  EXPECT_EQ(find_problems("gqa_decode").fit("gqa_decode", tensors, {{"padded_rows", 1}}), "gqa_decode:alignment=8");
}

// A tensor without elements may have any sizes, but launches count sizes in 32 bits.
TEST(GqaProblem, RefusesMoreThanLaunchesCount) {
  constexpr std::int64_t kMany = std::int64_t{1} << 32;
  char byte = 0;
  const auto refused = [&](std::vector<std::int64_t> query, std::vector<std::int64_t> cache, const char* given) {
    const std::vector<Tensor> tensors = {{"query", "BF16", std::move(query), {}, &byte},
                                         {"key", "BF16", cache, {}, &byte},
                                         {"value", "BF16", cache, {}, &byte}};
    tests::expect_refused([&] { find_problems("gqa_decode").problem("gqa_decode", tensors, {}); },
                          std::string(given) + ": a launch counts them in 32 bits; accepted: up to 2147483647");
  };
  refused({0, kMany + 1, 128}, {0, 16, kMany + 1, 128}, "4294967297 KV heads");
  refused({0, 8 * kMany, 128}, {0, 16, 8 * kMany, 128}, "34359738368 KV heads");
  refused({kMany, 0, 128}, {kMany, 0, 1, 128}, "4294967296 sequences");
}

TEST(MadeUpData, IsNoMoreThanTheMachineHasLeft) {
  constexpr double kGiB = 1ULL << 30;
  require_made_up("n = 1", 8 * kGiB, "", 8 * kGiB);
  tests::expect_refused([&] { require_made_up("n = 2", 16 * kGiB, "ask for less", 8 * kGiB); },
                        "n = 2: that is 16.0 GiB, and this machine has 8.0 GiB left; ask for less");
  tests::expect_refused([&] { require_made_up("n = 9", 72 * kGiB, "ask for less", 128 * kGiB); },
                        "n = 9: made-up data is limited to 64 GiB; ask for less");
  EXPECT_GT(available_memory(), 0u);
}

TEST(GqaProblem, TakesTheLargestSoftmaxScales) {
  for (const double scale : {1e30, -1e30}) {
    const Case one;
    EXPECT_NO_THROW(find_problems(kInt4).problem(kInt4, one.tensors, {{"softmax_scale", scale}}));
  }
}

TEST(GqaProblem, OneQueryTokenMayHaveADimension) {
  Case one;
  one.tensors[0].shape = {2, 1, 16, 128};
  const Case usual;
  const auto written = find_problems(kInt4).problem(kInt4, one.tensors, {{"lse", 1}});
  const auto left_out = find_problems(kInt4).problem(kInt4, usual.tensors, {{"lse", 1}});
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(written->outputs()[0].shape, (Shape{2, 1, 16, 128}));
  EXPECT_EQ(written->outputs()[1].shape, (Shape{2, 1, 16}));
  EXPECT_EQ(left_out->outputs()[0].shape, (Shape{2, 16, 128}));
  EXPECT_EQ(left_out->outputs()[1].shape, (Shape{2, 16}));
  std::vector<void*> addresses;
  for (std::uintptr_t i = 1; i <= 6; ++i) addresses.push_back(reinterpret_cast<void*>(4096 * i));
  EXPECT_EQ(written->arguments(addresses), left_out->arguments(addresses)) << "a launch is the same";
}

TEST(GqaProblem, CountsTheBytesOfTheTrueLengths) {
  const Case one;
  const auto problem = find_problems(kInt4).problem(kInt4, one.tensors, {});
  EXPECT_EQ(problem->bytes_read(), 2u * 13 * 2 * 80 + 2 * 16 * 128 * 2 + 2 * 4);
  EXPECT_EQ(problem->operations(), 4.0 * 13 * 16 * 128);
  EXPECT_EQ(problem->bytes_written(), 2u * 16 * 128 * 2);
}

TEST(GqaProblem, TheSameSeedGivesTheSameBytes) {
  const Numbers sizes = {{"batch", 3}, {"context", 40}, {"kv_heads", 2}, {"ragged", 1}};
  const auto bytes_of = [&](std::uint64_t seed) {
    std::string all;
    const auto problem = find_problems(kInt4).random(kInt4, sizes, seed);
    for (const Tensor& tensor : problem->inputs()) {
      all.append(static_cast<const char*>(tensor.data), tensor.bytes());
    }
    return all;
  };
  EXPECT_EQ(bytes_of(1), bytes_of(1));
  EXPECT_NE(bytes_of(1), bytes_of(2));
}

TEST(GqaProblem, LengthsMayBeATensorWhereAllAreAlike) {
  const auto lengths_of = [](const Numbers& sizes) {
    const auto problem = find_problems(kInt4).random(kInt4, sizes, 1);
    std::vector<std::int32_t> lengths;
    for (const Tensor& tensor : problem->inputs()) {
      if (tensor.name != "lengths") continue;
      const auto* const data = static_cast<const std::int32_t*>(tensor.data);
      lengths.assign(data, data + tensor.bytes() / sizeof *data);
    }
    return lengths;
  };
  EXPECT_EQ(lengths_of({{"batch", 3}, {"context", 40}, {"lengths", 1}}), (std::vector<std::int32_t>{40, 40, 40}));
  EXPECT_TRUE(lengths_of({{"batch", 3}, {"context", 40}}).empty());
  EXPECT_EQ(lengths_of({{"batch", 3}, {"context", 40}, {"lengths", 1}, {"ragged", 1}})[1], 0) << "ragged all the same";
}

TEST(GqaProblem, RefusesSizesThatItDoesNotKnow) {
  for (const Numbers& sizes :
       {Numbers{{"bach", 1}}, Numbers{{"batch", -1}}, Numbers{{"context", 0.5}}, Numbers{{"kv_heads", 0}},
        Numbers{{"pattern", 6}}, Numbers{{"batch", 1e300}}, Numbers{{"batch", 1 << 20}, {"context", 1 << 27}},
        Numbers{{"batch", std::numeric_limits<double>::quiet_NaN()}}}) {
    EXPECT_THROW(find_problems(kInt4).random(kInt4, sizes, 1), Failure);
  }
}

/// The reference rounded to the output's type, which a perfect kernel would store.
std::vector<std::uint16_t> perfect_output(const Problem& problem, const GqaDecode& descriptor) {
  const auto& query = problem.inputs()[0];
  const auto& key = problem.inputs()[1];
  const std::int64_t heads = query.shape[1];
  const std::int64_t row = descriptor.row_bytes();
  std::vector<std::uint16_t> output;
  for (std::int64_t item = 0; item < query.shape[0] * heads; ++item) {
    std::vector<double> q(descriptor.head_dim);
    for (int c = 0; c < descriptor.head_dim; ++c) {
      q[c] = to_double(descriptor.query, static_cast<const std::uint16_t*>(query.data)[item * descriptor.head_dim + c]);
    }
    const std::int64_t offset =
        (item / heads * key.shape[1] * key.shape[2] + item % heads / descriptor.heads_per_kv) * row;
    const auto rows_of = [&](const Tensor& cache) -> gqa_decode::HeadRows {
      const char* const first = static_cast<const char*>(cache.data) + offset;
      return {[=, stride = key.shape[2] * row](int token) { return first + token * stride; }};
    };
    const gqa_decode::HeadRows keys = rows_of(key);
    const gqa_decode::HeadRows values = rows_of(problem.inputs()[2]);
    const auto head = gqa_decode::reference_head(descriptor, q.data(), keys, values, static_cast<int>(key.shape[1]),
                                                 1 / std::sqrt(descriptor.head_dim));
    for (const double x : head.output) output.push_back(from_float(descriptor.output, static_cast<float>(x)));
  }
  return output;
}

TEST(GqaProblem, AcceptsTheRoundedReferenceAndFindsOneWrongHead) {
  const auto problem = find_problems(kInt4).random(kInt4, {{"batch", 2}, {"context", 50}, {"kv_heads", 2}}, 4);
  auto output = perfect_output(*problem, gqa_decode::parse(kInt4));
  const void* address = output.data();
  const auto good = problem->compare({&address, 1});
  EXPECT_GT(good.error, 0);  // bf16 rounds
  EXPECT_LE(good.error, good.tolerance);

  const std::size_t victim = (1 * 16 + 5) * 128 + 77;                                 // sequence 1, head 5
  for (const std::uint16_t wrong : {std::uint16_t{0x7fc0}, std::uint16_t{0x4000}}) {  // NaN, 2.0
    const std::uint16_t saved = output[victim];
    output[victim] = wrong;
    const auto bad = problem->compare({&address, 1});
    EXPECT_GT(bad.error, bad.tolerance);
    EXPECT_EQ(bad.worst, "sequence 1, head 5");
    output[victim] = saved;
  }
}

/// Every channel times `factor`, which changes the norm by the same factor.
std::vector<std::uint16_t> scaled(std::vector<std::uint16_t> output, Element element, double factor) {
  for (std::uint16_t& x : output) x = from_float(element, static_cast<float>(to_double(element, x) * factor));
  return output;
}

// If outputs or the cache are bf16, the tolerance is 3e-3. If all types are fp16, or become fp16 without rounding, the
// tolerance is 1e-3.
TEST(GqaProblem, AcceptsTheErrorsOfTheDescriptorsTypes) {
  for (const char* cache : {"kv=int4_rows,groups=4", "kv=fp16", "kv=bf16"}) {
    for (const Element output : {Element::fp16, Element::bf16}) {
      const std::string text = std::string("gqa_decode:heads_per_kv=8,query=fp16,") + cache +
                               (output == Element::fp16 ? ",output=fp16" : ",output=bf16");
      const GqaDecode descriptor = gqa_decode::parse(text);
      const auto problem = find_problems(text).random(text, {{"batch", 2}, {"context", 50}, {"kv_heads", 2}}, 4);
      const auto perfect = perfect_output(*problem, descriptor);
      const bool is_tight = output == Element::fp16 && descriptor.kv != KvFormat::bf16;
      const auto compared = [&](double factor) {
        const auto changed = scaled(perfect, output, factor);
        const void* address = changed.data();
        return problem->compare({&address, 1});
      };
      EXPECT_NEAR(compared(1).tolerance, is_tight ? 1e-3 : 3e-3, 1e-4) << text;
      EXPECT_TRUE(compared(1).error <= compared(1).tolerance) << text;
      const auto twice = compared(1.002);
      EXPECT_NEAR(twice.error, 2e-3, 1e-3) << text;
      EXPECT_EQ(twice.error <= twice.tolerance, !is_tight) << text;
      EXPECT_FALSE(compared(1.006).error <= compared(1.006).tolerance) << text;
    }
  }
}

// With one token the output is the token's value. Beyond the largest number of fp16 only infinity is right.
TEST(GqaProblem, AnInfinityIsRightWhereTheReferenceRoundsToIt) {
  const std::string text = "gqa_decode:kv=bf16,query=fp16,output=fp16";
  constexpr int kChannels = 128;
  constexpr std::uint16_t kOne = 0x3c00;
  constexpr std::uint16_t kInfinity = 0x7c00;
  constexpr std::uint16_t kLargest = 0x7bff;
  const auto passes = [&](float value, std::uint16_t found) {
    std::vector<std::uint16_t> zeros(kChannels);
    std::vector<std::uint16_t> values(kChannels, from_float(Element::bf16, 1));
    values[0] = from_float(Element::bf16, value);
    const std::vector<Tensor> tensors = {{"query", "F16", {1, 1, kChannels}, {}, zeros.data()},
                                         {"key", "BF16", {1, 1, 1, kChannels}, {}, zeros.data()},
                                         {"value", "BF16", {1, 1, 1, kChannels}, {}, values.data()}};
    std::vector<std::uint16_t> output(kChannels, kOne);
    output[0] = found;
    const void* address = output.data();
    const auto compared = find_problems(text).problem(text, tensors, {})->compare({&address, 1});
    return compared.error <= compared.tolerance;
  };
  EXPECT_TRUE(passes(70144, kInfinity));
  EXPECT_FALSE(passes(70144, kLargest));
  EXPECT_FALSE(passes(70144, kInfinity | 0x8000));
  EXPECT_TRUE(passes(-70144, kInfinity | 0x8000));
  EXPECT_TRUE(passes(65536, kInfinity));
  EXPECT_TRUE(passes(65536, kLargest)) << "an error of 1e-3 away";
  EXPECT_FALSE(passes(60160, kInfinity));
  EXPECT_FALSE(passes(1, kInfinity));
}

// Rounding alone may exceed the usual tolerance, for example with fp16 subnormals. The comparison then raises the
// head's tolerance and still reports the true error.
TEST(GqaProblem, RoundingOfTinyOutputsRaisesTheToleranceNotLowersTheError) {
  const std::string text = "gqa_decode:heads_per_kv=8,kv=fp16,query=fp16,output=fp16";
  const auto problem =
      find_problems(text).random(text, {{"batch", 2}, {"context", 500}, {"kv_heads", 2}, {"pattern", 4}}, 4);
  const auto perfect = perfect_output(*problem, gqa_decode::parse(text));
  const auto compared = [&](double factor) {
    const auto changed = scaled(perfect, Element::fp16, factor);
    const void* address = changed.data();
    return problem->compare({&address, 1});
  };
  const auto rounded = compared(1);
  EXPECT_GT(rounded.error, 1e-3);
  EXPECT_NEAR(rounded.tolerance, rounded.error + 1e-3 / 3, 1e-9);
  const auto wrong = compared(1.02);
  EXPECT_GT(wrong.error, 0.01);
  EXPECT_GT(wrong.error, wrong.tolerance);
}

// Constant rows of a few tokens may cancel, so that the rounding of fp16 weights becomes relatively larger. The
// tolerance grows, but never beyond the tolerance of bf16.
TEST(GqaProblem, TokensThatCancelRaiseTheToleranceOfFp16) {
  const std::string text = "gqa_decode:kv=fp16,query=fp16,output=fp16";
  const Numbers sizes = {{"batch", 40}, {"context", 4}, {"pattern", 2}};
  const auto problem = find_problems(text).random(text, sizes, 4);
  auto output = perfect_output(*problem, gqa_decode::parse(text));
  double loosest = 0;
  double tightest = 1;
  for (std::size_t head = 0; head < 40; ++head) {
    std::uint16_t& x = output[head * 128];
    const std::uint16_t saved = std::exchange(x, std::uint16_t{0x7c00});  // an infinity makes this head the worst
    const void* address = output.data();
    const auto compared = problem->compare({&address, 1});
    EXPECT_EQ(compared.worst, "sequence " + std::to_string(head) + ", head 0");
    loosest = std::max(loosest, compared.tolerance);
    tightest = std::min(tightest, compared.tolerance);
    x = saved;
  }
  EXPECT_EQ(tightest, 1e-3);
  EXPECT_GT(loosest, 1.5e-3);
  EXPECT_LE(loosest, 3e-3);
}

// Rows keep their content, and launches get the strides of the longer rows.
TEST(GqaProblem, ReadsPaddedRows) {
  const std::string text = "gqa_decode:heads_per_kv=8,kv=int4_rows";
  const auto dense = find_problems(text).random(text, {{"batch", 2}, {"context", 10}, {"kv_heads", 3}}, 1);
  std::vector<Tensor> inputs = dense->inputs();
  std::vector<std::vector<char>> storage;
  for (const std::size_t which : {1, 2}) {
    Tensor& cache = inputs[which];
    const auto* rows = static_cast<const char*>(cache.data);
    const std::size_t pitch = which == 1 ? 80 : 96;
    std::vector<char>& padded = storage.emplace_back(2 * 10 * 3 * pitch, '\xff');
    for (std::size_t row = 0; row < 2 * 10 * 3; ++row) std::copy_n(rows + 68 * row, 68, padded.data() + pitch * row);
    cache.shape[3] = static_cast<std::int64_t>(pitch);
    cache.data = padded.data();
  }
  const auto problem = find_problems(text).problem(text + ",alignment=16", inputs, {{"padded_rows", 1}});
  const auto output = perfect_output(*dense, gqa_decode::parse(text));
  const void* const address = output.data();
  const auto compared = problem->compare({&address, 1});
  EXPECT_LE(compared.error, compared.tolerance);
  EXPECT_EQ(compared.error, dense->compare({&address, 1}).error);
  EXPECT_EQ(problem->bytes_read(), dense->bytes_read());
  std::vector<void*> addresses(problem->inputs().size() + 1);
  const auto bytes = problem->arguments(addresses);
  cubit_gqa_decode_arguments arguments;
  std::memcpy(&arguments, bytes.data(), sizeof arguments);
  EXPECT_EQ(arguments.key_strides[2], 80);
  EXPECT_EQ(arguments.key_strides[1], 3 * 80);
  EXPECT_EQ(arguments.key_strides[0], 10 * 3 * 80);
  EXPECT_EQ(arguments.value_strides[2], 96);
}

// Packed rows have the tolerance of fp16, because scale · (nibble - 7.5) is as large as ordinary values. If a group has
// an outlier, these numbers are larger than the other values, and so is the rounding of weights times scales.
TEST(GqaProblem, OutliersOfPackedRowsRaiseTheToleranceOfFp16) {
  const std::string text = "gqa_decode:heads_per_kv=8,kv=int4_rows,query=fp16,output=fp16";
  for (const bool has_outliers : {false, true}) {
    const Numbers sizes = {{"batch", 2}, {"context", 4}, {"kv_heads", 2}, {"pattern", has_outliers ? 1 : 0}};
    const auto problem = find_problems(text).random(text, sizes, 4);
    const auto wrong = scaled(perfect_output(*problem, gqa_decode::parse(text)), Element::fp16, 1.0025);
    const void* address = wrong.data();
    const auto compared = problem->compare({&address, 1});
    if (has_outliers)
      EXPECT_GT(compared.tolerance, 1e-3);
    else
      EXPECT_EQ(compared.tolerance, 1e-3);
    EXPECT_LT(compared.tolerance, 2e-3);
    EXPECT_GT(compared.error, compared.tolerance);
  }
}

// A finite log-sum-exp is never close to an infinite one.
TEST(GqaProblem, FindsAWrongLogSumExp) {
  Case one;
  one.lengths = {10, 0};
  const auto problem = find_problems(kInt4).problem(kInt4, one.tensors, {{"lse", 1}});
  const std::vector<std::uint16_t> output(std::size_t{2} * 16 * 128, 0);
  std::vector<float> lse(32, std::log(10.f));
  std::fill(lse.begin() + 16, lse.end(), -std::numeric_limits<float>::infinity());
  const void* got[] = {output.data(), lse.data()};
  EXPECT_LE(problem->compare(got).error, 1e-6);
  for (const std::size_t victim : {3, 19}) {
    for (const float wrong : {5.f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const float saved = std::exchange(lse[victim], wrong);
      const auto bad = problem->compare(got);
      EXPECT_GT(bad.error, bad.tolerance) << victim << " " << wrong;
      lse[victim] = saved;
    }
  }
}

TEST(StreamReadProblem, RefusesWhatItCannotRead) {
  for (const Numbers& sizes : {Numbers{{"bytes", 17}}, Numbers{{"bytes", 0}}, Numbers{{"words", 4}}}) {
    EXPECT_THROW(find_problems("stream_read").random("stream_read", sizes, 1), Failure);
  }
}

TEST(StreamReadProblem, ComparesTheChecksum) {
  const auto problem = find_problems("stream_read").random("stream_read", {{"bytes", 4096}}, 1);
  std::vector<std::uint32_t> checksums(4096);
  for (std::size_t i = 0; i < 1024; ++i) {
    std::memcpy(&checksums[i], static_cast<const char*>(problem->inputs()[0].data) + 4 * i, 4);
  }
  const void* address = checksums.data();
  EXPECT_EQ(problem->compare({&address, 1}).error, 0);
  checksums[17] ^= 1;
  EXPECT_EQ(problem->compare({&address, 1}).error, 1);
}

TEST(StreamCopyProblem, ComparesEveryByte) {
  const auto problem = find_problems("stream_copy").random("stream_copy", {{"bytes", 4096}}, 1);
  const auto* source = static_cast<const char*>(problem->inputs()[0].data);
  std::vector<char> destination(source, source + 4096);
  const void* address = destination.data();
  EXPECT_EQ(problem->compare({&address, 1}).error, 0);
  destination[4095] ^= 1;
  EXPECT_EQ(problem->compare({&address, 1}).error, 1);
  EXPECT_THROW(find_problems("stream_copy").random("stream_copy", {{"bytes", 17}}, 1), Failure);
}

}  // namespace
}  // namespace cubit::check
