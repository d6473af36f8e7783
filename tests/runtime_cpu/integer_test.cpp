// Proves: integer and bit instructions agree with C++ on every pair (or triple) of corner values. PTX ISA, "Integer
// Arithmetic Instructions", "Logic and Shift Instructions".
#include <algorithm>
#include <functional>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using Word = std::uint32_t;
using Signed = std::int32_t;
using Expectation = std::function<Word(Word, Word, Word)>;

struct IntegerInstruction {
  const char* text;
  Expectation expected;
  int operands = 2;
};

Signed s(Word value) { return static_cast<Signed>(value); }
Word w(std::int64_t value) { return static_cast<Word>(value); }

Word shifted_left(Word a, Word b) { return b > 31 ? 0 : a << b; }

Word extracted(Word a, Word position, Word length, bool is_signed) {
  // PTX ISA, bfe: bit by bit, as in its pseudocode.
  position &= 255;
  length &= 255;
  const unsigned sign_at = std::min(position + length - 1, 31u);
  const bool sign = is_signed && length != 0 && (a >> sign_at & 1) != 0;
  Word result = 0;
  for (unsigned i = 0; i < 32; ++i) {
    const bool bit = i < length && position + i <= 31 ? (a >> (position + i) & 1) != 0 : sign;
    result |= static_cast<Word>(bit) << i;
  }
  return result;
}

