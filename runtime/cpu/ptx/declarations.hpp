// Parses variable declarations of a module, a parameter list or a body.
#pragma once

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"
#include "runtime/cpu/ptx/names.hpp"

namespace cubit::runtime::ptx {

/// If the next token is a state-space directive, takes the token and returns true.
bool accept_space(Lexer& lexer, Space& dst);

/// Parses the part before the names of a declaration: alignment, vector size, type, and `.ptr` of a parameter.
Variable take_type(Lexer& lexer, Space space);

/// Parses a scalar type such as ".b32".
Type take_scalar_type(Lexer& lexer);

/// Parses a name and its array extents and adds them to the result of take_type(). Returns the name's token.
Token take_declarator(Lexer& lexer, Variable& variable);

/// Parses the text after '=': a number, an address, or a list of these in braces.
void take_initialiser(Lexer& lexer, Variable& variable, const ModuleNames& names);

}  // namespace cubit::runtime::ptx
