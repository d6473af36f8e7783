// Implements tensor-core sums: splits numbers, aligns products, and sums them as integers.
#include "runtime/cpu/arithmetic/tensor_core.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace cubit::runtime::cpu {
namespace {

// Sorted by first_sm. sm_100 and sm_120 sum 16-bit formats like sm_90.
constexpr TensorCore kTensorCores[] = {
    {75, false, 24, 8, 23, false},  {80, false, 24, 8, 23, false}, {89, true, 13, 8, 13, false},
    {90, false, 25, 16, 23, false}, {90, true, 25, 16, 23, true},  {100, true, 25, 16, 23, false},
};

// wgmma of sm_90a with 8-bit formats.
constexpr TensorCore kWarpgroupOf8Bits = {90, true, 13, 16, 13, false};

constexpr int kColumns = 8;
constexpr int kMaxRows = 16;
constexpr int kMaxK = 64;
constexpr int kNoExponent = -0x4000;  ///< exponent of zero, below every other exponent even in sums

using Columns = std::int32_t __attribute__((vector_size(4 * kColumns)));

/// The numbers of one operand, ordered by k. A number is significand · 2^(exponent - mantissa bits).
struct Factors {
  std::array<std::int32_t, kMaxRows * kMaxK> significands;
  std::array<std::int32_t, kMaxRows * kMaxK> exponents;
  std::uint32_t special = 0;  ///< rows or columns with an infinity or NaN, as bits
};

struct Number {
  std::int32_t significand;
  std::int32_t exponent;
  bool special;
};

int exponent_bits(const FormatFacts& format) { return std::bit_width(static_cast<unsigned>(format.bias)) + 1; }

inline Number parts_of(const FormatFacts& format, int exponent_width, std::uint32_t bits) {
  const std::uint32_t mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const std::uint32_t top = (1U << exponent_width) - 1;
  const std::uint32_t field = bits >> format.mantissa_bits & top;
  const bool special =
      // e4m3: the largest exponent field holds numbers, and only the all-ones mantissa is NaN
      field == top && (format.has_infinity || mantissa == (1U << format.mantissa_bits) - 1);
  const std::uint32_t magnitude = field == 0 ? mantissa : mantissa | 1U << format.mantissa_bits;
  const auto significand = static_cast<std::int32_t>(magnitude);
  const bool negative = (bits >> (format.mantissa_bits + exponent_width) & 1) != 0;
  const int exponent = std::max(static_cast<int>(field), 1) - format.bias;
  return {negative ? -significand : significand, magnitude == 0 ? kNoExponent : exponent, special};
}

/// Position of element i along k. For 8-bit formats that become f16, the lower halves of all registers come first, then
/// the upper halves.
int place_of(const TensorCore& core, int k, int i) {
  if (!core.through_f16) return i;
  return (i % 4 < 2 ? 0 : k / 2) + i / 4 * 2 + i % 2;
}

/// Splits numbers into significands and exponents. With `by_row`, the numbers of one row are contiguous; otherwise the
/// numbers of one k are.
void split(const TensorCore& core, Format format, const std::uint32_t* bits, int rows, int k, bool by_row,
           Factors& dst) {
  const FormatFacts& factor = facts(core.through_f16 ? Format::f16 : format);
  const int width = exponent_bits(factor);
  const int unused = format == Format::tf32 ? 13 : 0;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < k; ++i) {
      std::uint32_t value = bits[row * k + i] >> unused;
      if (core.through_f16)
        value = static_cast<std::uint32_t>(encode(Format::f16, decode(format, value), Rounding::nearest));
      const Number number = parts_of(factor, width, value);
      const int place = place_of(core, k, i);
      const auto at = static_cast<std::size_t>(by_row ? row * k + place : place * rows + row);
      dst.significands[at] = number.significand;
      dst.exponents[at] = number.exponent;
      if (number.special) dst.special |= 1U << row;
    }
  }
}

/// Facts that all sums of an instruction share.
struct Plan {
  int fraction_bits;
  int product_shift;  ///< shift from the last bit of a product's significand to the last bit of the sum
  Format result;
  int result_bits;
};

