// Tests of the reference: number conversions of all 16-bit patterns, the INT4 quantiser against its definition, and
// attention for cases that can be worked out by hand and for several query rows at once.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "check/gqa_decode/problem.hpp"
#include "check/random.hpp"

namespace cubit::check::gqa_decode {
namespace {

TEST(Conversions, EveryPatternComesBack) {
  for (const Element element : {Element::bf16, Element::fp16}) {
    for (int bits = 0; bits < 65536; ++bits) {
      const double value = to_double(element, static_cast<std::uint16_t>(bits));
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(to_double(element, from_float(element, static_cast<float>(value)))));
      } else {
        EXPECT_EQ(from_float(element, static_cast<float>(value)), bits) << value;
      }
    }
  }
}

#ifdef __FLT16_MAX__
TEST(Conversions, HalfAgreesWithTheCompilersType) {
  Random random(3);
  for (int i = 0; i < 1000000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    if (std::isnan(value)) continue;
    const auto expected = std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
    ASSERT_EQ(from_float(Element::fp16, value), expected) << value;
  }
}
#endif

TEST(Conversions, RoundHalfToEven) {
  EXPECT_EQ(from_float(Element::fp16, 1.f + 0x1p-11f), 0x3c00);  // halfway between 1 and the next number; 1 is even
  EXPECT_EQ(from_float(Element::fp16, 1.f + 0x3p-11f), 0x3c02);
  EXPECT_EQ(from_float(Element::fp16, 65519.f), 0x7bff);
  EXPECT_EQ(from_float(Element::fp16, 65520.f), 0x7c00);
  EXPECT_EQ(from_float(Element::fp16, 0x1p-25f), 0x0000);
  EXPECT_EQ(from_float(Element::fp16, 0x1.8p-25f), 0x0001);
  EXPECT_EQ(from_float(Element::bf16, 1.f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(from_float(Element::bf16, 1.f + 0x3p-8f), 0x3f82);
}

std::vector<double> through_int4(const std::vector<float>& row, int groups) {
  const kv_cache::RowFormat format{static_cast<int>(row.size()), KvFormat::int4_rows, groups};
  std::vector<char> bytes(format.row_bytes());
  kv_cache::quantise_row(format, row.data(), bytes.data());
  std::vector<double> result(row.size());
  kv_cache::dequantise_row(format, bytes.data(), result.data());
  return result;
}

TEST(Int4Rows, BytesAreAsTheFormatSays) {
  // One group of 0 … 15, four times: scale 1, shift 0, nibble i of a run is i, low nibble first.
  std::vector<float> row(64);
  for (int i = 0; i < 64; ++i) row[i] = static_cast<float>(i % 16);
  std::vector<char> bytes(4 + 32);
  kv_cache::quantise_row({64, KvFormat::int4_rows, 1}, row.data(), bytes.data());
  const std::vector<std::uint8_t> expected_start = {0x00, 0x3c, 0x00, 0x00, 0x10, 0x32,
                                                    0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
  EXPECT_EQ(std::vector<std::uint8_t>(bytes.begin(), bytes.begin() + 12), expected_start);
}

TEST(Int4Rows, AreWithinHalfAStepOfTheirValues) {
  Random random(11);
  for (const int groups : {1, 2, 4, 8}) {
    std::vector<float> row(128);
    for (float& x : row) x = static_cast<float>(random.normal());
    const auto values = through_int4(row, groups);
    const int width = 128 / groups;
    for (int i = 0; i < 128; ++i) {
      const auto [lo, hi] = std::minmax_element(row.begin() + i / width * width, row.begin() + (i / width + 1) * width);
      // The tolerance is half a step plus the fp16 rounding of scale and shift.
      EXPECT_NEAR(values[i], row[i], (*hi - *lo) / 15 * 0.5 + 4e-3);
    }
  }
}

TEST(Int4Rows, AConstantGroupIsItsShift) {
  const auto values = through_int4(std::vector<float>(128, 2.5f), 4);
  for (const double value : values) EXPECT_EQ(value, 2.5);
}

TEST(Int4Rows, SaturateInsteadOfBecomingInfinite) {
  std::vector<float> row(64, -1e6f);
  row[7] = 1e6f;
  for (const double value : through_int4(row, 1)) EXPECT_TRUE(std::isfinite(value));
}

/// Rows of a bf16 cache made from floats.
std::vector<std::uint16_t> bf16_rows(const std::vector<float>& values) {
  std::vector<std::uint16_t> rows;
  for (const float value : values) rows.push_back(from_float(Element::bf16, value));
  return rows;
}

HeadRows bf16_head(const std::vector<std::uint16_t>& rows) {
  return {[&rows](int token) { return reinterpret_cast<const char*>(rows.data()) + 128 * token; }};
}

TEST(Reference, EqualScoresAverageTheValues) {
  GqaDecode descriptor;
  descriptor.head_dim = 64;
  const auto keys = bf16_rows(std::vector<float>(4 * 64, 1.f));
  std::vector<float> raw(4 * 64);
  for (int token = 0; token < 4; ++token) std::fill_n(raw.begin() + token * 64, 64, static_cast<float>(token));
  const auto values = bf16_rows(raw);
  const std::vector<double> query(64, 0.5);
  const auto result = reference_head(descriptor, query.data(), bf16_head(keys), bf16_head(values), 4, 0.125);
  for (const double x : result.output) EXPECT_DOUBLE_EQ(x, 1.5);
  EXPECT_NEAR(result.lse, 0.125 * 32 + std::log(4.0), 1e-12);
}

TEST(Reference, TwoTokensFollowTheSigmoid) {
  GqaDecode descriptor;
  descriptor.head_dim = 64;
  std::vector<float> key(2 * 64, 0.f);
  key[0] = 3.f;
  std::vector<float> value(2 * 64, 0.f);
  std::fill_n(value.begin(), 64, 1.f);
  const auto keys = bf16_rows(key);
  const auto values = bf16_rows(value);
  std::vector<double> query(64, 0.0);
  query[0] = 1;
  const auto result = reference_head(descriptor, query.data(), bf16_head(keys), bf16_head(values), 2, 1.0);
  EXPECT_NEAR(result.output[5], 1 / (1 + std::exp(-3.0)), 1e-12);
}

/// Query rows of all kinds: with a window, a sink, a slope, a cap, and one that attends to no token.
std::vector<QueryRow> different_rows(const std::vector<double>& query) {
  std::vector<QueryRow> rows(kMostQueryRows);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].channels = query.data() + 64 * i;
  rows[1].rules = {.window = 3, .kept_tokens = 2};
  rows[2].rules = {.sink = 0.5};
  rows[3].rules = {.soft_cap = 2, .alibi_slope = 0.25, .query_position = 7};
  rows[4].is_visible = [](int) { return false; };
  rows[6].is_visible = [](int position) { return position != 5; };
  return rows;
}

TEST(Reference, QueryRowsOfOneKvHeadDoNotChangeEachOther) {
  constexpr int kTokens = 11;
  GqaDecode descriptor;
  descriptor.head_dim = 64;
  descriptor.kv = KvFormat::int4_rows;
  descriptor.groups = 2;
  const kv_cache::RowFormat format = kv_cache::formats_of(descriptor).key;
  Random random(9);
  std::vector<char> cache(static_cast<std::size_t>(kTokens) * format.row_bytes());
  for (int token = 0; token < kTokens; ++token) {
    std::vector<float> row(64);
    for (float& x : row) x = static_cast<float>(random.normal());
    kv_cache::quantise_row(format, row.data(), cache.data() + token * format.row_bytes());
  }
  std::fill_n(cache.data() + 5 * format.row_bytes(), format.header_bytes(), '\xff');  // a scale and a shift of NaN
  const HeadRows rows = {[&](int token) { return cache.data() + token * format.row_bytes(); }};
  std::vector<double> query(64 * kMostQueryRows);
  for (double& x : query) x = random.normal();
  const std::vector<QueryRow> queries = different_rows(query);
  const auto bits = [](const std::vector<double>& values) {
    std::vector<std::uint64_t> result;
    for (const double value : values) result.push_back(std::isnan(value) ? 1 : std::bit_cast<std::uint64_t>(value));
    return result;
  };
  std::vector<ReferenceHead> alone;
  for (const QueryRow& one : queries)
    alone.push_back(reference_head(descriptor, one.channels, rows, rows, kTokens, 0.3, one.rules, one.is_visible));
  EXPECT_TRUE(std::isnan(alone[0].output[0]));
  EXPECT_FALSE(std::isnan(alone[6].output[0]));
  EXPECT_FALSE(std::isnan(alone[1].output[0])) << "token 5 is outside the window";
  for (std::size_t count = 1; count <= queries.size(); ++count) {
    for (std::size_t first = 0; first + count <= queries.size(); ++first) {
      const auto together =
          reference_heads(descriptor, std::span(queries).subspan(first, count), rows, rows, kTokens, 0.3);
      ASSERT_EQ(together.size(), count);
      for (std::size_t i = 0; i < count; ++i) {
        const ReferenceHead& expected = alone[first + i];
        EXPECT_EQ(bits(together[i].output), bits(expected.output));
        EXPECT_EQ(bits(together[i].contributions), bits(expected.contributions));
        EXPECT_EQ(bits({together[i].lse, together[i].token_norm, together[i].centred_norm}),
                  bits({expected.lse, expected.token_norm, expected.centred_norm}));
      }
    }
  }
}

TEST(Reference, NoTokensGiveZeros) {
  const GqaDecode descriptor;
  const std::vector<double> query(128, 1.0);
  const auto result = reference_head(descriptor, query.data(), {}, {}, 0, 1.0);
  for (const double x : result.output) EXPECT_EQ(x, 0);
  EXPECT_EQ(result.lse, -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace cubit::check::gqa_decode
