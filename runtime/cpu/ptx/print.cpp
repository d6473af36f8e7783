// Implements print() for the module's directives and function heads; print_body.cpp prints bodies.
#include <fmt/format.h>

#include <iterator>

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/operands.hpp"
#include "runtime/cpu/ptx/printer.hpp"

namespace cubit::runtime::ptx {
namespace {

std::string_view prefix(Linkage linkage) {
  constexpr std::string_view kNames[] = {"", ".extern ", ".visible ", ".weak ", ".common "};
  return kNames[static_cast<std::size_t>(linkage)];
}

/// Bits are printed as they are in all types except floats, where an integer would mean a value.
std::string number(std::uint64_t bits, Type type) {
  if (type == Type::f32) return fmt::format("0f{:08X}", bits);
  if (type == Type::f64) return fmt::format("0d{:016X}", bits);
  return fmt::format("{}", bits);
}

std::string value(const Module& module, const InitialValue& initial, Type type) {
  if (initial.symbol == kNone) return number(initial.bits, type);
  std::string text(module.variables[initial.symbol].name);
  if (initial.generic) text = "generic(" + text + ")";
  if (initial.bits != 0) text += fmt::format("+{}", static_cast<std::int64_t>(initial.bits));
  return text;
}

std::string initialiser(const Module& module, const Variable& variable) {
  std::string list;
  for (const InitialValue& initial : variable.initial) {
    if (!list.empty()) list += ", ";
    list += value(module, initial, variable.type);
  }
  return variable.is_array || variable.vector > 1 ? "{" + list + "}" : list;
}

std::string parameters(const std::vector<Variable>& list) {
  std::string text;
  for (const Variable& variable : list) {
    if (!text.empty()) text += ", ";
    text += ".param " + print_declarator(variable, variable.name);
  }
  return "(" + text + ")";
}

void print_head(const Function& function, std::string& dst) {
  auto out = std::back_inserter(dst);
  fmt::format_to(out, "{}{} ", prefix(function.linkage), function.is_entry ? ".entry" : ".func");
  if (!function.results.empty()) dst += parameters(function.results) + " ";
  fmt::format_to(out, "{}{}\n", function.name, parameters(function.parameters));
  for (const Directive& directive : function.directives) {
    fmt::format_to(out, ".{} {}\n", directive.name, fmt::join(directive.values, ", "));
  }
}

}  // namespace

std::string print_declarator(const Variable& variable, std::string_view name) {
  std::string text = fmt::format(".align {} ", variable.alignment);
  if (variable.vector > 1) text += fmt::format(".v{} ", variable.vector);
  text += fmt::format(".{} {}", ptx::name(variable.type), name);
  if (!variable.is_array) return text;
  return text + (variable.elements == 0 ? "[]" : fmt::format("[{}]", variable.elements));
}

std::string UniqueNames::take(const std::string& name, int index) {
  if (!is_reserved(name) && used_.insert(name).second) return name;
  std::string other = fmt::format("{}${}", name, index);
  while (!used_.insert(other).second) other += '$';
  return other;
}

std::string print(const Module& module) {
  std::string dst;
  auto out = std::back_inserter(dst);
  fmt::format_to(out, ".version {}.{}\n.target {}\n.address_size {}\n", module.version_major, module.version_minor,
                 module.target, module.address_size);
  for (const SourceFile& file : module.files) fmt::format_to(out, ".file {} \"{}\"\n", file.number, file.path);
  for (const Variable& variable : module.variables) {
    fmt::format_to(out, "{}.{} {}", prefix(variable.linkage), name(variable.space),
                   print_declarator(variable, variable.name));
    if (!variable.initial.empty()) dst += " = " + initialiser(module, variable);
    dst += ";\n";
  }
  // A body may call any function, so all functions are declared before the first body.
  for (const Function& function : module.functions) {
    print_head(function, dst);
    dst += ";\n";
  }
  for (const Function& function : module.functions) {
    if (!function.is_defined) continue;
    print_head(function, dst);
    BodyPrinter(module, function, dst).print();
  }
  return dst;
}

}  // namespace cubit::runtime::ptx
