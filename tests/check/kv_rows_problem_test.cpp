// Problems of kv_append and kv_gather: which rows a launch writes, with results that can be worked out by hand, and
// which inputs a problem refuses.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "check/kv_append/problem.hpp"
#include "check/kv_gather/problem.hpp"
#include "tests/check/kv_row_case.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::check {
namespace {

TEST(KvAppendProblem, WritesTheRowsThatFitAndNoOther) {
  const RowCase one;
  const auto problem = one.problem();
  ASSERT_EQ(problem->inputs().size(), 3u) << "caches are no inputs: they are what a launch finds in its outputs";
  ASSERT_EQ(problem->outputs().size(), 2u);
  EXPECT_EQ(problem->outputs()[0].name, "key_cache");
  std::vector<std::uint16_t> expected = one.cache;
  // Sequence 0: tokens 2 and 3, the third does not fit. Sequence 1: tokens 0 to 2.
  std::fill(expected.begin() + 2 * 128, expected.begin() + (4 + 3) * 128, 0x3f80);
  const void* got[] = {expected.data(), expected.data()};
  EXPECT_EQ(problem->compare(got).error, 0);
  EXPECT_EQ(problem->bytes_written(), 2u * 5 * 2 * 128);
  EXPECT_EQ(problem->bytes_read(), 2u * 5 * 2 * 128 + 8);

  std::vector<std::uint16_t> wrong = expected;
  wrong[(4 + 3) * 128 + 64 + 5] ^= 1;  // sequence 1, token 3, head 1: not to be touched
  const void* bad[] = {expected.data(), wrong.data()};
  const auto comparison = problem->compare(bad);
  EXPECT_EQ(comparison.error, 1);
  EXPECT_EQ(comparison.worst, "value_cache, sequence 1, token 3, head 1: byte 10 is 0x01, not 0x00");
}

TEST(KvAppendProblem, WithoutCachesHasOnesOfZerosAsLongAsNeeded) {
  RowCase one;
  one.tensors.erase(one.tensors.begin() + 2, one.tensors.begin() + 4);
  EXPECT_EQ(one.problem()->outputs()[0].shape, (std::vector<std::int64_t>{2, 5, 2, 64}));
  one.numbers["max_length"] = 9;
  const auto problem = one.problem();
  ASSERT_EQ(problem->outputs()[1].shape, (std::vector<std::int64_t>{2, 9, 2, 64}));
  const auto* bytes = static_cast<const char*>(problem->outputs()[1].data);
  EXPECT_EQ(std::count(bytes, bytes + problem->outputs()[1].bytes(), 0), 2 * 9 * 2 * 128);
}

/// A case that rotates keys, with angles for a given number of positions: position p has cosines of 0 and sines of p.
struct RotatedCase : RowCase {
  std::vector<float> cosines;
  std::vector<float> sines;

