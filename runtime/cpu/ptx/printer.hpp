// Parts of print() that print.cpp and print_body.cpp share.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "runtime/cpu/ptx/ast.hpp"

namespace cubit::runtime::ptx {

/// Hands out unique names, because the printed body is one scope: "%r1", or "%r1$7" if "%r1" is taken.
class UniqueNames {
 public:
  void reserve(std::string_view name) { used_.emplace(name); }
  std::string take(const std::string& name, int index);

 private:
  std::unordered_set<std::string> used_;
};

/// Prints "align 4 .v2 .u32 name[8]" without the state space. An unsized array prints "[]".
std::string print_declarator(const Variable& variable, std::string_view name);

/// Prints a body from the opening brace to the closing brace.
class BodyPrinter {
 public:
  BodyPrinter(const Module& module, const Function& function, std::string& dst);
  void print();

 private:
  void choose_names();
  void registers();
  void variables();
  void labels_at(int position);
  void location(int index);
  void instruction(const Instruction& instruction);
  std::string text(const Scalar& scalar) const;
  std::string text(const Operand& operand) const;
  std::string text(const AddressOperand& address) const;
  std::string text(const std::vector<Scalar>& scalars) const;
  std::string symbol(const SymbolOperand& operand) const;

  const Module& module_;
  const Function& function_;
  std::string& dst_;
  std::vector<std::string> registers_;
  std::vector<std::string> variables_;
  std::vector<std::string> labels_;
  std::vector<std::vector<int>> labels_at_;
  int location_ = kNone;
};

}  // namespace cubit::runtime::ptx
