// Compares tensor-core instructions with plain matrix products, through codegen's fragment tables, which have their own
// tests. PTX ISA, "ldmatrix", "movmatrix", "mma".
#include <cmath>
#include <cstring>
#include <random>
#include <tuple>

#include "codegen/fragments.hpp"
#include "runtime/cpu/arithmetic/numbers.hpp"
#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

using codegen::Element;
using codegen::FragmentMap;
using runtime::cpu::Format;
using runtime::cpu::Rounding;
using Words = std::vector<std::uint32_t>;

/// Registers of all lanes, one lane after another, from a matrix given by its elements.
template <class ElementBits>
Words fragment(const FragmentMap& map, ElementBits bits_of_element) {
  const int registers = map.registers();
  const int per_register = 32 / map.element_bits;
  Words words(static_cast<std::size_t>(kLanes * registers));
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int value = 0; value < map.value_count; ++value) {
      const auto index = static_cast<std::size_t>(lane * registers + value / per_register);
      words[index] |= bits_of_element(map.at(lane, value)) << (value % per_register * map.element_bits);
    }
  }
  return words;
}

std::string names(char letter, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "%" : ",%") + std::string(1, letter) + std::to_string(first + i);
  return text + "}";
}

/// Loads each lane's registers one by one, executes the instruction, and stores the results one by one.
Words run_mma(const std::string& opcode, const Words& a, const Words& b, const Words& c) {
  const int counts[] = {static_cast<int>(a.size()) / kLanes, static_cast<int>(b.size()) / kLanes,
                        static_cast<int>(c.size()) / kLanes};
  Words input;
  const int total = counts[0] + counts[1] + counts[2];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const Words* parts[] = {&a, &b, &c};
    for (int i = 0; i < 3; ++i) {
      const auto count = static_cast<std::size_t>(counts[i]);
      input.insert(input.end(), parts[i]->begin() + static_cast<std::ptrdiff_t>(lane * count),
                   parts[i]->begin() + static_cast<std::ptrdiff_t>((lane + 1) * count));
    }
  }
  std::string body = "mad.wide.u32 %in, %t, " + std::to_string(4 * total) + ", %in;\n mad.wide.u32 %out, %t, " +
                     std::to_string(4 * counts[2]) + ", %out;\n";
  for (int i = 0; i < total; ++i)
    body += " ld.global.b32 %r" + std::to_string(i) + ", [%in+" + std::to_string(4 * i) + "];\n";
  body += opcode + " " + names('r', 20, counts[2]) + ", " + names('r', 0, counts[0]) + ", " +
          names('r', counts[0], counts[1]) + ", " + names('r', counts[0] + counts[1], counts[2]) + ";\n";
  for (int i = 0; i < counts[2]; ++i)
    body += " st.global.b32 [%out+" + std::to_string(4 * i) + "], %r" + std::to_string(20 + i) + ";\n";
  return run({.body = body}, input, c.size());
}

struct Shape {
  const char* name;
  const char* type;
  Format format;
  int k;
};

TEST(Mma, FloatProductsAreWithinOneRounding) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const Shape& shape : {Shape{"m16n8k16", "f16", Format::f16, 16}, Shape{"m16n8k16", "bf16", Format::bf16, 16},
                             Shape{"m16n8k8", "f16", Format::f16, 8}, Shape{"m16n8k8", "bf16", Format::bf16, 8}}) {
    SCOPED_TRACE(std::string(shape.name) + " " + shape.type);
    double a[16][16];
    double b[16][8];
    float c[16][8];
    const auto draw = [&] { return decode(shape.format, encode(shape.format, normal(random), Rounding::nearest)); };
    for (auto& row : a)
      for (double& x : row) x = draw();
    for (auto& row : b)
      for (double& x : row) x = draw();
    for (auto& row : c)
      for (float& x : row) x = static_cast<float>(normal(random));
    const auto table = [&](const char* operand, int bits) -> const FragmentMap& {
      return codegen::find_fragment(std::string("mma.") + shape.name + " " + operand + ", " + std::to_string(bits) +
                                    "-bit");
    };
    const auto encoded = [&](double x) {
      return static_cast<std::uint32_t>(encode(shape.format, x, Rounding::nearest));
    };
    const Words results = run_mma(
        std::string("mma.sync.aligned.") + shape.name + ".row.col.f32." + shape.type + "." + shape.type + ".f32",
        fragment(table("A", 16), [&](Element e) { return encoded(a[e.row][e.column]); }),
        fragment(table("B", 16), [&](Element e) { return encoded(b[e.row][e.column]); }),
        fragment(table("C", 32), [&](Element e) { return bits_of(c[e.row][e.column]); }));
    const Words expected = fragment(table("C", 32), [&](Element e) {
      double sum = 0;
      for (int i = 0; i < shape.k; ++i) sum += a[e.row][i] * b[i][e.column];
      return bits_of(static_cast<float>(sum + static_cast<double>(c[e.row][e.column])));
    });
    for (std::size_t i = 0; i < results.size(); ++i) {
      ASSERT_NEAR(float_of(results[i]), float_of(expected[i]), 1e-6 * (1 + std::abs(float_of(expected[i]))));
    }
  }
}

