// Implements the parsing of operands. PTX ISA, "Instruction Operands" and "Special Registers".
#include "runtime/cpu/ptx/operands.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/cpu/ptx/literal.hpp"

namespace cubit::runtime::ptx {
namespace {

constexpr std::uint64_t kWarpSize = 32;

/// Names without their component: "%tid" is read as part of "%tid.x".
constexpr std::string_view kSpecials[] = {
    "%tid",
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    "%clusterid",
    "%nclusterid",
    "%cluster_ctaid",
    "%cluster_nctaid",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%is_explicit_cluster",
    "%total_smem_size",
    "%dynamic_smem_size",
    "%aggr_smem_size",
    "%reserved_smem_offset_begin",
    "%reserved_smem_offset_end",
    "%reserved_smem_offset_cap",
    "%current_graph_exec",
};
constexpr std::string_view kNumberedSpecials[] = {"%pm", "%envreg", "%reserved_smem_offset_"};

bool is_special(std::string_view name) {
  if (std::find(std::begin(kSpecials), std::end(kSpecials), name) != std::end(kSpecials)) return true;
  return std::any_of(std::begin(kNumberedSpecials), std::end(kNumberedSpecials), [&](std::string_view prefix) {
    return name.size() > prefix.size() && name.substr(0, prefix.size()) == prefix && name[prefix.size()] >= '0' &&
           name[prefix.size()] <= '9';
  });
}

class OperandReader {
 public:
  OperandReader(Lexer& lexer, const Names& names, Token& label) : lexer_(lexer), names_(names), label_(label) {}

  Operand operand();

 private:
  Scalar scalar();
  Scalar named(const Token& name, const Meaning& meaning);
  Scalar special(const Token& name);
  RegisterOperand negated();
  std::int64_t offset();
  AddressOperand address();
  std::vector<Scalar> elements(char close);
  Operand name_or_label();

  Lexer& lexer_;
  const Names& names_;
  Token& label_;
};

template <typename To>
To widen(const Scalar& scalar) {
  return std::visit([](const auto& value) { return To(value); }, scalar);
}

Scalar OperandReader::special(const Token& name) {
  std::string_view whole = name.text;
  if (lexer_.peek().kind == TokenKind::dotted && name.touches(lexer_.peek())) {
    const Token component = lexer_.take();
    constexpr std::string_view kComponents[] = {".x", ".y", ".z", ".w"};
    if (std::find(std::begin(kComponents), std::end(kComponents), component.text) == std::end(kComponents)) {
      Lexer::fail(component, "a special register has the components .x, .y, .z and .w");
    }
    whole = {name.text.data(), name.text.size() + component.text.size()};
  }
  return SpecialOperand{whole};
}

/// `name` is already taken from the lexer. It has a known meaning or is a special register.
Scalar OperandReader::named(const Token& name, const Meaning& meaning) {
  if (const auto* reg = std::get_if<RegisterOperand>(&meaning)) {
    if (lexer_.peek().kind == TokenKind::dotted && name.touches(lexer_.peek())) {
      Lexer::refuse(lexer_.peek(), "elements of vector registers are not read", "cubit's templates name each register");
    }
    return *reg;
  }
  if (const auto* symbol = std::get_if<SymbolOperand>(&meaning)) {
    SymbolOperand operand = *symbol;
    operand.offset = offset();
    return operand;
  }
  if (name.text == "_") return Sink{};
  if (name.text == "WARP_SZ") return IntegerOperand{kWarpSize};
  if (is_special(name.text)) return special(name);
  if (name.text[0] == '%') Lexer::fail(name, "no such register in this scope, and no special register");
  Lexer::fail(name, "no such register or variable in this scope");
}

Scalar OperandReader::scalar() {
  if (lexer_.peek().kind == TokenKind::number || lexer_.peek().is('-')) {
    return std::visit([](const auto& number) { return Scalar(number); }, take_literal(lexer_));
  }
  if (lexer_.accept('!')) return negated();
  const Token name = lexer_.expect(TokenKind::name, "an operand");
  return named(name, names_.find(name.text));
}

RegisterOperand OperandReader::negated() {
  const Token name = lexer_.expect(TokenKind::name, "a predicate register");
  const Meaning meaning = names_.find(name.text);
  const auto* reg = std::get_if<RegisterOperand>(&meaning);
  if (!reg) Lexer::fail(name, "only a predicate register can be negated, and this is not a register");
  return {reg->index, true};
}

/// Parses "+16", "-16", "+-16" or nothing.
std::int64_t OperandReader::offset() {
  if (lexer_.accept('+') || lexer_.peek().is('-')) return take_offset(lexer_);
  return 0;
}

std::vector<Scalar> OperandReader::elements(char close) {
  std::vector<Scalar> result;
  if (lexer_.accept(close)) return result;
  do {
    result.push_back(scalar());
  } while (lexer_.accept(','));
  lexer_.expect(close);
  return result;
}

AddressOperand OperandReader::address() {
  const Token start = lexer_.peek();
  AddressOperand result;
  Scalar base = scalar();
  if (auto* symbol = std::get_if<SymbolOperand>(&base)) {
    result.offset = std::exchange(symbol->offset, 0);
    result.base = *symbol;
  } else if (const auto* reg = std::get_if<RegisterOperand>(&base); reg && !reg->negated) {
    result.base = *reg;
    result.offset = offset();
  } else if (const auto* integer = std::get_if<IntegerOperand>(&base)) {
    result.base = *integer;
  } else {
    Lexer::fail(start, "an address begins with a register, a variable or an integer");
  }
  if (lexer_.accept(',')) {
    lexer_.expect('{');
    result.coordinates = elements('}');
  }
  lexer_.expect(']');
  return result;
}

Operand OperandReader::name_or_label() {
  const Token name = lexer_.take();
  const Meaning meaning = names_.find(name.text);
  const bool could_be_label = name.text[0] != '%' && !is_reserved(name.text);
  if (meaning.index() == 0 && could_be_label) {
    label_ = name;
    return LabelOperand{kNone};
  }
  Scalar first = named(name, meaning);
  if (!lexer_.accept('|')) return widen<Operand>(first);
  return PairOperand{first, scalar()};
}

Operand OperandReader::operand() {
  if (lexer_.accept('{')) return VectorOperand{elements('}')};
  if (lexer_.accept('(')) return ListOperand{elements(')')};
  if (lexer_.accept('[')) return address();
  if (lexer_.peek().kind == TokenKind::name) return name_or_label();
  return widen<Operand>(scalar());
}

}  // namespace

bool is_reserved(std::string_view name) { return name == "_" || name == "WARP_SZ" || is_special(name); }

Operand take_operand(Lexer& lexer, const Names& names, Token& label) {
  return OperandReader(lexer, names, label).operand();
}

}  // namespace cubit::runtime::ptx
