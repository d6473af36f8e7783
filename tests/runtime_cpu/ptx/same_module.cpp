// Writes every value of a module without names, and compares the texts.
#include "tests/runtime_cpu/ptx/same_module.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace cubit::runtime::ptx {
namespace {

struct Describe {
  std::string operator()(const Sink&) const { return "sink"; }
  std::string operator()(const RegisterOperand& r) const { return fmt::format("r{}{}", r.index, r.negated ? "!" : ""); }
  std::string operator()(const IntegerOperand& i) const {
    return fmt::format("i{}{}", i.bits, i.is_signed ? "s" : "u");
  }
  std::string operator()(const FloatOperand& f) const { return fmt::format("f{}{}", f.bits, f.is_double ? "d" : "f"); }
  std::string operator()(const SpecialOperand& s) const { return std::string(s.name); }
  std::string operator()(const SymbolOperand& s) const {
    return fmt::format("s{}:{}+{}", static_cast<int>(s.kind), s.index, s.offset);
  }
  std::string operator()(const LabelOperand& l) const { return fmt::format("l{}", l.index); }
  std::string operator()(const AddressOperand& a) const {
    return "[" + std::visit(*this, a.base) + fmt::format("+{}", a.offset) + list(a.coordinates) + "]";
  }
  std::string operator()(const VectorOperand& v) const { return "{" + list(v.elements) + "}"; }
  std::string operator()(const ListOperand& l) const { return "(" + list(l.elements) + ")"; }
  std::string operator()(const PairOperand& p) const {
    return std::visit(*this, p.first) + "|" + std::visit(*this, p.second);
  }
  std::string list(const std::vector<Scalar>& scalars) const {
    std::string text;
    for (const Scalar& scalar : scalars) text += std::visit(*this, scalar) + " ";
    return text;
  }
};

std::string describe(const Variable& v, bool with_name) {
  std::string text =
      fmt::format("{} {} {} v{} align {} {} x {} linkage {}:", with_name ? v.name : "", name(v.space), name(v.type),
                  v.vector, v.alignment, v.is_array, v.elements, static_cast<int>(v.linkage));
  for (const InitialValue& i : v.initial) text += fmt::format(" {}/{}/{}", i.bits, i.symbol, i.generic);
  return text;
}

std::string describe_place(const Function& f, int index) {
  std::string text;
  for (; index != kNone; index = f.locations[index].inlined_at) {
    const SourceLocation& place = f.locations[index];
    text += fmt::format(" {}:{}:{}{}", place.file, place.line, place.column, place.function);
  }
  return text;
}

std::string describe(const Function& f, const Instruction& instruction) {
  std::string text = fmt::format("@{}{} {} {}", instruction.guard.predicate, instruction.guard.negated,
                                 instruction.opcode, fmt::join(instruction.modifiers, "."));
  for (const Operand& operand : instruction.operands) text += ", " + std::visit(Describe(), operand);
  return text + " at" + describe_place(f, instruction.location);
}

void describe(const Function& f, std::vector<std::string>& lines) {
  lines.push_back(fmt::format("{} {} {} {}", f.name, f.is_entry, f.is_defined, static_cast<int>(f.linkage)));
  for (const Variable& v : f.parameters) lines.push_back(describe(v, true));
  for (const Variable& v : f.results) lines.push_back(describe(v, true));
  for (const Directive& d : f.directives) lines.push_back(fmt::format("{} {}", d.name, fmt::join(d.values, ",")));
  for (const Register& r : f.registers) lines.emplace_back(name(r.type));
  for (const Variable& v : f.variables) lines.push_back(describe(v, false));
  for (const Label& l : f.labels) lines.push_back(fmt::format("label {} {}", l.position, fmt::join(l.targets, ",")));
  for (const Instruction& i : f.body) lines.push_back(describe(f, i));
}

std::vector<std::string> describe(const Module& m) {
  std::vector<std::string> lines = {
      fmt::format("{}.{} {} {}", m.version_major, m.version_minor, m.target, m.address_size)};
  for (const SourceFile& file : m.files) lines.push_back(fmt::format("{} {}", file.number, file.path));
  for (const Variable& v : m.variables) lines.push_back(describe(v, true));
  for (const Function& f : m.functions) describe(f, lines);
  return lines;
}

}  // namespace

std::string difference(const Module& a, const Module& b) {
  const std::vector<std::string> left = describe(a);
  const std::vector<std::string> right = describe(b);
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i] != right[i]) return left[i] + "\n" + right[i];
  }
  return left.size() == right.size() ? "" : fmt::format("{} values and {}", left.size(), right.size());
}

}  // namespace cubit::runtime::ptx