TEST(Mma, IntegerProductsAreExact) {
  std::mt19937 random(2);
  const auto table = [](const char* name) -> const FragmentMap& { return codegen::find_fragment(name); };
  std::int32_t a[16][32];
  std::int32_t b[32][8];
  for (auto& row : a)
    for (auto& x : row) x = static_cast<std::int8_t>(random());
  for (auto& row : b)
    for (auto& x : row) x = static_cast<std::uint8_t>(random());
  const Words results =
      run_mma("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32",
              fragment(table("mma.m16n8k32 A, 8-bit"),
                       [&](Element e) { return static_cast<std::uint32_t>(a[e.row][e.column]) & 255; }),
              fragment(table("mma.m16n8k32 B, 8-bit"),
                       [&](Element e) { return static_cast<std::uint32_t>(b[e.row][e.column]); }),
              fragment(table("mma.m16n8k32 C, 32-bit"),
                       [&](Element e) { return static_cast<std::uint32_t>(e.row - e.column); }));
  EXPECT_EQ(results, fragment(table("mma.m16n8k32 C, 32-bit"), [&](Element e) {
              std::int32_t sum = e.row - e.column;
              for (int i = 0; i < 32; ++i) sum += a[e.row][i] * b[i][e.column];
              return static_cast<std::uint32_t>(sum);
            }));
}

TEST(Mma, FourBitProductsAreExact) {
  std::mt19937 random(3);
  for (const auto& [shape, m, k] :
       {std::tuple{"m8n8k32", 8, 32}, std::tuple{"m16n8k32", 16, 32}, std::tuple{"m16n8k64", 16, 64}}) {
    for (const char* types : {"s4.s4", "u4.s4", "s4.u4", "u4.u4"}) {
      SCOPED_TRACE(std::string(shape) + types);
      std::int32_t a[16][64];
      std::int32_t b[64][8];
      const auto drawn = [&](char sign) { return static_cast<std::int32_t>(random() % 16) - (sign == 's' ? 8 : 0); };
      for (auto& row : a)
        for (auto& x : row) x = drawn(types[0]);
      for (auto& row : b)
        for (auto& x : row) x = drawn(types[3]);
      const auto table = [name = std::string("mma.") + shape](const char* operand) -> const FragmentMap& {
        return codegen::find_fragment(name + operand);
      };
      const auto nibble = [](std::int32_t x) { return static_cast<std::uint32_t>(x) & 15; };
      const Words results =
          run_mma(std::string("mma.sync.aligned.") + shape + ".row.col.s32." + types + ".s32",
                  fragment(table(" A, 4-bit"), [&](Element e) { return nibble(a[e.row][e.column]); }),
                  fragment(table(" B, 4-bit"), [&](Element e) { return nibble(b[e.row][e.column]); }),
                  fragment(table(" C, 32-bit"), [](Element e) { return static_cast<std::uint32_t>(e.row); }));
      EXPECT_EQ(results, fragment(table(" C, 32-bit"), [&, depth = k](Element e) {
                  std::int32_t sum = e.row;
                  for (int i = 0; i < depth; ++i) sum += a[e.row][i] * b[i][e.column];
                  return static_cast<std::uint32_t>(sum);
                }));
    }
  }
}

