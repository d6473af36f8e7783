// Prints the statements of one function in one scope; part of print().
#include <fmt/format.h>

#include <iterator>
#include <type_traits>

#include "runtime/cpu/ptx/printer.hpp"

namespace cubit::runtime::ptx {
namespace {

template <typename T, typename Value>
constexpr bool kIs = std::is_same_v<std::decay_t<Value>, T>;

std::string integer(const IntegerOperand& operand) {
  if (operand.is_signed) return fmt::format("{}", static_cast<std::int64_t>(operand.bits));
  return fmt::format("{}U", operand.bits);
}

std::string floating(const FloatOperand& operand) {
  return operand.is_double ? fmt::format("0d{:016X}", operand.bits) : fmt::format("0f{:08X}", operand.bits);
}

std::string offset(std::int64_t bytes) { return bytes == 0 ? "" : fmt::format("+{}", bytes); }

}  // namespace

BodyPrinter::BodyPrinter(const Module& module, const Function& function, std::string& dst)
    : module_(module), function_(function), dst_(dst), labels_at_(function.body.size() + 1) {
  choose_names();
  for (std::size_t i = 0; i < function.labels.size(); ++i) {
    labels_at_[function.labels[i].position].push_back(static_cast<int>(i));
  }
}

void BodyPrinter::choose_names() {
  UniqueNames names;
  for (const Variable& variable : module_.variables) names.reserve(variable.name);
  for (const Function& function : module_.functions) names.reserve(function.name);
  for (const Variable& variable : function_.parameters) names.reserve(variable.name);
  for (const Variable& variable : function_.results) names.reserve(variable.name);
  int index = 0;
  for (const Register& reg : function_.registers) registers_.push_back(names.take(reg.name(), index++));
  for (const Variable& variable : function_.variables)
    variables_.push_back(names.take(std::string(variable.name), index++));
  for (const Label& label : function_.labels) labels_.push_back(names.take(std::string(label.name), index++));
}

void BodyPrinter::registers() {
  for (std::size_t i = 0; i < registers_.size(); ++i) {
    fmt::format_to(std::back_inserter(dst_), "  .reg .{} {};\n", name(function_.registers[i].type), registers_[i]);
  }
}

void BodyPrinter::variables() {
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const Variable& variable = function_.variables[i];
    fmt::format_to(std::back_inserter(dst_), "  .{} {};\n", name(variable.space),
                   print_declarator(variable, variables_[i]));
  }
}

void BodyPrinter::labels_at(int position) {
  for (const int label : labels_at_[position]) {
    dst_ += labels_[label] + ":";
    std::string targets;
    for (const int target : function_.labels[label].targets) {
      targets += (targets.empty() ? " .branchtargets " : ", ") + labels_[target];
    }
    dst_ += targets.empty() ? "\n" : targets + ";\n";
  }
}

/// Prints the whole chain, outermost first, because an inlined place refers to the latest .loc of its call's place.
void BodyPrinter::location(int index) {
  if (index == location_ || index == kNone) return;
  location_ = index;
  std::vector<int> chain;
  for (int at = index; at != kNone; at = function_.locations[at].inlined_at) chain.push_back(at);
  auto out = std::back_inserter(dst_);
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
    const SourceLocation& place = function_.locations[*at];
    fmt::format_to(out, "  .loc {} {} {}", place.file, place.line, place.column);
    if (!place.function.empty()) fmt::format_to(out, ", function_name {}", place.function);
    if (place.inlined_at != kNone) {
      const SourceLocation& call = function_.locations[place.inlined_at];
      fmt::format_to(out, ", inlined_at {} {} {}", call.file, call.line, call.column);
    }
    dst_ += "\n";
  }
}

std::string BodyPrinter::symbol(const SymbolOperand& operand) const {
  const auto parameters = static_cast<int>(function_.parameters.size());
  switch (operand.kind) {
    case SymbolKind::global:
      return std::string(module_.variables[operand.index].name);
    case SymbolKind::function:
      return std::string(module_.functions[operand.index].name);
    case SymbolKind::local:
      return variables_[operand.index];
    case SymbolKind::parameter:
      break;
  }
  if (operand.index < parameters) return std::string(function_.parameters[operand.index].name);
  return std::string(function_.results[operand.index - parameters].name);
}

std::string BodyPrinter::text(const Scalar& scalar) const {
  return std::visit(
      [this](const auto& value) -> std::string {
        if constexpr (kIs<Sink, decltype(value)>) return "_";
        if constexpr (kIs<RegisterOperand, decltype(value)>)
          return (value.negated ? "!" : "") + registers_[value.index];
        if constexpr (kIs<IntegerOperand, decltype(value)>) return integer(value);
        if constexpr (kIs<FloatOperand, decltype(value)>) return floating(value);
        if constexpr (kIs<SpecialOperand, decltype(value)>) return std::string(value.name);
        if constexpr (kIs<SymbolOperand, decltype(value)>) return symbol(value) + offset(value.offset);
      },
      scalar);
}

std::string BodyPrinter::text(const std::vector<Scalar>& scalars) const {
  std::string list;
  for (const Scalar& scalar : scalars) list += (list.empty() ? "" : ", ") + text(scalar);
  return list;
}

std::string BodyPrinter::text(const AddressOperand& address) const {
  const std::string base = std::visit([this](const auto& value) { return text(Scalar(value)); }, address.base);
  const std::string coordinates = address.coordinates.empty() ? "" : ", {" + text(address.coordinates) + "}";
  return "[" + base + offset(address.offset) + coordinates + "]";
}

std::string BodyPrinter::text(const Operand& operand) const {
  return std::visit(
      [this](const auto& value) -> std::string {
        if constexpr (kIs<LabelOperand, decltype(value)>) {
          return labels_[value.index];
        } else if constexpr (kIs<AddressOperand, decltype(value)>) {
          return text(value);
        } else if constexpr (kIs<VectorOperand, decltype(value)>) {
          return "{" + text(value.elements) + "}";
        } else if constexpr (kIs<ListOperand, decltype(value)>) {
          return "(" + text(value.elements) + ")";
        } else if constexpr (kIs<PairOperand, decltype(value)>) {
          return text(value.first) + "|" + text(value.second);
        } else {
          return text(Scalar(value));
        }
      },
      operand);
}

void BodyPrinter::instruction(const Instruction& instruction) {
  dst_ += "  ";
  if (instruction.guard.predicate != kNone) {
    dst_ += (instruction.guard.negated ? "@!" : "@") + registers_[instruction.guard.predicate] + " ";
  }
  dst_ += instruction.opcode;
  std::string list;
  for (const Operand& operand : instruction.operands) list += (list.empty() ? " " : ", ") + text(operand);
  dst_ += list + ";\n";
}

void BodyPrinter::print() {
  dst_ += "{\n";
  registers();
  variables();
  for (std::size_t i = 0; i < function_.body.size(); ++i) {
    labels_at(static_cast<int>(i));
    location(function_.body[i].location);
    instruction(function_.body[i]);
  }
  labels_at(static_cast<int>(function_.body.size()));
  dst_ += "}\n";
}

}  // namespace cubit::runtime::ptx
