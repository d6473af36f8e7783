// Implements the parsing of numbers. PTX ISA, "Constants".
#include "runtime/cpu/ptx/literal.hpp"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <limits>

namespace cubit::runtime::ptx {
namespace {

constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;

std::uint64_t digits(const Token& token, std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error == std::errc::result_out_of_range) Lexer::fail(token, "this integer does not fit 64 bits");
  if (error != std::errc() || end != text.data() + text.size()) {
    Lexer::fail(token, "this is not a number",
                "accepted: 12, 0x1F, 017, 0b101, with an optional U; 0f or 0d and the bits");
  }
  return value;
}

bool is_letter_pair(std::string_view text, char lower) {
  return text.size() > 1 && text[0] == '0' && (text[1] | 0x20) == lower;
}

FloatOperand exact_float(const Token& token) {
  const bool is_double = is_letter_pair(token.text, 'd');
  const std::string_view bits = token.text.substr(2);
  if (bits.size() != (is_double ? 16u : 8u)) {
    Lexer::fail(token, "a float is 0f and 8 hexadecimal digits, a double 0d and 16");
  }
  return {digits(token, bits, 16), is_double};
}

FloatOperand decimal_float(const Token& token) {
  double value = 0;
  const char* const last = token.text.data() + token.text.size();
  const auto [end, error] = std::from_chars(token.text.data(), last, value);
  if (error != std::errc() || end != last) Lexer::fail(token, "this number does not fit a double");
  return {std::bit_cast<std::uint64_t>(value), true};
}

std::uint64_t integer(const Token& token, std::string_view text) {
  if (is_letter_pair(text, 'x')) return digits(token, text.substr(2), 16);
  if (is_letter_pair(text, 'b')) return digits(token, text.substr(2), 2);
  if (text.size() > 1 && text[0] == '0') return digits(token, text.substr(1), 8);
  return digits(token, text, 10);
}

IntegerOperand signed_integer(const Token& token, bool negative) {
  std::string_view text = token.text;
  const bool has_suffix = text.back() == 'U' || text.back() == 'u';
  if (has_suffix) text.remove_suffix(1);
  const std::uint64_t magnitude = integer(token, text);
  if (negative && magnitude > kSignBit) Lexer::fail(token, "this negative integer does not fit 64 bits");
  return {negative ? 0 - magnitude : magnitude, !has_suffix && (negative || magnitude < kSignBit)};
}

double as_double(const Literal& literal) {
  if (const auto* integer = std::get_if<IntegerOperand>(&literal)) {
    return integer->is_signed ? static_cast<double>(static_cast<std::int64_t>(integer->bits))
                              : static_cast<double>(integer->bits);
  }
  const auto& number = std::get<FloatOperand>(literal);
  if (number.is_double) return std::bit_cast<double>(number.bits);
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(number.bits)));
}

}  // namespace

Literal take_literal(Lexer& lexer) {
  const bool negative = lexer.accept('-');
  const Token token = lexer.expect(TokenKind::number, "a number");
  if (is_letter_pair(token.text, 'f') || is_letter_pair(token.text, 'd')) {
    if (negative) Lexer::refuse(token, "a sign before exact float bits", "put the sign into the bits");
    return exact_float(token);
  }
  if (token.text.find('.') == std::string_view::npos) return signed_integer(token, negative);
  FloatOperand number = decimal_float(token);
  if (negative) number.bits ^= kSignBit;
  return number;
}

std::int64_t take_count(Lexer& lexer, std::string_view what, std::int64_t largest) {
  const Token token = lexer.peek();
  const Literal literal = take_literal(lexer);
  const auto* integer = std::get_if<IntegerOperand>(&literal);
  if (!integer || integer->bits > static_cast<std::uint64_t>(largest)) {
    Lexer::fail(token, fmt::format("{} is an integer from 0 to {}", what, largest));
  }
  return static_cast<std::int64_t>(integer->bits);
}

std::int64_t take_offset(Lexer& lexer) {
  const Token token = lexer.peek();
  const Literal literal = take_literal(lexer);
  const auto* integer = std::get_if<IntegerOperand>(&literal);
  if (!integer || (!integer->is_signed && integer->bits >= kSignBit)) {
    Lexer::fail(token, "an offset is an integer of 64 signed bits");
  }
  return static_cast<std::int64_t>(integer->bits);
}

std::uint64_t initial_bits(const Literal& literal, Type type) {
  if (type == Type::f64) return std::bit_cast<std::uint64_t>(as_double(literal));
  if (type == Type::f32) {
    const auto* exact = std::get_if<FloatOperand>(&literal);
    if (exact && !exact->is_double) return exact->bits;  // a conversion would turn a signalling NaN into a quiet NaN
    return std::bit_cast<std::uint32_t>(static_cast<float>(as_double(literal)));
  }
  const std::uint64_t bits = std::visit([](const auto& number) { return number.bits; }, literal);
  return bytes(type) >= 8 ? bits : bits & ((std::uint64_t{1} << (8 * bytes(type))) - 1);
}

}  // namespace cubit::runtime::ptx
