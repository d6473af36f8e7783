// Cases of mma.sync of every shape and type. The matrices distinguish different ways of adding: products that cancel,
// one product much larger than all others, large accumulators, subnormal operands, infinities and NaN.
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "codegen/fragments.hpp"
#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

struct Product {
  const char* shape;
  const char* a;
  const char* b;
  const char* c;
  bool saturates = false;
};

struct Encoding {
  const char* name;
  int bits;
  int exponent_bits;  ///< 0: an integer
  int mantissa_bits;
  int shift;  ///< tf32 occupies the upper bits of its word
};
constexpr Encoding kEncodings[] = {{"f16", 16, 5, 10, 0}, {"bf16", 16, 8, 7, 0}, {"tf32", 32, 8, 10, 13},
                                   {"e4m3", 8, 4, 3, 0},  {"e5m2", 8, 5, 2, 0},  {"f32", 32, 8, 23, 0},
                                   {"s8", 8, 0, 0, 0},    {"u8", 8, 0, 0, 0},    {"s32", 32, 0, 0, 0}};

const Encoding& encoding(std::string_view name) {
  for (const Encoding& row : kEncodings) {
    if (row.name == name) return row;
  }
  return kEncodings[0];
}

/// The kind of matrices in a launch. Each block has its own matrices.
enum class Pattern {
  near_one,      ///< exponents of -2 … 2
  wide,          ///< exponents of the whole range
  subnormal,     ///< A is subnormal, C is zero or tiny
  cancels,       ///< each product has its negative, except for a last bit
  one_large,     ///< the product of k = 0 is 2^20 times all others, if the format allows it
  large_addend,  ///< C is 2^20 times the products
  small_addend,
  special,  ///< some infinities or NaNs
  sparse,   ///< mostly zeros, next to numbers of any size that must not count
  bits,     ///< arbitrary bits
  count
};
constexpr int kOfEach = 12;

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() { return random_bits(state_); }
  int between(int low, int high) { return low + static_cast<int>(bits() % static_cast<std::uint64_t>(high - low + 1)); }

  /// A number with the given exponent, which is clamped to the format's normal range.
  std::uint32_t number(const Encoding& format, int exponent) {
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const int field = std::min(std::max(exponent + bias, 1), 2 * bias);
    const auto sign = static_cast<std::uint32_t>(bits() & 1) << (format.exponent_bits + format.mantissa_bits);
    const auto mantissa = static_cast<std::uint32_t>(bits()) & ((1U << format.mantissa_bits) - 1);
    return (sign | static_cast<std::uint32_t>(field) << format.mantissa_bits | mantissa) << format.shift;
  }
  std::uint32_t anything(const Encoding& format) {
    const auto value = static_cast<std::uint32_t>(bits());
    return format.bits == 32 ? value : value & ((1U << format.bits) - 1);
  }

 private:
  std::uint64_t state_;
};

/// The widest exponents for which a product of the format stays finite in f32.
int widest(const Encoding& format) { return format.exponent_bits == 8 ? 40 : (1 << (format.exponent_bits - 1)) - 2; }

std::uint32_t special(const Encoding& format, Drawing& draw) {
  const std::uint32_t exponent = ((1U << format.exponent_bits) - 1) << format.mantissa_bits;
  const auto sign = static_cast<std::uint32_t>(draw.bits() & 1) << (format.exponent_bits + format.mantissa_bits);
  const bool nan = std::string_view(format.name) == "e4m3" || draw.between(0, 3) == 0;
  return (exponent | sign | (nan ? (1U << format.mantissa_bits) - 1 : 0)) << format.shift;
}

struct Drawn {
  std::vector<std::uint32_t> a, b, c;  ///< row-major; b column-major
};

std::uint32_t factor(const Encoding& format, Pattern pattern, int k, bool is_a, Drawing& draw) {
  switch (pattern) {
    case Pattern::wide:
      return draw.number(format, draw.between(-widest(format), widest(format)));
    case Pattern::subnormal: {
      if (!is_a) return draw.number(format, draw.between(-3, 3));
      const auto sign = static_cast<std::uint32_t>(draw.bits() & 1) << (format.exponent_bits + format.mantissa_bits);
      return (sign | (static_cast<std::uint32_t>(draw.bits()) & ((1U << format.mantissa_bits) - 1))) << format.shift;
    }
    case Pattern::one_large:
      return draw.number(format, k == 0 ? std::min(10, widest(format)) : draw.between(-6, 0));
    case Pattern::special:
      return draw.between(0, 40) == 0 ? special(format, draw) : draw.number(format, draw.between(-2, 2));
    case Pattern::sparse:
      if (draw.between(0, 2) != 0) return 0;
      return draw.number(format, draw.between(-widest(format), widest(format)));
    case Pattern::bits:
      return draw.anything(format);
    default:
      return draw.number(format, draw.between(-2, 2));
  }
}

