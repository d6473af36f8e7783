// Makes kernels, rows of operands and modelled results of elementwise cases.
#include "tests/conformance/elementwise.hpp"

#include <fmt/format.h>

#include <cstring>

namespace cubit::conformance {
namespace {

constexpr int kSlot = 8;

struct Layout {
  int exponent_bits;
  int mantissa_bits;
};

Layout layout_of(std::string_view format) {
  if (format == "f16") return {5, 10};
  if (format == "bf16") return {8, 7};
  if (format == "f32") return {8, 23};
  return {11, 52};
}

std::string loads(const Elementwise& given) {
  std::string text;
  const auto count = static_cast<int>(given.sources.size());
  text += fmt::format("  mad.wide.u32 %in, %i, {}, %in;\n", kSlot * count);
  for (int i = 0; i < count; ++i) {
    text +=
        fmt::format("  ld.global.b{} %a{}, [%in+{}];\n", 8 * given.sources[static_cast<std::size_t>(i)], i, kSlot * i);
  }
  return text;
}

/// Stores one result after another, each as an array over the threads.
std::string stores(const Elementwise& given, std::size_t rows) {
  std::string text;
  std::size_t base = 0;
  for (std::size_t i = 0; i < given.results.size(); ++i) {
    const int bytes = given.results[i];
    text +=
        fmt::format("  mad.wide.u32 %o, %i, {}, %out;\n  st.global.b{} [%o+{}], %z{};\n", bytes, 8 * bytes, base, i);
    base += static_cast<std::size_t>(bytes) * rows;
  }
  return text;
}

std::string registers(const Elementwise& given) {
  std::string text = "  .reg .b64 %o;\n  .reg .b32 %i;\n  mad.lo.u32 %i, %b, %n, %t;\n";
  for (std::size_t i = 0; i < given.sources.size(); ++i)
    text += fmt::format("  .reg .b{} %a{};\n", 8 * given.sources[i], i);
  for (std::size_t i = 0; i < given.results.size(); ++i)
    text += fmt::format("  .reg .b{} %z{};\n", 8 * given.results[i], i);
  return text;
}

std::vector<std::byte> packed(const Elementwise& given, const Rows& rows) {
  const std::size_t count = given.sources.size();
  std::vector<std::byte> bytes(rows.size() * count * kSlot);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(bytes.data() + i * count * kSlot, rows[i].data(), count * kSlot);
  return bytes;
}

/// Lays results out as stores() does.
std::vector<std::byte> modelled(const Elementwise& given, const Rows& rows) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < given.results.size(); ++i) {
    for (const Row& row : rows) {
      const std::uint64_t value = given.model(row)[i];
      const auto* const first = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), first, first + given.results[i]);
    }
  }
  return bytes;
}

}  // namespace

std::string kernel_text(std::string_view declarations, std::string_view body, std::string_view directives) {
  return fmt::format(R"(.version 8.7
.target sm_90a
.address_size 64
{}
.visible .entry kernel(.param .u64 kernel_input, .param .u64 kernel_output){}
{{
  .reg .pred %p<16>;
  .reg .b16 %s<16>;
  .reg .b32 %r<64>, %t, %b, %n;
  .reg .b64 %d<16>, %in, %out;
  ld.param.u64 %in, [kernel_input];
  ld.param.u64 %out, [kernel_output];
  mov.u32 %t, %tid.x;
  mov.u32 %b, %ctaid.x;
  mov.u32 %n, %ntid.x;
{}
  ret;
}}
)",
                     declarations, directives, body);
}

void add(Cases& cases, const Elementwise& given, const Rows& rows) {
  Rows padded = rows;
  padded.resize((rows.size() + given.threads - 1) / given.threads * given.threads, rows.front());
  Case made;
  made.name = given.name;
  made.kernel = kernel_text(given.declarations,
                            registers(given) + loads(given) + "  " + given.body + "\n" + stores(given, padded.size()));
  made.threads = given.threads;
  made.blocks = static_cast<unsigned>(padded.size() / given.threads);
  made.input = packed(given, padded);
  for (const int bytes : given.results) made.output_bytes += static_cast<std::size_t>(bytes) * padded.size();
  made.rule = given.rule;
  if (given.model) made.model = [given, padded] { return modelled(given, padded); };
  cases.push_back(std::move(made));
}

