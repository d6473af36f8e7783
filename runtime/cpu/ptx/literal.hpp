// Numbers of PTX text: integers in four bases, exact float bits, decimals.
#pragma once

#include <cstdint>
#include <variant>

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"

namespace cubit::runtime::ptx {

using Literal = std::variant<IntegerOperand, FloatOperand>;

/// A number with an optional sign; takes it from the lexer.
Literal take_literal(Lexer& lexer);

/// An integer from 0 to `largest`; `what` names it in the error.
std::int64_t take_count(Lexer& lexer, std::string_view what, std::int64_t largest);

/// An integer with an optional sign that fits 64 signed bits: an offset.
std::int64_t take_offset(Lexer& lexer);

/// The bits that a variable of `type` holds for this number.
std::uint64_t initial_bits(const Literal& literal, Type type);

}  // namespace cubit::runtime::ptx