std::vector<IntegerInstruction> arithmetic_instructions() {
  return {
      {"add.s32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return a + b; }},
      {"add.sat.s32 %r3, %r0, %r1;",
       [](Word a, Word b, Word) {
         return w(std::clamp<std::int64_t>(std::int64_t{s(a)} + s(b), INT32_MIN, INT32_MAX));
       }},
      {"sub.s32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return a - b; }},
      {"mul.lo.s32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return a * b; }},
      {"mul.hi.s32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return w(std::int64_t{s(a)} * s(b) >> 32); }},
      {"mul.hi.u32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return static_cast<Word>(std::uint64_t{a} * b >> 32); }},
      {"mad.lo.s32 %r3, %r0, %r1, 5;", [](Word a, Word b, Word) { return a * b + 5; }},
      {"div.u32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return b == 0 ? ~0u : a / b; }},
      {"div.s32 %r3, %r0, %r1;",
       [](Word a, Word b, Word) { return b == 0     ? ~0u
                                         : b == ~0u ? 0 - a
                                                    : static_cast<Word>(s(a) / s(b)); }},
      {"rem.u32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return b == 0 ? ~0u : a % b; }},
      {"rem.s32 %r3, %r0, %r1;",
       [](Word a, Word b, Word) { return b == 0     ? ~0u
                                         : b == ~0u ? 0
                                                    : static_cast<Word>(s(a) % s(b)); }},
      {"abs.s32 %r3, %r0;", [](Word a, Word, Word) { return s(a) < 0 ? 0 - a : a; }},
      {"neg.s32 %r3, %r0;", [](Word a, Word, Word) { return 0 - a; }},
      {"min.s32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return s(a) < s(b) ? a : b; }},
      {"max.s32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return s(a) > s(b) ? a : b; }},
      {"min.u32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return std::min(a, b); }},
      {"max.u32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return std::max(a, b); }},
  };
}

std::vector<IntegerInstruction> bit_instructions() {
  return {
      {"and.b32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return a & b; }},
      {"or.b32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return a | b; }},
      {"xor.b32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return a ^ b; }},
      {"not.b32 %r3, %r0;", [](Word a, Word, Word) { return ~a; }},
      {"cnot.b32 %r3, %r0;", [](Word a, Word, Word) { return Word{a == 0}; }},
      {"shl.b32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return shifted_left(a, b); }},
      {"shr.u32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return b > 31 ? 0 : a >> b; }},
      {"shr.s32 %r3, %r0, %r1;", [](Word a, Word b, Word) { return w(s(a) >> std::min(b, 31u)); }},
      {"shf.l.wrap.b32 %r3, %r0, %r1, %r2;",
       [](Word a, Word b, Word c) { return static_cast<Word>(((std::uint64_t{b} << 32 | a) << (c & 31)) >> 32); }, 3},
      {"shf.r.clamp.b32 %r3, %r0, %r1, %r2;",
       [](Word a, Word b, Word c) { return static_cast<Word>((std::uint64_t{b} << 32 | a) >> std::min(c, 32u)); }, 3},
      {"popc.b32 %r3, %r0;", [](Word a, Word, Word) { return static_cast<Word>(std::popcount(a)); }},
      {"clz.b32 %r3, %r0;", [](Word a, Word, Word) { return static_cast<Word>(std::countl_zero(a)); }},
      {"bfind.u32 %r3, %r0;", [](Word a, Word, Word) { return static_cast<Word>(std::bit_width(a)) - 1; }},
      {"bfe.u32 %r3, %r0, %r1, %r2;", [](Word a, Word b, Word c) { return extracted(a, b, c, false); }, 3},
      {"bfe.s32 %r3, %r0, %r1, %r2;", [](Word a, Word b, Word c) { return extracted(a, b, c, true); }, 3},
      {"lop3.b32 %r3, %r0, %r1, %r2, 0xe8;",  // the majority of three
       [](Word a, Word b, Word c) { return (a & b) | (a & c) | (b & c); }, 3},
      {"lop3.b32 %r3, %r0, %r1, %r2, 0x58;",
       [](Word a, Word b, Word c) {
         Word result = 0;
         for (int i = 0; i < 32; ++i)
           result |= (0x58u >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
         return result;
       },
       3},
      {"prmt.b32 %r3, %r0, %r1, 0x7351;",
       [](Word a, Word b, Word) { return (a >> 8 & 0xff) | (b >> 8 & 0xff) << 8 | (a >> 24) << 16 | (b >> 24) << 24; }},
      {"prmt.b32 %r3, %r0, %r1, 0xbf40;",  // sign of a's byte 3, sign of b's byte 3, b's byte 0, a's byte 0
       [](Word a, Word b, Word) {
         return (a & 0xff) | (b & 0xff) << 8 | (s(b) < 0 ? 0xff0000u : 0) | (s(a) < 0 ? 0xff000000u : 0);
       }},
      {"selp.b32 %r3, 1, 2, %p0;", [](Word, Word, Word) { return 2u; }},
  };
}

std::vector<IntegerInstruction> instructions() {
  std::vector<IntegerInstruction> all = arithmetic_instructions();
  const std::vector<IntegerInstruction> bits = bit_instructions();
  all.insert(all.end(), bits.begin(), bits.end());
  return all;
}

TEST(IntegerInstructions, AgreeWithCppOnCornerValues) {
  for (const IntegerInstruction& instruction : instructions()) {
    SCOPED_TRACE(instruction.text);
    const auto rows = rows_of(integer_corners(), instruction.operands);
    const std::string body = "setp.ne.u32 %p0, %r0, %r0;\n";
    const auto results = results_of(body + instruction.text, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto [a, b, c] = rows[i];
      ASSERT_EQ(results[i], instruction.expected(a, b, c)) << std::hex << a << ' ' << b << ' ' << c;
    }
  }
}

TEST(IntegerInstructions, ARegisterSelectorPermutesAsAConstantOneDoes) {
  for (const Word selector : {0x3210u, 0x7654u, 0x0000u, 0xfedcu, 0x5140u, 0xba98u}) {
    const std::vector<Row> rows = {{0x80112233, 0x44d56677, selector}};
    const auto by_register = results_of("prmt.b32 %r3, %r0, %r1, %r2;", rows);
    const auto by_constant = results_of("prmt.b32 %r3, %r0, %r1, " + std::to_string(selector) + ";", rows);
    EXPECT_EQ(by_register, by_constant) << std::hex << selector;
  }
}

TEST(IntegerInstructions, FieldsAreInserted) {
  const auto rows = rows_of({0, 1, 5, 31, 32, 0xffffffff, 0x12345678}, 3);
  const auto results = results_of("bfi.b32 %r3, %r0, %r2, %r1, 8;", rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [a, position, base] = rows[i];
    const std::uint64_t field = (position & 255) > 31 ? 0 : std::uint64_t{0xff} << (position & 255);
    const std::uint64_t moved = (position & 255) > 31 ? 0 : std::uint64_t{a} << (position & 255);
    ASSERT_EQ(results[i], static_cast<Word>((base & ~field) | (moved & field)));
  }
}

TEST(IntegerInstructions, DotProductsKeepTheSignsOfBothSides) {
  const auto rows = rows_of({0, 0xffffffff, 0x80ff7f01, 0x01020304}, 3);
  const auto results = results_of("dp4a.s32.u32 %r3, %r0, %r1, %r2;", rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto expected = static_cast<std::int64_t>(rows[i][2]);
    for (int byte = 0; byte < 4; ++byte) {
      expected += static_cast<std::int8_t>(rows[i][0] >> (8 * byte)) *
                  static_cast<std::int64_t>(rows[i][1] >> (8 * byte) & 255);
    }
    ASSERT_EQ(results[i], w(expected));
  }
}

TEST(IntegerInstructions, WideOnes) {
  const std::vector<WideRow> rows = {
      {0x123456789abcdef0, 0xfedcba9876543210, 3}, {~0ULL, ~0ULL, 40}, {1ULL << 63, 5, 63}, {7, 0, 64}};
  struct Wide {
    const char* text;
    std::function<std::uint64_t(std::uint64_t, std::uint64_t, std::uint64_t)> expected;
  };
  using U = std::uint64_t;
  const std::vector<Wide> all = {
      {"add.s64 %d3, %d0, %d1;", [](U a, U b, U) { return a + b; }},
      {"mul.lo.s64 %d3, %d0, %d1;", [](U a, U b, U) { return a * b; }},
      {"mad.lo.s64 %d3, %d0, %d1, %d2;", [](U a, U b, U c) { return a * b + c; }},
      {"max.u64 %d3, %d0, %d1;", [](U a, U b, U) { return std::max(a, b); }},
      {"div.u64 %d3, %d0, %d1;", [](U a, U b, U) { return b == 0 ? ~U{0} : a / b; }},
      {"cvt.u32.u64 %r2, %d2;\n shl.b64 %d3, %d0, %r2;", [](U a, U, U c) { return c > 63 ? 0 : a << c; }},
      {"cvt.u32.u64 %r2, %d2;\n shr.s64 %d3, %d0, %r2;",
       [](U a, U, U c) { return static_cast<U>(static_cast<std::int64_t>(a) >> std::min<U>(c, 63)); }},
      {"cvt.u32.u64 %r0, %d0;\n cvt.u32.u64 %r1, %d1;\n mul.wide.u32 %d3, %r0, %r1;",
       [](U a, U b, U) { return (a & 0xffffffff) * (b & 0xffffffff); }},
      {"cvt.u32.u64 %r0, %d0;\n cvt.u32.u64 %r1, %d1;\n mul.wide.s32 %d3, %r0, %r1;",
       [](U a, U b, U) { return static_cast<U>(std::int64_t{s(static_cast<Word>(a))} * s(static_cast<Word>(b))); }},
      {"cvt.u32.u64 %r0, %d0;\n cvt.s64.s32 %d3, %r0;",
       [](U a, U, U) { return static_cast<U>(std::int64_t{s(static_cast<Word>(a))}); }},
      {"mov.b64 {%r0, %r1}, %d0;\n mov.b64 %d3, {%r1, %r0};", [](U a, U, U) { return a >> 32 | a << 32; }},
      {"cvt.u16.u64 %s0, %d0;\n cvt.s64.s16 %d3, %s0;",
       [](U a, U, U) { return static_cast<U>(std::int64_t{static_cast<std::int16_t>(a)}); }},
      {"cvt.u16.u64 %s0, %d0;\n cvt.u16.u64 %s1, %d1;\n mul.wide.u16 %r0, %s0, %s1;\n cvt.u64.u32 %d3, %r0;",
       [](U a, U b, U) { return (a & 0xffff) * (b & 0xffff); }},
  };
  for (const Wide& wide : all) {
    SCOPED_TRACE(wide.text);
    const auto results = wide_results_of(wide.text, rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      EXPECT_EQ(results[i], wide.expected(rows[i][0], rows[i][1], rows[i][2])) << i;
  }
}

TEST(IntegerInstructions, WideFieldsAreTakenAndInserted) {
  using Wide = std::uint64_t;
  std::vector<WideRow> rows;
  for (const Wide a : {0x8123456789abcdefull, 0x7fffffffffffffffull, ~0ull}) {
    for (const Wide position : {0, 1, 31, 32, 63, 64, 200}) {
      for (const Wide length : {0, 1, 8, 32, 63, 64, 255}) rows.push_back({a, position, length});
    }
  }
  const std::string narrow = "cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; ";
  const auto unsigned_fields = wide_results_of(narrow + "bfe.u64 %d3, %d0, %r1, %r2;", rows);
  const auto signed_fields = wide_results_of(narrow + "bfe.s64 %d3, %d0, %r1, %r2;", rows);
  const auto inserted =
      wide_results_of(narrow + "mov.u64 %d4, 0x5555555555555555; bfi.b64 %d3, %d0, %d4, %r1, %r2;", rows);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto [a, position, length] = rows[r];
    const Wide sign = length == 0 ? 0 : a >> std::min<Wide>(position + length - 1, 63) & 1;
    Wide plain = 0;
    Wide extended = 0;
    Wide into = 0x5555555555555555;
    for (Wide i = 0; i < 64; ++i) {
      const bool is_field = i < length && position + i < 64;
      const Wide bit = is_field ? a >> (position + i) & 1 : 0;
      plain |= bit << i;
      extended |= (is_field ? bit : sign) << i;
      if (is_field) into = (into & ~(Wide{1} << (position + i))) | (a >> i & 1) << (position + i);
    }
    ASSERT_EQ(unsigned_fields[r], plain) << position << " " << length;
    ASSERT_EQ(signed_fields[r], extended) << position << " " << length;
    ASSERT_EQ(inserted[r], into) << position << " " << length;
  }
}

TEST(IntegerInstructions, CarriesGoFromWordToWord) {
  using Wide = std::uint64_t;
  std::vector<WideRow> rows;
  for (const Wide a : {0ull, 1ull, 0xffffffffull, 0x123456789abcdef0ull, 0xffffffff00000000ull, ~0ull}) {
    for (const Wide b : {0ull, 1ull, 0xffffffffull, 0xfedcba9876543210ull, 0xffffffff00000000ull, ~0ull})
      rows.push_back({a, b, a ^ 5});
  }
  const std::string split = "mov.b64 {%r0, %r1}, %d0; mov.b64 {%r2, %r3}, %d1; mov.b64 {%r4, %r5}, %d2; ";
  const std::string join = "mov.b64 %d3, {%r6, %r7};";
  const auto sums = wide_results_of(split + "add.cc.u32 %r6, %r0, %r2; addc.u32 %r7, %r1, %r3; " + join, rows);
  const auto differences = wide_results_of(split + "sub.cc.u32 %r6, %r0, %r2; subc.u32 %r7, %r1, %r3; " + join, rows);
  const auto products = wide_results_of(split +
                                            "mad.lo.cc.u32 %r6, %r0, %r2, %r4; madc.hi.cc.u32 %r7, %r0, %r2, %r5; "
                                            "addc.u32 %r8, 0, 0; add.u32 %r7, %r7, %r8;" +
                                            join,
                                        rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [a, b, c] = rows[i];
    ASSERT_EQ(sums[i], a + b);
    ASSERT_EQ(differences[i], a - b);
    __extension__ using Twice = unsigned __int128;
    const Twice exact = static_cast<Twice>(a & 0xffffffff) * (b & 0xffffffff) + c;
    ASSERT_EQ(products[i], static_cast<Wide>(exact) + (static_cast<Wide>(exact >> 64) << 32));
  }
}

TEST(IntegerInstructions, ComparisonsOfBothSigns) {
  const auto rows = rows_of(integer_corners());
  struct Row2 {
    const char* name;
    std::function<bool(Word, Word)> holds;
  };
  const std::vector<Row2> all = {
      {"eq.s32", [](Word a, Word b) { return a == b; }},       {"ne.s32", [](Word a, Word b) { return a != b; }},
      {"lt.s32", [](Word a, Word b) { return s(a) < s(b); }},  {"ge.s32", [](Word a, Word b) { return s(a) >= s(b); }},
      {"lt.u32", [](Word a, Word b) { return a < b; }},        {"ge.u32", [](Word a, Word b) { return a >= b; }},
      {"hi.u32", [](Word a, Word b) { return a > b; }},        {"ls.u32", [](Word a, Word b) { return a <= b; }},
      {"le.s32", [](Word a, Word b) { return s(a) <= s(b); }}, {"gt.u32", [](Word a, Word b) { return a > b; }}};
  for (const Row2& row : all) {
    SCOPED_TRACE(row.name);
    const auto results = results_of(
        std::string("setp.") + row.name +
            " %p0|%p1, %r0, %r1;\n selp.b32 %r3, 1, 0, %p0;\n selp.b32 %r4, 2, 0, %p1;\n or.b32 %r3, %r3, %r4;",
        rows);
    for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(results[i], row.holds(rows[i][0], rows[i][1]) ? 1u : 2u);
  }
}

}  // namespace
}  // namespace cubit::tests