  explicit RotatedCase(std::int64_t positions) : cosines(positions * 32, 0.f) {
    for (std::int64_t i = 0; i < positions * 32; ++i) sines.push_back(static_cast<float>(i / 32));
    text += ",rotary=half_split";
    tensors.push_back({"cosines", "F32", {positions, 32}, {}, cosines.data()});
    tensors.push_back({"sines", "F32", {positions, 32}, {}, sines.data()});
  }
};

/// A model's tables of angles are longer than a cache. Here the tokens reach position 3 in a cache of 4 tokens.
TEST(KvAppendProblem, TakesAnglesOfMorePositionsThanTheCacheHas) {
  for (const std::int64_t positions : {4, 256}) {
    const RotatedCase one(positions);
    const auto problem = one.problem();
    std::vector<std::uint16_t> keys = one.cache;
    const auto expect_at = [&](int token, std::uint16_t magnitude) {  // keys are 1 in all channels before the rotation
      std::uint16_t* const rows = keys.data() + token * 128;
      for (int channel = 0; channel < 128; ++channel)
        rows[channel] = magnitude | (channel % 64 < 32 && magnitude != 0 ? 0x8000 : 0);
    };
    expect_at(2, 0x4000);
    expect_at(3, 0x4040);
    expect_at(4, 0);
    expect_at(5, 0x3f80);
    expect_at(6, 0x4000);
    std::vector<std::uint16_t> values = one.cache;
    std::fill(values.begin() + 2 * 128, values.begin() + 7 * 128, 0x3f80);
    const void* got[] = {keys.data(), values.data()};
    const auto comparison = problem->compare(got);
    EXPECT_EQ(comparison.error, 0) << comparison.worst;
  }
  RotatedCase without_caches(256);
  without_caches.tensors.erase(without_caches.tensors.begin() + 2, without_caches.tensors.begin() + 4);
  EXPECT_EQ(without_caches.problem()->outputs()[0].shape, (std::vector<std::int64_t>{2, 5, 2, 64}));
  tests::expect_refused_with([] { RotatedCase(3).problem(); },
                             "tensor cosines [3, 32]: it must have the dimensions [at least the positions up to the "
                             "last new token, rotary_dim / 2]");
}

/// The same case in pages of 2 tokens. Sequence 0 has page 2 and page 7, which does not exist; sequence 1 has pages 0
/// and 1.
struct PagedCase : RowCase {
  std::vector<std::int32_t> table = {2, 7, 0, 1};

  PagedCase() {
    text = "kv_append:head_dim=64,cache=paged";
    for (const int i : {2, 3}) tensors[i].shape = {4, 2, 2, 64};
    tensors.push_back({"page_table", "I32", {2, 2}, {}, table.data()});
    lengths = {0, 1};
  }
};

TEST(KvAppendProblem, FindsRowsThroughThePageTable) {
  PagedCase one;
  std::vector<std::uint16_t> expected = one.cache;
  const auto write = [&](std::size_t first_row, std::size_t rows) {
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(first_row * 64), rows * 64, std::uint16_t{0x3f80});
  };
  write(2 * 4, 4);  // sequence 0, tokens 0 and 1: all of page 2; its third token is in page 7, but there are 4 pages
  write(2, 2 + 4);  // sequence 1: token 1 is the second token of page 0, tokens 2 and 3 are page 1
  const void* got[] = {expected.data(), expected.data()};
  EXPECT_EQ(one.problem()->compare(got).error, 0);
  EXPECT_EQ(one.problem()->bytes_written(), 2u * 5 * 2 * 128);

  one.numbers["hnd"] = 1;
  one.text = "kv_append:head_dim=64,cache=paged";
  expected = one.cache;
  write(2 * 4, 4);
  write(1, 1);  // page 0, token 1 of head 0
  write(3, 1);  // page 0, token 1 of head 1
  write(4, 4);
  EXPECT_EQ(one.problem()->compare(got).error, 0);
}

TEST(KvAppendProblem, RefusesTokensOfOnePlace) {
  RowCase one;
  std::vector<std::int32_t> positions = {3, -1, 2, 0, 1, 0};
  one.tensors[4] = {"positions", "I32", {2, 3}, {}, positions.data()};
  const char* const remedy =
      "; give each token a position of its own, or one outside the cache where it is to be left out";
  const auto problem = [&] { one.problem(); };
  tests::expect_refused(problem,
                        std::string("positions[1, 2] = 0: token 0 of this sequence has that position too") + remedy);
  positions[5] = 3;
  EXPECT_EQ(tests::refusal_of(problem), "accepted") << "sequence 0 has that position too, in rows of its own";
  positions = {-1, -1, -1, 9, 9, 9};
  EXPECT_EQ(tests::refusal_of(problem), "accepted") << "none of these go anywhere";
  positions = {0, 0, 0, 1, 2, 3};
  std::vector<std::int32_t> counts = {1, 3};
  one.tensors.push_back({"counts", "I32", {2}, {}, counts.data()});
  EXPECT_EQ(tests::refusal_of(problem), "accepted") << "counts leaves two tokens out";
}

