// Variable declarations: of a module, of a parameter list, of a body.
#pragma once

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"
#include "runtime/cpu/ptx/names.hpp"

namespace cubit::runtime::ptx {

/// True if the next token is the directive of a space; takes it.
bool accept_space(Lexer& lexer, Space& dst);

/// What stands before the names of a declaration: alignment, vector size, type, `.ptr` of a parameter.
Variable take_type(Lexer& lexer, Space space);

/// A scalar type: ".b32".
Type take_scalar_type(Lexer& lexer);

/// A name and its array extents, added to what take_type() read. Returns the name's token.
Token take_declarator(Lexer& lexer, Variable& variable);

/// After '=': a number, an address, or a list of them in braces.
void take_initialiser(Lexer& lexer, Variable& variable, const ModuleNames& names);

}  // namespace cubit::runtime::ptx
