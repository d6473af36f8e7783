// Parses numbers: integers in four bases, exact float bits, and decimals.
#pragma once

#include <cstdint>
#include <variant>

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"

namespace cubit::runtime::ptx {

using Literal = std::variant<IntegerOperand, FloatOperand>;

/// Takes a number with an optional sign from the lexer.
Literal take_literal(Lexer& lexer);

/// Takes an integer from 0 to `largest`. `what` names the number in the error.
std::int64_t take_count(Lexer& lexer, std::string_view what, std::int64_t largest);

/// Takes an offset: an integer with an optional sign that fits 64 signed bits.
std::int64_t take_offset(Lexer& lexer);

/// The bits that a variable of `type` holds for this number.
std::uint64_t initial_bits(const Literal& literal, Type type);

}  // namespace cubit::runtime::ptx