/// For integers: half of the addends are near the limits, so that saturation and wrapping show.
std::uint32_t integer_addend(Drawing& draw) {
  const auto small = static_cast<std::uint32_t>(draw.between(-40000, 40000));
  switch (draw.between(0, 3)) {
    case 0:
      return 0x7fffffff - (small & 0xffff);
    case 1:
      return 0x80000000 + (small & 0xffff);
    default:
      return small;
  }
}

std::uint32_t addend(const Encoding& format, Pattern pattern, Drawing& draw) {
  if (format.exponent_bits == 0) return integer_addend(draw);
  switch (pattern) {
    case Pattern::wide:
      return draw.number(format, draw.between(-2 * widest(format), 2 * widest(format)));
    case Pattern::subnormal:
      return draw.between(0, 2) == 0 ? 0 : draw.number(format, draw.between(-40, -14));
    case Pattern::sparse:
      return draw.between(0, 1) == 0 ? 0 : draw.number(format, draw.between(-30, 4));
    case Pattern::cancels:
      return draw.between(0, 3) == 0 ? 0 : draw.number(format, draw.between(-30, 0));
    case Pattern::large_addend:
      return draw.number(format, draw.between(10, 24));
    case Pattern::small_addend:
      return draw.number(format, draw.between(-30, -18));
    case Pattern::special:
      return draw.between(0, 40) == 0 ? special(format, draw) : draw.number(format, draw.between(-2, 4));
    case Pattern::bits:
      return draw.anything(format);
    default:
      return draw.number(format, draw.between(-4, 4));
  }
}

/// Pairs a[k], a[k+1] = -a[k] with b[k+1] = b[k], and then one bit of one number changed.
void make_cancel(Drawn& drawn, const Encoding& a, int m, int n, int k, Drawing& draw) {
  const std::uint32_t sign = 1U << (a.exponent_bits + a.mantissa_bits + a.shift);
  for (int row = 0; row < m; ++row) {
    for (int i = 0; i + 1 < k; i += 2) {
      auto* pair = drawn.a.data() + row * k + i;
      pair[1] = pair[0] ^ sign;
      if (draw.between(0, 3) == 0) pair[1] ^= 1U << a.shift;
    }
  }
  for (int column = 0; column < n; ++column) {
    for (int i = 0; i + 1 < k; i += 2)
      drawn.b[static_cast<std::size_t>(column * k + i + 1)] = drawn.b[static_cast<std::size_t>(column * k + i)];
  }
}

Drawn draw_matrices(const Product& product, Pattern pattern, int m, int n, int k, Drawing& draw) {
  const Encoding& a = encoding(product.a);
  const Encoding& b = encoding(product.b);
  const Encoding& c = encoding(product.c);
  const bool integer = a.exponent_bits == 0;
  if (integer) pattern = Pattern::bits;
  Drawn drawn;
  for (int row = 0; row < m; ++row) {
    for (int i = 0; i < k; ++i) drawn.a.push_back(factor(a, pattern, i, true, draw));
  }
  for (int column = 0; column < n; ++column) {
    for (int i = 0; i < k; ++i) drawn.b.push_back(factor(b, pattern, i, false, draw));
  }
  for (int i = 0; i < m * n; ++i) drawn.c.push_back(addend(c, pattern, draw));
  if (pattern == Pattern::cancels) make_cancel(drawn, a, m, n, k, draw);
  return drawn;
}