/// Integers in double precision, so that every order of the sum gives the same result.
TEST(Mma, DoublePrecisionInEveryShape) {
  for (const auto& [shape, k] :
       {std::pair{"m8n8k4", 4}, std::pair{"m16n8k4", 4}, std::pair{"m16n8k8", 8}, std::pair{"m16n8k16", 16}}) {
    SCOPED_TRACE(shape);
    const auto a = [](Element e) { return 3.0 * e.row - 7.0 * e.column + 1; };
    const auto b = [](Element e) { return 5.0 * e.row + 11.0 * e.column - 20; };
    const auto c = [](Element e) { return 100.0 * e.row + e.column; };
    const auto table = [name = std::string("mma.") + shape](const char* operand) -> const FragmentMap& {
      return codegen::find_fragment(name + operand);
    };
    const FragmentMap& table_a = table(" A, 64-bit");
    const FragmentMap& table_b = table(" B, 64-bit");
    const FragmentMap& table_c = table(" C, 64-bit");
    const int total = table_a.value_count + table_b.value_count + table_c.value_count;
    std::vector<double> input;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < table_a.value_count; ++i) input.push_back(a(table_a.at(lane, i)));
      for (int i = 0; i < table_b.value_count; ++i) input.push_back(b(table_b.at(lane, i)));
      for (int i = 0; i < table_c.value_count; ++i) input.push_back(c(table_c.at(lane, i)));
    }
    std::string body = "mad.wide.u32 %in, %t, " + std::to_string(8 * total) + ", %in; mad.wide.u32 %out, %t, " +
                       std::to_string(8 * table_c.value_count) + ", %out;\n";
    for (int i = 0; i < total; ++i)
      body += "ld.global.b64 %d" + std::to_string(i) + ", [%in+" + std::to_string(8 * i) + "];\n";
    body += std::string("mma.sync.aligned.") + shape + ".row.col.f64.f64.f64.f64 " +
            names('d', 20, table_c.value_count) + ", " + names('d', 0, table_a.value_count) + ", " +
            names('d', table_a.value_count, table_b.value_count) + ", " +
            names('d', table_a.value_count + table_b.value_count, table_c.value_count) + ";\n";
    for (int i = 0; i < table_c.value_count; ++i)
      body += "st.global.b64 [%out+" + std::to_string(8 * i) + "], %d" + std::to_string(20 + i) + ";\n";
    Words words(input.size() * 2);
    std::memcpy(words.data(), input.data(), words.size() * 4);
    const auto count = static_cast<std::size_t>(kLanes * table_c.value_count);
    const Words output = run({.body = body}, words, 2 * count);
    std::vector<double> results(count);
    std::memcpy(results.data(), output.data(), count * sizeof(double));
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < table_c.value_count; ++i) {
        const Element at = table_c.at(lane, i);
        double sum = c(at);
        for (int j = 0; j < k; ++j) sum += a({at.row, j}) * b({j, at.column});
        ASSERT_EQ(results[static_cast<std::size_t>(lane * table_c.value_count + i)], sum);
      }
    }
  }
}

/// Rows in a permuted order, so that each lane's own address matters.
TEST(Ldmatrix, GivesEachLaneWhatTheTableSays) {
  for (const int count : {1, 2, 4}) {
    for (const char* form : {"", ".trans"}) {
      SCOPED_TRACE(std::to_string(count) + form);
      std::string body = R"(
        mov.u32 %r9, buffer;
        mad.wide.u32 %in, %t, 16, %in; ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%in];
        shl.b32 %r8, %t, 4; add.s32 %r8, %r8, %r9; st.shared.v4.u32 [%r8], {%r0,%r1,%r2,%r3}; bar.warp.sync -1;
        mad.lo.u32 %r7, %t, 13, 5; and.b32 %r7, %r7, 31; shl.b32 %r7, %r7, 4; add.s32 %r7, %r7, %r9;
        mad.wide.u32 %out, %t, )" +
                         std::to_string(4 * count) + ", %out;\n ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
                         form + ".shared.b16 " + names('r', 10, count) + ", [%r7];\n";
      for (int i = 0; i < count; ++i)
        body += " st.global.b32 [%out+" + std::to_string(4 * i) + "], %r" + std::to_string(10 + i) + ";\n";
      Words input(128);
      for (std::uint32_t i = 0; i < 128; ++i)
        input[i] = 2 * i | (2 * i + 1) << 16;  // element (row, column) is 8 · row + column
      const Words results = run({.body = body, .declarations = ".shared .align 16 .b8 buffer[512];"}, input,
                                static_cast<std::size_t>(kLanes * count));
      const auto& map = codegen::find_fragment("ldmatrix.x" + std::to_string(count) + form);
      EXPECT_EQ(results, fragment(map, [](Element e) {
                  return static_cast<std::uint32_t>(8 * ((13 * e.row + 5) % 32) + e.column);
                }));
    }
  }
}

TEST(Movmatrix, Transposes) {
  const auto& source = codegen::find_fragment("movmatrix source");
  const auto number = [](Element e) { return static_cast<std::uint32_t>(8 * e.row + e.column); };
  const Words results =
      run({.body = "mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %out, %t, 4, %out; ld.global.b32 %r0, [%in]; "
                   "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0; st.global.b32 [%out], %r1;"},
          fragment(source, number), kLanes);
  EXPECT_EQ(results, fragment(source, [&](Element e) { return number({e.column, e.row}); }));
}

}  // namespace
}  // namespace cubit::tests
