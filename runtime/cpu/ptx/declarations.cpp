// Implements the parsing of declarations. PTX ISA, "Variables".
#include "runtime/cpu/ptx/declarations.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/ptx/literal.hpp"

namespace cubit::runtime::ptx {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr std::int64_t kLargestAlignment = 1 << 20;

std::int64_t take_alignment(Lexer& lexer) {
  const Token token = lexer.peek();
  const std::int64_t alignment = take_count(lexer, "an alignment", kLargestAlignment);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) Lexer::fail(token, "an alignment is a power of two");
  return alignment;
}

/// `.ptr .global .align 4` says what a pointer parameter points to. The CPU device does not need this fact.
void skip_pointer_attributes(Lexer& lexer) {
  if (!lexer.accept(".ptr")) return;
  Space space;
  accept_space(lexer, space);
  if (lexer.accept(".align")) take_alignment(lexer);
}

InitialValue take_address(Lexer& lexer, const ModuleNames& names) {
  InitialValue value;
  value.generic = lexer.accept("generic");
  if (value.generic) lexer.expect('(');
  const Token token = lexer.expect(TokenKind::name, "a number or a variable");
  const auto found = names.find(token.text);
  if (found == names.end() || found->second.kind != SymbolKind::global) {
    Lexer::fail(token, "no variable of this name was declared before");
  }
  value.symbol = found->second.index;
  if (value.generic) lexer.expect(')');
  if (lexer.accept('+') || lexer.peek().is('-')) value.bits = static_cast<std::uint64_t>(take_offset(lexer));
  return value;
}

InitialValue take_value(Lexer& lexer, Type type, const ModuleNames& names) {
  if (lexer.peek().kind == TokenKind::name) return take_address(lexer, names);
  if (lexer.peek().is('{')) Lexer::refuse(lexer.peek(), "nested initialisers are not read", "write the array flat");
  InitialValue value;
  value.bits = initial_bits(take_literal(lexer), type);
  if (lexer.peek().is('(')) Lexer::refuse(lexer.peek(), "byte masks of an address are not read");
  return value;
}

}  // namespace

bool accept_space(Lexer& lexer, Space& dst) {
  for (const Space space : {Space::param, Space::shared, Space::local, Space::global, Space::constant}) {
    if (lexer.peek().kind != TokenKind::dotted || lexer.peek().text.substr(1) != name(space)) continue;
    lexer.take();
    dst = space;
    return true;
  }
  return false;
}

Type take_scalar_type(Lexer& lexer) {
  const Token token = lexer.expect(TokenKind::dotted, "a type such as .b32");
  Type type;
  if (!find_type(token.text.substr(1), type)) {
    Lexer::fail(token, "a variable cannot have this type",
                "accepted: .pred .b8-.b128 .u8-.u64 .s8-.s64 .f16 .bf16 .f32 .f64");
  }
  return type;
}

Variable take_type(Lexer& lexer, Space space) {
  Variable variable;
  variable.space = space;
  std::int64_t alignment = 1;
  if (lexer.accept(".align")) alignment = take_alignment(lexer);
  if (lexer.accept(".v2")) variable.vector = 2;
  if (lexer.accept(".v4")) variable.vector = 4;
  variable.type = take_scalar_type(lexer);
  skip_pointer_attributes(lexer);
  variable.alignment = std::max<std::int64_t>(alignment, bytes(variable.type) * variable.vector);
  return variable;
}

Token take_declarator(Lexer& lexer, Variable& variable) {
  const Token token = lexer.expect(TokenKind::name, "the name of a variable");
  variable.name = token.text;
  while (lexer.accept('[')) {
    variable.is_array = true;
    const std::int64_t extent = lexer.peek().is(']') ? 0 : take_count(lexer, "an array extent", kMostElements);
    if (extent > 0 && variable.elements > kMostElements / extent) {
      Lexer::refuse(token, fmt::format("this variable has more than {} elements", kMostElements));
    }
    variable.elements *= extent;
    lexer.expect(']');
  }
  return token;
}

void take_initialiser(Lexer& lexer, Variable& variable, const ModuleNames& names) {
  const Token start = lexer.peek();
  if (!lexer.accept('{')) {
    variable.initial.push_back(take_value(lexer, variable.type, names));
  } else if (!lexer.accept('}')) {
    do {
      variable.initial.push_back(take_value(lexer, variable.type, names));
    } while (lexer.accept(','));
    lexer.expect('}');
  }
  const auto given = static_cast<std::int64_t>(variable.initial.size());
  if (variable.is_array && variable.elements == 0) variable.elements = (given + variable.vector - 1) / variable.vector;
  if (given > variable.elements * variable.vector) {
    Lexer::fail(start, fmt::format("{} initial values for {} elements", given, variable.elements * variable.vector));
  }
}

}  // namespace cubit::runtime::ptx