/// Appends a lane's registers of one operand.
void append_registers(std::vector<std::byte>& dst, const codegen::FragmentMap& map, int lane,
                      const std::vector<std::uint32_t>& matrix, bool by_column) {
  const int per_register = 32 / map.element_bits;
  for (int r = 0; r < map.registers(); ++r) {
    std::uint32_t word = 0;
    for (int i = 0; i < per_register; ++i) {
      const codegen::Element e = map.at(lane, r * per_register + i);
      const int index = by_column ? e.column * map.rows + e.row : e.row * map.columns + e.column;
      word |= matrix[static_cast<std::size_t>(index)] << (i * map.element_bits);
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(&word);
    dst.insert(dst.end(), bytes, bytes + 4);
  }
}

std::string list(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%r{}", i == 0 ? "" : ", ", first + i);
  return text + "}";
}

std::string body_of(const std::string& opcode, const int (&registers)[3]) {
  const int total = registers[0] + registers[1] + registers[2];
  std::string body = "  mad.lo.u32 %r60, %b, %n, %t;\n";
  body += fmt::format("  mad.wide.u32 %in, %r60, {}, %in;\n  mad.wide.u32 %out, %r60, {}, %out;\n", 4 * total,
                      4 * registers[2]);
  for (int i = 0; i < total; ++i) body += fmt::format("  ld.global.b32 %r{}, [%in+{}];\n", i, 4 * i);
  body += fmt::format("  {} {}, {}, {}, {};\n", opcode, list(40, registers[2]), list(0, registers[0]),
                      list(registers[0], registers[1]), list(registers[0] + registers[1], registers[2]));
  for (int i = 0; i < registers[2]; ++i) body += fmt::format("  st.global.b32 [%out+{}], %r{};\n", 4 * i, 40 + i);
  return body;
}

void add_product(Cases& cases, const Product& product) {
  const auto map = [&](char operand, const char* type) -> const codegen::FragmentMap& {
    return codegen::find_fragment(fmt::format("mma.{} {}, {}-bit", product.shape, operand, encoding(type).bits));
  };
  const codegen::FragmentMap* maps[] = {&map('A', product.a), &map('B', product.b), &map('C', product.c)};
  Case made;
  made.matrix = {product.shape, product.a, product.b, product.c, {}};
  for (int i = 0; i < 3; ++i) made.matrix.registers[i] = maps[i]->registers();
  const bool integer = encoding(product.a).exponent_bits == 0;
  made.name = fmt::format("mma.sync.aligned.{}.row.col{}.{}.{}.{}.{}", product.shape,
                          product.saturates ? ".satfinite" : "", product.c, product.a, product.b, product.c);
  made.kernel = kernel_text("", body_of(made.name, made.matrix.registers));
  made.rule = integer ? Rule{} : Rule{.kind = Rule::Kind::matrix, .format = product.c};
  Drawing draw(static_cast<std::uint64_t>(maps[0]->columns));
  made.blocks = static_cast<unsigned>(static_cast<int>(Pattern::count) * kOfEach);
  for (unsigned block = 0; block < made.blocks; ++block) {
    const auto pattern = static_cast<Pattern>(static_cast<int>(block) / kOfEach);
    const Drawn drawn = draw_matrices(product, pattern, maps[0]->rows, maps[1]->columns, maps[0]->columns, draw);
    for (int lane = 0; lane < 32; ++lane) {
      append_registers(made.input, *maps[0], lane, drawn.a, false);
      append_registers(made.input, *maps[1], lane, drawn.b, true);
      append_registers(made.input, *maps[2], lane, drawn.c, false);
    }
  }
  made.output_bytes =
      static_cast<std::size_t>(made.blocks) * 32 * 4 * static_cast<std::size_t>(made.matrix.registers[2]);
  cases.push_back(std::move(made));
}

void floats(Cases& cases) {
  for (const char* shape : {"m16n8k8", "m16n8k16"}) {
    add_product(cases, {shape, "f16", "f16", "f32"});
    add_product(cases, {shape, "f16", "f16", "f16"});
    add_product(cases, {shape, "bf16", "bf16", "f32"});
  }
  for (const char* shape : {"m16n8k4", "m16n8k8"}) add_product(cases, {shape, "tf32", "tf32", "f32"});
  for (const char* a : {"e4m3", "e5m2"}) {
    for (const char* b : {"e4m3", "e5m2"}) {
      add_product(cases, {"m16n8k32", a, b, "f32"});
      add_product(cases, {"m16n8k32", a, b, "f16"});
    }
  }
}

void integers(Cases& cases) {
  for (const char* shape : {"m8n8k16", "m16n8k16", "m16n8k32"}) {
    for (const char* a : {"s8", "u8"}) {
      for (const char* b : {"s8", "u8"}) {
        for (const bool saturates : {false, true}) add_product(cases, {shape, a, b, "s32", saturates});
      }
    }
  }
}

}  // namespace

void add_matrix(Cases& cases) {
  floats(cases);
  integers(cases);
}

}  // namespace cubit::conformance
