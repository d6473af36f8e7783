// Parses the operands of an instruction and resolves their names.
#pragma once

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"
#include "runtime/cpu/ptx/names.hpp"

namespace cubit::runtime::ptx {

/// True for special registers ("%tid", "%laneid", "%pm3") and for the other reserved words: `_` and WARP_SZ.
bool is_reserved(std::string_view name);

/// Takes one operand. A name that is neither a register nor a variable may be a label that is defined later. Such a
/// name gives LabelOperand{kNone}, and `label` receives its token.
Operand take_operand(Lexer& lexer, const Names& names, Token& label);

}  // namespace cubit::runtime::ptx