TEST(KvAppendProblem, RefusesTokensOfOnePlaceOfAPage) {
  const char* const remedy = "; give each new token a place of its own";
  const auto refusal = [](std::vector<std::int32_t> table, std::vector<std::int32_t> lengths) {
    PagedCase one;
    std::copy(table.begin(), table.end(), one.table.begin());
    std::copy(lengths.begin(), lengths.end(), one.lengths.begin());
    return tests::refusal_of([&] { one.problem(); });
  };
  // Pages have 2 tokens. Sequence 0 appends 3 tokens from position 0, sequence 1 appends 3 tokens from position 1.
  EXPECT_EQ(refusal({2, 3, 0, 3}, {0, 1}),
            std::string("page_table[1, 1] = 3: token 1 of sequence 1 goes to place 0 of that page, and so does token 2 "
                        "of sequence 0") +
                remedy);
  EXPECT_EQ(refusal({2, 2, 0, 1}, {0, 1}),
            std::string("page_table[0, 1] = 2: token 2 of sequence 0 goes to place 0 of that page, and so does token 0 "
                        "of sequence 0") +
                remedy);
  EXPECT_EQ(refusal({0, 2, 0, 3}, {2, 2}), "accepted") << "a page that both have, and none writes";
  EXPECT_EQ(refusal({2, 7, 7, -1}, {0, 1}), "accepted") << "pages that are none";
}

TEST(KvAppendProblem, TakesLengthsOrPositions) {
  RowCase one;
  std::vector<std::int32_t> positions = {0, 1, 2, 0, 1, 2};
  one.tensors.push_back({"positions", "I32", {2, 3}, {}, positions.data()});
  tests::expect_refused([&] { one.problem(); },
                        "tensors lengths and positions: positions alone say where tokens go; "
                        "leave lengths or positions out");
}

TEST(KvAppendProblem, SaysWhichTokenNoCacheIsLongEnoughFor) {
  RowCase one;
  one.tensors.erase(one.tensors.begin() + 2, one.tensors.begin() + 4);
  one.lengths = {5, 2147483647};
  const auto problem = [&] { one.problem(); };
  const std::string counted =
      " tokens, and a launch counts them in 32 bits; accepted: up to 2147483647 tokens, or max_length, beyond which "
      "tokens are left out";
  tests::expect_refused(
      problem, "lengths[1] = 2147483647: token 2 of this sequence is the last in a cache of 2147483650" + counted);
  std::vector<std::int32_t> positions = {0, 1, 2, 0, 2147483647, 2};
  one.tensors[2] = {"positions", "I32", {2, 3}, {}, positions.data()};
  tests::expect_refused(
      problem, "positions[1, 1] = 2147483647: token 1 of this sequence is the last in a cache of 2147483648" + counted);
  one.numbers["max_length"] = 4;
  EXPECT_EQ(tests::refusal_of(problem), "accepted");
}

TEST(KvAppendProblem, SaysWhatPagesItCannotTake) {
  const auto refused = [](const std::string& sentence, auto change) {
    PagedCase one;
    change(one);
    tests::expect_refused_with([&] { one.problem(); }, sentence);
  };
  refused("tensors without page_table: the descriptor has cache=paged", [](RowCase& c) { c.tensors.pop_back(); });
  refused("tensor page_table: the descriptor has cache=contiguous",
          [](RowCase& c) { c.text = "kv_append:head_dim=64"; });
  refused("tensor page_table [2]: it must have the dimensions", [](RowCase& c) { c.tensors.back().shape = {2}; });
  refused("max_length = 5: the page table has room for 4 tokens", [](RowCase& c) { c.numbers["max_length"] = 5; });
  const std::string pages = "pages of 512 tokens: a page has 1 to 256 tokens; ";
  refused(pages +
              "key_cache is [pages, page_size, kv_heads, row]: give pages of 1 to 256 tokens, or hnd=1 where it is "
              "[pages, kv_heads, page_size, row]",
          [](RowCase& c) {
            c.tensors[2].shape = {0, 512, 2, 64};
          });
  refused(pages +
              "with hnd=1 key_cache is [pages, kv_heads, page_size, row]: give pages of 1 to 256 tokens, or leave "
              "hnd=1 out where it is [pages, page_size, kv_heads, row]",
          [](RowCase& c) {
            c.tensors[2].shape = {0, 2, 512, 64};
            c.numbers["hnd"] = 1;
          });
  refused("must have the dimensions [pages, page_size, kv_heads, row]", [](RowCase& c) {
    c.tensors[3].shape = {3, 2, 2, 64};
  });
  refused("accepted: max_length, page_size, pages, hnd", [](RowCase& c) { c.numbers["speed"] = 1; });
  refused("page_size = 7: tensor key_cache [4, 2, 2, 64] has page_size = 2; leave page_size out, or give 2",
          [](RowCase& c) { c.numbers["page_size"] = 7; });
  refused("pages = 1000: tensor key_cache [4, 2, 2, 64] has pages = 4; leave pages out, or give 4",
          [](RowCase& c) { c.numbers["pages"] = 1000; });
}