/// Truncates significand · 2^exponent to f32, or rounds it to f16.
std::uint32_t packed(const Plan& plan, std::int64_t significand, int exponent) {
  if (significand == 0) return 0;
  const bool is_half = plan.result == Format::f16;
  const int mantissa_bits = is_half ? 10 : 23;
  const int bias = is_half ? 15 : 127;
  const bool negative = significand < 0;
  const auto magnitude = static_cast<std::uint64_t>(negative ? -significand : significand);
  const int leading = exponent + static_cast<int>(std::bit_width(magnitude)) - 1;
  const int last = std::max(leading, 1 - bias) - mantissa_bits;  // exponent of the result's last bit
  const int lost = last - exponent;
  std::uint64_t kept = lost <= 0 ? magnitude << -lost : lost > 63 ? 0 : magnitude >> lost;
  if (is_half && lost > 0 && lost <= 63) {
    const std::uint64_t rest = magnitude & ((1ULL << lost) - 1);
    const std::uint64_t half = 1ULL << (lost - 1);
    kept += rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0;
  }
  if (!is_half && plan.result_bits < mantissa_bits) kept &= ~0ULL << (mantissa_bits - plan.result_bits);
  // A carry out of the mantissa increments the exponent.
  const std::uint64_t hidden = 1ULL << mantissa_bits;
  std::uint64_t bits =
      kept < hidden ? kept
                    : (static_cast<std::uint64_t>(last + mantissa_bits + bias) << mantissa_bits) + (kept - hidden);
  const std::uint64_t infinity = static_cast<std::uint64_t>(2 * bias + 1) << mantissa_bits;
  bits = std::min(bits, infinity);
  return static_cast<std::uint32_t>(bits | (negative ? (infinity + hidden) : 0));
}

/// Aligns a term to the largest exponent; truncates towards zero.
std::int64_t aligned(const Number& addend, const Plan& plan, int mantissa_bits, int largest) {
  const int shift = plan.fraction_bits - mantissa_bits - (largest - addend.exponent);
  const std::int64_t magnitude = std::abs(std::int64_t{addend.significand});
  const std::int64_t moved = shift >= 0 ? magnitude << shift : shift < -31 ? 0 : magnitude >> -shift;
  return addend.significand < 0 ? -moved : moved;
}

/// Sums one row with all columns. `a` is the row. `b` holds, for each k, all columns.
[[gnu::always_inline]] inline void sums_of_row(const Plan& plan, const std::int32_t* a, const std::int32_t* a_exponents,
                                               const std::int32_t* b, const std::int32_t* b_exponents, int terms,
                                               std::uint32_t* c) {
  const FormatFacts& result = facts(plan.result);
  const int width = exponent_bits(result);
  std::array<Number, kColumns> addends;
  Columns largest;
  for (int n = 0; n < kColumns; ++n) {
    addends[static_cast<std::size_t>(n)] = parts_of(result, width, c[n]);
    largest[n] = addends[static_cast<std::size_t>(n)].exponent;
  }
  const auto* const columns = reinterpret_cast<const Columns*>(b);
  const auto* const exponents = reinterpret_cast<const Columns*>(b_exponents);
  for (int i = 0; i < terms; ++i) {
    const Columns exponent = exponents[i] + a_exponents[i];
    largest = exponent > largest ? exponent : largest;
  }
  // The sum of eight terms stays below 2^31, because a product is below 4 and the sum has at most 25 bits.
  std::array<std::int64_t, kColumns> sums{};
  for (int first = 0; first < terms; first += 8) {
    Columns sum{};
    for (int i = first; i < std::min(first + 8, terms); ++i) {
      const Columns product = (columns[i] * a[i]) << plan.product_shift;
      Columns distance = largest - (exponents[i] + a_exponents[i]);
      distance = distance > 31 ? Columns{} + 31 : distance;
      // A right shift rounds negative numbers down. Adding the shifted-out bits' mask first makes it round towards
      // zero.
      const Columns below = ~((Columns{} - 1) << distance);
      sum += (product + ((product >> 31) & below)) >> distance;
    }
    for (int n = 0; n < kColumns; ++n) sums[static_cast<std::size_t>(n)] += sum[n];
  }
  for (int n = 0; n < kColumns; ++n) {
    const auto at = static_cast<std::size_t>(n);
    const std::int64_t addend =
        addends[at].significand == 0 ? 0 : aligned(addends[at], plan, result.mantissa_bits, largest[n]);
    c[n] = packed(plan, sums[at] + addend, largest[n] - plan.fraction_bits);
  }
}

using SumsOfRow = void (*)(const Plan& plan, const std::int32_t* a, const std::int32_t* a_exponents,
                           const std::int32_t* b, const std::int32_t* b_exponents, int terms, std::uint32_t* c);