Rows all_of(const Values& values) {
  Rows rows;
  for (const std::uint64_t value : values) rows.push_back({value, 0, 0, 0});
  return rows;
}

Rows combinations(const std::vector<Values>& operands) {
  Rows rows = {Row{}};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Rows longer;
    for (const Row& row : rows) {
      for (const std::uint64_t value : operands[i]) {
        longer.push_back(row);
        longer.back()[i] = value;
      }
    }
    rows = std::move(longer);
  }
  return rows;
}

/// If there are more than `limit` combinations, takes every n-th for a prime n.
Rows combinations(const Values& values, int operands, std::size_t limit) {
  const Rows all = combinations(std::vector<Values>(static_cast<std::size_t>(operands), values));
  const std::size_t step = all.size() <= limit ? 1 : (all.size() / limit | 1) + 2;
  Rows rows;
  for (std::size_t i = 0; i < all.size(); i += step) rows.push_back(all[i]);
  return rows;
}

Rows exhaustive16() {
  Rows rows;
  for (std::uint64_t value = 0; value < 0x10000; ++value) rows.push_back({value, 0, 0, 0});
  return rows;
}

std::uint64_t random_bits(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

Rows with_random(Rows rows, std::size_t count, std::uint64_t seed) {
  for (std::size_t i = 0; i < count; ++i) {
    Row row;
    for (std::uint64_t& value : row) value = random_bits(seed);
    rows.push_back(row);
  }
  return rows;
}

Rows with_random_floats(Rows rows, std::string_view format, std::size_t count, int spread, std::uint64_t seed) {
  const Layout layout = layout_of(format);
  const std::uint64_t bias = (1ULL << (layout.exponent_bits - 1)) - 1;
  for (std::size_t i = 0; i < count; ++i) {
    Row row;
    for (std::uint64_t& value : row) {
      const std::uint64_t drawn = random_bits(seed);
      const std::uint64_t exponent =
          bias - static_cast<std::uint64_t>(spread) + random_bits(seed) % static_cast<std::uint64_t>(2 * spread + 1);
      value = (drawn & ((1ULL << layout.mantissa_bits) - 1)) | exponent << layout.mantissa_bits |
              (drawn >> 63) << (layout.mantissa_bits + layout.exponent_bits);
    }
    rows.push_back(row);
  }
  return rows;
}

Values integer_corners(int bits) {
  const std::uint64_t ones = ~0ULL >> (64 - bits);
  Values values;
  for (const std::uint64_t value :
       {0ULL, 1ULL, 2ULL, 3ULL, 7ULL, 31ULL, 32ULL, 33ULL, 0x55ULL, 0x7fULL, 0x80ULL, 0xffULL, 0x1234567890abcdefULL})
    values.push_back(value & ones);
  for (int i = 15; i < bits; i += 16) {
    values.push_back(1ULL << i);
    values.push_back((1ULL << i) - 1);
    values.push_back(((1ULL << i) + 1) & ones);
  }
  for (const std::uint64_t value : {0ULL, 1ULL, 2ULL, 6ULL}) values.push_back(ones - value);
  return values;
}

Values float_corners(std::string_view format) {
  const Layout layout = layout_of(format);
  const int m = layout.mantissa_bits;
  const std::uint64_t infinity = ((1ULL << layout.exponent_bits) - 1) << m;
  const std::uint64_t one = ((1ULL << (layout.exponent_bits - 1)) - 1) << m;
  const std::uint64_t sign = 1ULL << (layout.exponent_bits + m);
  const std::uint64_t unit = 1ULL << m;  // exponent field 1; adding it doubles a number
  const std::uint64_t positive[] = {0,
                                    1,
                                    unit - 1,
                                    unit,
                                    unit + 1,
                                    one - static_cast<std::uint64_t>(m + 1) * unit,
                                    one - unit - 1,
                                    one - unit,
                                    one - 1,
                                    one,
                                    one + 1,
                                    one + unit / 2,
                                    one + unit,
                                    one + unit + 1 + unit / 2,
                                    one + static_cast<std::uint64_t>(m) * unit + 1,
                                    infinity - unit,
                                    infinity - 1,
                                    infinity,
                                    infinity + unit / 2,
                                    infinity + 1};
  Values values;
  for (const std::uint64_t value : positive) {
    values.push_back(value);
    values.push_back(value | sign);
  }
  return values;
}

}  // namespace cubit::conformance