TEST(KvAppendProblem, TakesNumbersThatSayWhatTheCacheSays) {
  PagedCase one;
  one.numbers = {{"page_size", 2}, {"pages", 4}};
  EXPECT_EQ(tests::refusal_of([&] { one.problem(); }), "accepted");
  one.tensors[2].shape = one.tensors[3].shape = {2, 2, 4, 64};
  one.numbers = {{"page_size", 4}, {"pages", 2}, {"hnd", 1}};
  one.table = {0, 1, 1, 0};
  EXPECT_EQ(tests::refusal_of([&] { one.problem(); }), "accepted");
}

// A tensor without elements may have any sizes, but launches count sizes in 32 bits.
TEST(KvRowsProblem, RefusesMoreThanLaunchesCount) {
  constexpr std::int64_t kMany = (std::int64_t{1} << 32) + 2;
  const auto refused = [](const std::string& text, const std::vector<Tensor>& tensors, const char* given) {
    tests::expect_refused([&] { find_problems(text).problem(text, tensors, {}); },
                          std::string(given) + ": a launch counts them in 32 bits; accepted: up to 2147483647");
  };
  char byte = 0;
  const auto pair = [&](const char* key, const char* value, std::vector<std::int64_t> shape) {
    return std::vector<Tensor>{{key, "BF16", shape, {}, &byte}, {value, "BF16", shape, {}, &byte}};
  };
  std::vector<Tensor> tensors = pair("key_cache", "value_cache", {4, 16, 1, 128});
  std::vector<std::uint16_t> cache(4 * 16 * 128);
  for (Tensor& tensor : tensors) tensor.data = cache.data();
  tensors.push_back({"page_table", "I32", {kMany, 0}, {}, &byte});
  refused("kv_gather:cache=paged", tensors, "4294967298 sequences");
  tensors.back().shape = {0, kMany};
  refused("kv_gather:cache=paged", tensors, "4294967298 pages of a sequence");
  refused("kv_gather", pair("key_cache", "value_cache", {kMany, 0, 1, 128}), "4294967298 sequences");
  refused("kv_gather", pair("key_cache", "value_cache", {0, 16, kMany, 128}), "4294967298 KV heads");
  refused("kv_append", pair("key", "value", {kMany, 0, 1, 128}), "4294967298 sequences");
  refused("kv_append", pair("key", "value", {0, kMany, 1, 128}), "4294967298 new tokens");
  refused("kv_append", pair("key", "value", {0, 3, kMany, 128}), "4294967298 KV heads");
}

TEST(KvAppendProblem, WithoutKvHeadsIsRefusedBeforeItsTokensAreCounted) {
  char byte = 0;
  std::vector<Tensor> tensors;
  for (const char* name : {"key", "value"}) tensors.push_back({name, "BF16", {1 << 30, 1 << 30, 0, 128}, {}, &byte});
  tests::expect_refused([&] { find_problems("kv_append").problem("kv_append", tensors, {}); },
                        "rows of 0 KV heads: there must be at least one; accepted: 1 and more");
}

