// Rows of a KV cache as the reference computes them: the channels that a rotation changes, and the bits of each format.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "check/kv_append/problem.hpp"
#include "check/kv_cache/row_values.hpp"
#include "ops/kv_append/kv_append.hpp"
#include "ops/kv_cache/row_format.hpp"

namespace cubit::ops {
namespace {

TEST(KvRowsRotation, TurnsThePairsOfEachKindAndNothingElse) {
  const float cosines[] = {0, 1, -1, 0.5f, 1, 1, 1, 1};
  const float sines[] = {1, 0, 0, 2, 0, 0, 0, 0};
  std::vector<float> row(32);
  for (int i = 0; i < 32; ++i) row[i] = static_cast<float>(i + 1);
  std::vector<float> interleaved = row;
  check::kv_append::rotate_row(Rotary::interleaved, 16, cosines, sines, interleaved.data());
  EXPECT_EQ(std::vector<float>(interleaved.begin(), interleaved.begin() + 8),
            (std::vector<float>{-2, 1, 3, 4, -5, -6, 3.5f - 16, 4 + 14}));
  std::vector<float> half_split = row;
  check::kv_append::rotate_row(Rotary::half_split, 16, cosines, sines, half_split.data());
  EXPECT_EQ(half_split[0], -9);
  EXPECT_EQ(half_split[8], 1);
  EXPECT_EQ(half_split[2], -3);
  EXPECT_EQ(half_split[3], 2 - 24);
  EXPECT_EQ(half_split[11], 6 + 8);
  for (int i = 16; i < 32; ++i) EXPECT_EQ(interleaved[i], row[i]);
  for (int i = 16; i < 32; ++i) EXPECT_EQ(half_split[i], row[i]);
}

TEST(KvRowsFormat, AShiftOfZeroIsPositiveWhicheverZeroComesFirst) {
  const kv_cache::RowFormat format{64, KvFormat::int4_rows, 1};
  std::vector<float> row(64, 0.f);
  std::vector<char> plus(format.row_bytes());
  std::vector<char> minus(format.row_bytes());
  row[1] = 15;
  check::kv_cache::quantise_row(format, row.data(), plus.data());
  row[0] = -0.f;
  check::kv_cache::quantise_row(format, row.data(), minus.data());
  EXPECT_EQ(plus, minus);
  EXPECT_EQ(plus[3], 0);
  EXPECT_EQ(plus[4], '\xf0');
  std::fill(row.begin(), row.end(), -0.f);
  check::kv_cache::quantise_row(format, row.data(), minus.data());
  EXPECT_EQ(minus, std::vector<char>(format.row_bytes(), 0)) << "scale and shift are +0";
}

/// The widest group with a defined result. For wider groups, highest - lowest is not a finite float.
TEST(KvRowsFormat, AGroupAsWideAsTheLargestFloatHasItsEnds) {
  const kv_cache::RowFormat format{64, KvFormat::int4_rows, 1};
  constexpr float kHalf = std::numeric_limits<float>::max() / 2;
  std::vector<float> row(64, -kHalf);
  row[1] = kHalf;
  std::vector<char> stored(format.row_bytes());
  check::kv_cache::quantise_row(format, row.data(), stored.data());
  std::vector<char> expected(format.row_bytes(), 0);
  const std::uint16_t header[] = {0x7bff, 0xfbff};  // 65504 and -65504
  std::memcpy(expected.data(), header, 4);
  expected[4] = '\xf0';
  EXPECT_EQ(stored, expected);
}

/// The bytes of a quantised row and of its scales.
struct Quantised {
  std::vector<char> bytes;
  std::vector<char> scales;
};
Quantised quantised(const kv_cache::RowFormat& format, const std::vector<float>& row, std::vector<char> scales = {}) {
  Quantised made{std::vector<char>(format.row_bytes()), std::move(scales)};
  made.scales.resize(format.groups * format.scale_bytes());
  check::kv_cache::quantise_row(format, row.data(), made.bytes.data(), made.scales.data());
  return made;
}
std::vector<char> bytes_of(float scale) {
  std::vector<char> bytes(4);
  std::memcpy(bytes.data(), &scale, 4);
  return bytes;
}

TEST(KvRowsFormat, SignedBytesRoundHalvesToEvenAndReachTheirEnds) {
  std::vector<float> row(64, 0.f);
  const std::vector<float> first = {127, -127, 0.5f, 1.5f, -2.5f, 126.5f, -0.49f};
  std::copy(first.begin(), first.end(), row.begin());
  const auto made = quantised({64, KvFormat::int8_split}, row);
  EXPECT_EQ(made.scales, bytes_of(1.f));
  EXPECT_EQ(std::vector<char>(made.bytes.begin(), made.bytes.begin() + 8),
            (std::vector<char>{127, -127, 0, 2, -2, 126, 0, 0}));
}

TEST(KvRowsFormat, GivenScalesClampAndAZeroScaleGivesZeros) {
  kv_cache::RowFormat format{64, KvFormat::int8_split, 1, KvScales::tensor};
  std::vector<float> row(64, 1000.f);
  row[1] = -1000.f;
  const auto clamped = quantised(format, row, bytes_of(0.5f));
  EXPECT_EQ(clamped.scales, bytes_of(0.5f)) << "is not the row's";
  EXPECT_EQ(clamped.bytes[0], 127);
  EXPECT_EQ(clamped.bytes[1], -127);
  EXPECT_EQ(quantised(format, row, bytes_of(0.f)).bytes, std::vector<char>(64, 0));
  // 1e-8 is the smallest scale, but fp16 has no positive number below 2^-24.
  format = {64, KvFormat::int8_split, 1, KvScales::head, ScaleType::fp16};
  const auto tiny = quantised(format, std::vector<float>(64, 1e-9f));
  EXPECT_EQ(tiny.bytes, std::vector<char>(64, 0));
  EXPECT_EQ(tiny.scales, std::vector<char>(2, 0));
}

constexpr float kNanFloat = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfiniteFloat = std::numeric_limits<float>::infinity();

/// A scale that is written is NaN for a group with an infinity or NaN, and the group's bytes are 0.
TEST(KvRowsFormat, AGroupWithAnInfinityOrNanHasTheScaleNan) {
  const std::vector<char> nan32 = {0, 0, '\xc0', 0x7f};
  const std::vector<char> nan16 = {0, 0x7e};
  for (const float none : {kNanFloat, -kNanFloat, kInfiniteFloat, -kInfiniteFloat}) {
    std::vector<float> row(64, 1.f);
    row[40] = none;
    for (const KvFormat kv : {KvFormat::int8_split, KvFormat::fp8_e4m3, KvFormat::fp8_e5m2}) {
      const auto made = quantised({64, kv, 1}, row);
      EXPECT_EQ(made.bytes, std::vector<char>(64, 0)) << none;
      EXPECT_EQ(made.scales, nan32) << none;
      const auto halves = quantised({64, kv, 2, KvScales::group, ScaleType::fp16}, row);
      EXPECT_EQ(std::vector<char>(halves.bytes.begin() + 32, halves.bytes.end()), std::vector<char>(32, 0)) << none;
      EXPECT_NE(halves.bytes[0], 0);
      EXPECT_EQ(std::vector<char>(halves.scales.begin() + 2, halves.scales.end()), nan16) << none;
    }
    const std::vector<char> made = quantised({64, KvFormat::int4_rows, 1}, row).bytes;
    EXPECT_EQ(std::vector<char>(made.begin(), made.begin() + 4), (std::vector<char>{0, 0x7e, 0, 0x7e})) << none;
    EXPECT_EQ(std::vector<char>(made.begin() + 4, made.end()), std::vector<char>(32, 0)) << none;
  }
}

/// A scale that is only read cannot become NaN. fp8 has a NaN of its own, and int8 has none.
TEST(KvRowsFormat, AnInfinityOrNanBesideAScaleThatIsRead) {
  std::vector<float> row(64, 1.f);
  std::copy_n(std::vector{kNanFloat, -kNanFloat, kInfiniteFloat, -kInfiniteFloat}.begin(), 4, row.begin());
  for (const KvFormat kv : {KvFormat::fp8_e4m3, KvFormat::fp8_e5m2}) {
    const auto made = quantised({64, kv, 1, KvScales::tensor}, row, bytes_of(1.f));
    EXPECT_EQ(std::vector<char>(made.bytes.begin(), made.bytes.begin() + 4), std::vector<char>(4, 0x7f));
    EXPECT_EQ(quantised({64, kv, 1, KvScales::tensor}, row, bytes_of(kNanFloat)).bytes, std::vector<char>(64, 0x7f));
  }
  const auto made = quantised({64, KvFormat::int8_split, 1, KvScales::tensor}, row, bytes_of(1.f));
  EXPECT_EQ(std::vector<char>(made.bytes.begin(), made.bytes.begin() + 4), (std::vector<char>{0, 0, 127, -127}));
  EXPECT_EQ(quantised({64, KvFormat::int8_split, 1, KvScales::tensor}, row, bytes_of(kNanFloat)).bytes,
            std::vector<char>(64, 0));
}

// OCP 8-bit Floating Point Specification, table 1: e4m3 has exponents -6 … 8 and no infinity, e5m2 -14 … 15.
TEST(KvRowsFormat, EveryFp8NumberIsStoredAsItselfAndReadBack) {
  for (const KvFormat kv : {KvFormat::fp8_e4m3, KvFormat::fp8_e5m2}) {
    const kv_cache::RowFormat format{64, kv, 1, KvScales::tensor};
    const int numbers = kv == KvFormat::fp8_e4m3 ? 0x7f : 0x7c;  // then NaN, or infinity and NaNs
    double last = -1;
    for (int code = 0; code < numbers; ++code) {
      const std::vector<char> bytes(64, static_cast<char>(code));
      std::vector<double> values(64);
      check::kv_cache::dequantise_row(format, bytes.data(), values.data(), bytes_of(1.f).data());
      ASSERT_GT(values[0], last);
      last = values[0];
      std::vector<float> row(64, static_cast<float>(values[0]));
      ASSERT_EQ(quantised(format, row, bytes_of(1.f)).bytes, bytes) << code;
      // A value halfway to the next number rounds to the even one.
      if (code + 1 == numbers) continue;
      std::vector<double> next(64);
      check::kv_cache::dequantise_row(format, std::vector<char>(64, static_cast<char>(code + 1)).data(), next.data(),
                                      bytes_of(1.f).data());
      row.assign(64, static_cast<float>((values[0] + next[0]) / 2));
      ASSERT_EQ(quantised(format, row, bytes_of(1.f)).bytes[0], static_cast<char>(code + code % 2)) << code;
      ASSERT_EQ(quantised(format, row, bytes_of(-1.f)).bytes[0], static_cast<char>(0x80 | (code + code % 2))) << code;
    }
    EXPECT_EQ(last, format.largest());
  }
}

TEST(KvRowsFormat, CodesThatAreNoNumbersAreReadAsNone) {
  const auto value_of = [](KvFormat kv, int code) {
    std::vector<double> values(64);
    check::kv_cache::dequantise_row({64, kv, 1, KvScales::tensor},
                                    std::vector<char>(64, static_cast<char>(code)).data(), values.data(),
                                    bytes_of(1.f).data());
    return values[0];
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const int sign : {0, 0x80}) {
    EXPECT_TRUE(std::isnan(value_of(KvFormat::fp8_e4m3, sign | 0x7f)));
    EXPECT_EQ(value_of(KvFormat::fp8_e5m2, sign | 0x7c), sign == 0 ? kInfinity : -kInfinity);
    for (const int code : {0x7d, 0x7e, 0x7f}) EXPECT_TRUE(std::isnan(value_of(KvFormat::fp8_e5m2, sign | code)));
  }
}

TEST(KvRowsFormat, GroupsHaveScalesOfTheirOwn) {
  const kv_cache::RowFormat format{64, KvFormat::fp8_e4m3, 2, KvScales::group};
  std::vector<float> row(64, 448.f);
  std::fill(row.begin() + 32, row.end(), 0.f);
  row[40] = 4480.f;
  const auto made = quantised(format, row);
  std::vector<char> scales = bytes_of(1.f);
  const auto second = bytes_of(10.f);
  scales.insert(scales.end(), second.begin(), second.end());
  EXPECT_EQ(made.scales, scales);
  EXPECT_EQ(made.bytes[0], 0x7e);
  EXPECT_EQ(made.bytes[40], 0x7e);
  EXPECT_EQ(made.bytes[41], 0);
  row[41] = -0.f;
  EXPECT_EQ(quantised(format, row).bytes[41], 0) << "-0 is +0";
}

}  // namespace
}  // namespace cubit::ops