void plain_sums(const Plan& plan, const std::int32_t* a, const std::int32_t* a_exponents, const std::int32_t* b,
                const std::int32_t* b_exponents, int terms, std::uint32_t* c) {
  sums_of_row(plan, a, a_exponents, b, b_exponents, terms, c);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void wide_sums(const Plan& plan, const std::int32_t* a, const std::int32_t* a_exponents,
                                       const std::int32_t* b, const std::int32_t* b_exponents, int terms,
                                       std::uint32_t* c) {
  sums_of_row(plan, a, a_exponents, b, b_exponents, terms, c);
}
SumsOfRow best_sums() { return __builtin_cpu_supports("avx2") ? wide_sums : plain_sums; }
#else
SumsOfRow best_sums() { return plain_sums; }
#endif

/// The operands of one instruction, split once.
struct Operands {
  const TensorCore& core;
  const MatrixShape& shape;
  const std::uint32_t* a;
  const std::uint32_t* b;
  Factors rows;
  Factors columns;
};

/// The result of a sum with an infinity or NaN is an infinity or NaN.
std::uint32_t special_sum(const Operands& operands, int row, int column, int first, int terms, std::uint32_t addend) {
  const MatrixShape& shape = operands.shape;
  double sum = decode(shape.c, addend);
  for (int i = 0; i < shape.k; ++i) {
    const int place = place_of(operands.core, shape.k, i);
    if (place < first || place >= first + terms) continue;
    sum += decode(shape.a, operands.a[row * shape.k + i]) * decode(shape.b, operands.b[column * shape.k + i]);
  }
  return static_cast<std::uint32_t>(encode(shape.c, sum, Rounding::nearest));
}

bool is_special(const FormatFacts& format, std::uint32_t bits) {
  const std::uint32_t infinity = ((1U << exponent_bits(format)) - 1) << format.mantissa_bits;
  return (bits & infinity) == infinity;
}

/// Adds `terms` products from position `first` on to one row of results.
void add_part(const Operands& operands, const Plan& plan, SumsOfRow sums, int row, int first, int terms,
              std::uint32_t* c) {
  const FormatFacts& result = facts(plan.result);
  const bool special_row = (operands.rows.special >> row & 1) != 0;
  std::array<std::uint32_t, kColumns> specials{};
  std::uint32_t special = 0;
  for (int n = 0; n < kColumns; ++n) {
    if (!special_row && (operands.columns.special >> n & 1) == 0 && !is_special(result, c[n])) continue;
    special |= 1U << n;
    specials[static_cast<std::size_t>(n)] = special_sum(operands, row, n, first, terms, c[n]);
  }
  const auto at = static_cast<std::size_t>(row * operands.shape.k + first);
  const auto column = static_cast<std::size_t>(first * kColumns);
  sums(plan, operands.rows.significands.data() + at, operands.rows.exponents.data() + at,
       operands.columns.significands.data() + column, operands.columns.exponents.data() + column, terms, c);
  for (int n = 0; n < kColumns; ++n) {
    // The special factor may lie in another part of k; this part is then finite.
    if ((special >> n & 1) != 0) c[n] = specials[static_cast<std::size_t>(n)];
  }
}

std::uint32_t rounded_sum(Format format, std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(
      encode(format, add_to_odd(decode(format, a), decode(format, b)), Rounding::nearest));
}

}  // namespace

const TensorCore& tensor_core(int sm, Format factor) {
  const bool eight_bits = facts(factor).bits == 8;
  const TensorCore* found = &kTensorCores[0];
  for (const TensorCore& row : kTensorCores) {
    if (row.first_sm <= sm && row.eight_bits == eight_bits) found = &row;
  }
  return *found;
}

const TensorCore& warpgroup_tensor_core(Format factor) {
  constexpr int kHopper = 90;
  return facts(factor).bits == 8 ? kWarpgroupOf8Bits : tensor_core(kHopper, factor);
}

void multiply_add(const TensorCore& core, const MatrixShape& shape, const std::uint32_t* a, const std::uint32_t* b,
                  std::uint32_t* c) {
  static const SumsOfRow kSums = best_sums();
  Operands operands{core, shape, a, b, {}, {}};
  split(core, shape.a, a, shape.m, shape.k, true, operands.rows);
  split(core, shape.b, b, kColumns, shape.k, false, operands.columns);
  const auto mantissa = [&](Format format) { return core.through_f16 ? 10 : facts(format).mantissa_bits; };
  const Plan plan{core.fraction_bits, core.fraction_bits - mantissa(shape.a) - mantissa(shape.b), shape.c,
                  core.result_bits};
  const int factor_bits = shape.a == Format::tf32 ? 32 : core.through_f16 ? 16 : facts(shape.a).bits;
  const int terms = std::min(core.terms_of_16_bits * 16 / factor_bits, shape.k);
  for (int row = 0; row < shape.m; ++row) {
    std::array<std::uint32_t, kColumns> sums{};
    std::uint32_t* const results = c + row * kColumns;
    std::uint32_t* const target = core.through_f16 ? sums.data() : results;
    for (int first = 0; first < shape.k; first += terms) add_part(operands, plan, kSums, row, first, terms, target);
    if (!core.through_f16) continue;
    for (int n = 0; n < kColumns; ++n) results[n] = rounded_sum(shape.c, results[n], target[n]);
  }
}

double sum_bound(const TensorCore& core, int terms, double largest) {
  return std::ldexp(largest * terms, -core.fraction_bits);
}

}  // namespace cubit::runtime::cpu