TEST(KvAppendProblem, WithoutPagesHasThoseThatTheTableNames) {
  PagedCase one;
  one.tensors.erase(one.tensors.begin() + 2, one.tensors.begin() + 4);
  EXPECT_EQ(one.problem()->outputs()[0].shape, (std::vector<std::int64_t>{8, 16, 2, 64}));
  one.numbers = {{"page_size", 4}, {"pages", 20}, {"hnd", 1}};
  EXPECT_EQ(one.problem()->outputs()[0].shape, (std::vector<std::int64_t>{20, 2, 4, 64}));
}

struct BadCase {
  const char* sentence;
  void (*change)(RowCase&);
};

class RefusedKvProblem : public ::testing::TestWithParam<BadCase> {};

TEST_P(RefusedKvProblem, NamesTheRule) {
  RowCase one;
  GetParam().change(one);
  tests::expect_refused_with([&] { one.problem(); }, GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedKvProblem,
    ::testing::Values(
        BadCase{"tensor key of type F32: it must be BF16", [](RowCase& c) { c.tensors[0].type = "F32"; }},
        BadCase{"tensor key of type F16: it must be BF16; or ask for input=fp16",
                [](RowCase& c) { c.tensors[0].type = "F16"; }},
        BadCase{"tensor value [2, 3, 64]: it must have the dimensions [batch, tokens, kv_heads, value_dim]",
                [](RowCase& c) {
                  c.tensors[1].shape = {2, 3, 64};
                }},
        BadCase{"tensor key [384]: it must have the dimensions", [](RowCase& c) { c.tensors[0].shape = {384}; }},
        BadCase{"accepted beside the other tensors: [2, 3, 2, 64]", [](RowCase& c) { c.tensors[1].shape[1] = 2; }},
        BadCase{"tensor key_cache [2, 4, 1, 64]: it must have the dimensions",
                [](RowCase& c) { c.tensors[2].shape[2] = 1; }},
        BadCase{"key_cache alone: a launch writes both caches",
                [](RowCase& c) { c.tensors.erase(c.tensors.begin() + 3); }},
        BadCase{"tensors without value: kv_append needs key and value",
                [](RowCase& c) { c.tensors.erase(c.tensors.begin() + 1); }},
        BadCase{"tensor query: kv_append has no such input", [](RowCase& c) { c.tensors[4].name = "query"; }},
        BadCase{"tensor lengths of type I64: it must be I32", [](RowCase& c) { c.tensors[4].type = "I64"; }},
        BadCase{"tensor positions [2]: it must have the dimensions [batch, tokens]",
                [](RowCase& c) { c.tensors[4].name = "positions"; }},
        BadCase{"a case without cosines and sines: the descriptor rotates",
                [](RowCase& c) { c.text += ",rotary=half_split"; }},
        BadCase{"number speed: kv_append has no such launch argument", [](RowCase& c) { c.numbers["speed"] = 1; }},
        BadCase{"max_length = 0.5: it is not a number that is accepted",
                [](RowCase& c) { c.numbers["max_length"] = 0.5; }}));

TEST(KvGatherProblem, GivesTheRowsOfEachSequence) {
  const RowCase one;
  std::vector<std::int32_t> from = {1, 3};
  std::vector<std::int32_t> to = {3, 9};
  std::vector<Tensor> tensors = {one.tensors[2], one.tensors[3]};
  tensors.push_back({"from", "I32", {2}, {}, from.data()});
  tensors.push_back({"to", "I32", {2}, {}, to.data()});
  const auto problem = find_problems("kv_gather").problem("kv_gather:head_dim=64,output=fp16", tensors, {});
  ASSERT_EQ(problem->outputs()[0].shape, (std::vector<std::int64_t>{2, 2, 2, 64}));
  EXPECT_EQ(problem->bytes_read(), 2u * 3 * 2 * 128 + 16);
  std::vector<std::uint16_t> expected(2 * 2 * 2 * 64, 0x4000);              // 2.0 in both types
  std::fill(expected.begin() + 3 * 128, expected.end(), std::uint16_t{0});  // sequence 1 has only one token
  const void* got[] = {expected.data(), expected.data()};
  EXPECT_EQ(problem->compare(got).error, 0);
}

TEST(KvGatherProblem, FindsRowsThroughThePageTable) {
  PagedCase one;
  std::fill(one.cache.begin() + 2 * 256, one.cache.begin() + 3 * 256, std::uint16_t{0x3f80});  // page 2 is sequence 0's
  std::vector<Tensor> tensors = {one.tensors[2], one.tensors[3], one.tensors.back()};
  const auto problem = find_problems("kv_gather").problem("kv_gather:head_dim=64,cache=paged", tensors, {});
  ASSERT_EQ(problem->outputs()[0].shape, (std::vector<std::int64_t>{2, 4, 2, 64}));
  std::vector<std::uint16_t> expected(2 * 4 * 128, 0x4000);
  std::fill(expected.begin(), expected.begin() + 256, std::uint16_t{0x3f80});
  std::fill(expected.begin() + 256, expected.begin() + 512, std::uint16_t{0});  // page 7 is none
  const void* got[] = {expected.data(), expected.data()};
  EXPECT_EQ(problem->compare(got).error, 0);
  EXPECT_EQ(problem->bytes_written(), 2u * 6 * 2 * 128);
}

TEST(KvRowsProblem, SizesThatAreNotKnownAreRefused) {
  for (const Numbers& sizes : {Numbers{{"bach", 1}}, Numbers{{"tokens", 0}}, Numbers{{"rotary_dim", 32}},
                               Numbers{{"pattern", 6}}, Numbers{{"batch", 1 << 20}, {"context", 1 << 27}}}) {
    EXPECT_THROW(find_problems("kv_append").random("kv_append", sizes, 1), Failure);
    EXPECT_THROW(find_problems("kv_gather").random("kv_gather", sizes, 1), Failure);
  }
}

TEST(KvRowsBench, CasesAreCanonicalAndTheirSizesThoseOfRandomData) {
  for (const char* op : {"kv_append", "kv_gather"}) {
    for (const BenchCase& one : find_problems(op).bench_cases()) {
      EXPECT_EQ(find_operator(op).canonical(one.descriptor), one.descriptor);
      Numbers sizes = one.sizes;
      sizes.at("context") = 16;
      sizes.at("tokens") = 1;
      EXPECT_GT(find_problems(op).random(one.descriptor, sizes, 1)->bytes_written(), 0u) << one.descriptor;
    }
  }
}

// A floor copies as many bytes as the case: the 16-bit rows, and keys and values as each is stored.
TEST(KvRowsBench, FloorsOfMixedCachesAreThoseOfBothFormats) {
  struct Floor {
    const char* fields;
    std::size_t dense;   ///< bytes of a key and a value of 16 bits
    std::size_t stored;  ///< bytes of a key and a value in the cache, with their scales
  };
  constexpr Floor kFloors[] = {{":kv=fp8_e4m3,value=int4_rows,value_groups=4", 512, 128 + 4 + 64 + 16},
                               {":value=fp8_e4m3", 512, 256 + 128 + 4},
                               {":head_dim=192,value_dim=128", 640, 384 + 256}};
  constexpr std::size_t kTokens = 16;
  for (const char* op : {"kv_append", "kv_gather"}) {
    const bool appends = op == std::string("kv_append");
    for (const Floor& floor : kFloors) {
      const std::string text = std::string(op) + floor.fields;
      const auto cases = find_problems(op).bench_cases();
      ASSERT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const auto& one) { return one.descriptor == text; }))
          << text;
      const auto problem = find_problems(op).random(text, {{"batch", 1}, {"tokens", kTokens}, {"context", kTokens}}, 1);
      EXPECT_EQ(problem->bytes_read(), kTokens * (appends ? floor.dense : floor.stored)) << text;
      EXPECT_EQ(problem->bytes_written(), kTokens * (appends ? floor.stored : floor.dense)) << text;
    }
  }
}

}  // namespace
}  // namespace cubit::check
