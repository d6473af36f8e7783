// Implements BodyParser. Scopes are counted instead of parsed recursively, so that no text can exhaust the stack.
#include "runtime/cpu/ptx/body.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/cpu/ptx/declarations.hpp"
#include "runtime/cpu/ptx/literal.hpp"
#include "runtime/cpu/ptx/operands.hpp"

namespace cubit::runtime::ptx {
namespace {

/// A name that is made here has no position of its own in the text.
Token named(std::string_view name, int line) { return {TokenKind::name, name, line}; }

}  // namespace

BodyParser::BodyParser(Lexer& lexer, Function& function, const ModuleNames& names, int& registers_left)
    : lexer_(lexer),
      function_(function),
      names_(names),
      locations_(function.locations),
      registers_left_(registers_left) {}

void BodyParser::declare_parameters() {
  int index = 0;
  for (const std::vector<Variable>* list : {&function_.parameters, &function_.results}) {
    for (const Variable& variable : *list) {
      names_.declare(named(variable.name, function_.ptx_line), SymbolOperand{SymbolKind::parameter, index++});
    }
  }
}

void BodyParser::parse() {
  enter();
  declare_parameters();
  while (names_.depth() > 0) statement();
}

void BodyParser::enter() {
  names_.enter(lexer_.peek());
  lexer_.expect('{');
  first_uses_.push_back(uses_.size());
}

void BodyParser::leave() {
  lexer_.expect('}');
  resolve_labels();
  names_.leave();
  first_uses_.pop_back();
  if (names_.depth() > 0 || uses_.empty()) return;
  Lexer::fail(uses_.front().name, "no such label, register or variable in this scope");
}

void BodyParser::resolve_labels() {
  std::size_t kept = first_uses_.back();
  for (std::size_t i = kept; i < uses_.size(); ++i) {
    const int target = names_.find_label(uses_[i].name.text);
    if (target == kNone) {
      uses_[kept++] = uses_[i];
    } else {
      bind(uses_[i], target);
    }
  }
  uses_.resize(kept);
}

void BodyParser::bind(const LabelUse& use, int target) {
  if (use.instruction == kNone) {
    function_.labels[use.label].targets[use.position] = target;
  } else {
    function_.body[use.instruction].operands[use.position] = LabelOperand{target};
  }
}

void BodyParser::statement() {
  const Token& next = lexer_.peek();
  if (next.kind == TokenKind::dotted) return directive();
  if (next.kind == TokenKind::name) {
    const Token name = lexer_.take();
    return lexer_.accept(':') ? label(name) : instruction(name, {});
  }
  label_before_ = kNone;
  if (next.is('{')) return enter();
  if (next.is('}')) return leave();
  if (next.is('@')) return guarded();
  if (lexer_.accept(';')) return;
  Lexer::fail(next, "an instruction, a label, a directive or a brace was expected here");
}

void BodyParser::directive() {
  const int label = std::exchange(label_before_, kNone);
  Space space;
  if (accept_space(lexer_, space)) return variables(space);
  const Token token = lexer_.take();
  if (token.is(".reg")) return registers();
  if (token.is(".loc")) {
    location_ = locations_.take(lexer_);
  } else if (token.is(".pragma")) {
    // A hint to ptxas, for example about unrolling.
    lexer_.expect(TokenKind::string, "a string");
    lexer_.expect(';');
  } else if (token.is(".branchtargets")) {
    label_before_ = label;
    branch_targets(token);
  } else {
    Lexer::refuse(token, "this directive is not read in a function",
                  "known: .reg .shared .local .param .loc .pragma .branchtargets");
  }
}

void BodyParser::registers() {
  const Token start = lexer_.peek();
  if (start.is(".v2") || start.is(".v4")) Lexer::refuse(start, "vector registers are not read", "name each register");
  const Type type = take_scalar_type(lexer_);
  do {
    const Token name = lexer_.expect(TokenKind::name, "the name of a register");
    if (lexer_.accept('<')) {
      register_range(name, type);
      continue;
    }
    if (registers_left_-- <= 0) Lexer::refuse(name, fmt::format("a module has at most {} registers", kMostRegisters));
    names_.declare(name, RegisterOperand{static_cast<int>(function_.registers.size())});
    function_.registers.push_back({type, name.text, kNone});
  } while (lexer_.accept(','));
  lexer_.expect(';');
}

void BodyParser::register_range(const Token& prefix, Type type) {
  const int count = static_cast<int>(take_count(lexer_, "a number of registers", kMostRegisters));
  lexer_.expect('>');
  if (count > registers_left_) {
    Lexer::refuse(prefix, fmt::format("a module has at most {} registers", kMostRegisters));
  }
  registers_left_ -= count;
  names_.declare_range(prefix, static_cast<int>(function_.registers.size()), count);
  for (int i = 0; i < count; ++i) function_.registers.push_back({type, prefix.text, i});
}

void BodyParser::variables(Space space) {
  if (space == Space::global || space == Space::constant) {
    Lexer::refuse(lexer_.peek(), "global and constant variables are declared outside functions");
  }
  const Variable type = take_type(lexer_, space);
  do {
    Variable variable = type;
    const Token token = take_declarator(lexer_, variable);
    names_.declare(token, SymbolOperand{SymbolKind::local, static_cast<int>(function_.variables.size())});
    function_.variables.push_back(std::move(variable));
  } while (lexer_.accept(','));
  lexer_.expect(';');
}

void BodyParser::label(const Token& name) {
  label_before_ = static_cast<int>(function_.labels.size());
  names_.declare_label(name, label_before_);
  function_.labels.push_back({name.text, static_cast<int>(function_.body.size()), {}});
}

void BodyParser::branch_targets(const Token& token) {
  const int owner = std::exchange(label_before_, kNone);
  if (owner == kNone) Lexer::fail(token, "a label must stand before .branchtargets");
  std::vector<int>& targets = function_.labels[owner].targets;
  do {
    const Token name = lexer_.expect(TokenKind::name, "a label");
    uses_.push_back({name, kNone, owner, static_cast<int>(targets.size())});
    targets.push_back(kNone);
  } while (lexer_.accept(','));
  lexer_.expect(';');
}

void BodyParser::guarded() {
  lexer_.expect('@');
  Guard guard;
  guard.negated = lexer_.accept('!');
  const Token name = lexer_.expect(TokenKind::name, "a predicate register");
  const Meaning meaning = names_.find(name.text);
  const auto* predicate = std::get_if<RegisterOperand>(&meaning);
  if (!predicate || function_.registers[predicate->index].type != Type::pred) {
    Lexer::fail(name, "a guard is a predicate register of this scope");
  }
  guard.predicate = predicate->index;
  instruction(lexer_.expect(TokenKind::name, "an instruction"), guard);
}

void BodyParser::instruction(const Token& root, Guard guard) {
  label_before_ = kNone;
  if (root.text[0] < 'a' || root.text[0] > 'z') Lexer::fail(root, "no instruction has this name");
  Instruction result;
  result.root = root.text;
  result.guard = guard;
  result.ptx_line = root.line;
  result.location = location_;
  Token last = root;
  while (lexer_.peek().kind == TokenKind::dotted && last.touches(lexer_.peek())) {
    last = lexer_.take();
    result.modifiers.push_back(last.text.substr(1));
  }
  const char* const start = root.text.data();
  result.opcode = {start, static_cast<std::size_t>(last.text.data() + last.text.size() - start)};
  function_.body.push_back(std::move(result));
  if (lexer_.accept(';')) return;
  operands();
  lexer_.expect(';');
}

void BodyParser::operands() {
  const int instruction = static_cast<int>(function_.body.size()) - 1;
  std::vector<Operand>& list = function_.body.back().operands;
  do {
    Token label;
    list.push_back(take_operand(lexer_, names_, label));
    if (label.kind != TokenKind::end) {
      uses_.push_back({label, instruction, kNone, static_cast<int>(list.size()) - 1});
    }
  } while (lexer_.accept(','));
}

}  // namespace cubit::runtime::ptx
