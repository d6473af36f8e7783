// Operands of an instruction: text to values, names resolved.
#pragma once

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"
#include "runtime/cpu/ptx/names.hpp"

namespace cubit::runtime::ptx {

/// "%tid", "%laneid", "%pm3": special registers, and the other words that are no names: `_` and WARP_SZ.
bool is_reserved(std::string_view name);

/// Takes one operand. A name that is no register and no variable may be a label further down: it comes back as
/// LabelOperand{kNone} and its token in `label`.
Operand take_operand(Lexer& lexer, const Names& names, Token& label);

}  // namespace cubit::runtime::ptx
