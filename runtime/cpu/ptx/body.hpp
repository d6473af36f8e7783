// The statements between a function's braces.
#pragma once

#include <vector>

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"
#include "runtime/cpu/ptx/locations.hpp"
#include "runtime/cpu/ptx/names.hpp"

namespace cubit::runtime::ptx {

/// Registers of a whole module: `%r<1000000>` is short to write.
constexpr int kMostRegisters = 1 << 20;

class BodyParser {
 public:
  /// `function` has its parameters and results. `registers_left` is the module's budget.
  BodyParser(Lexer& lexer, Function& function, const ModuleNames& names, int& registers_left);

  /// From the opening brace to the matching closing one.
  void parse();

 private:
  /// A use of a label that may stand further down.
  struct LabelUse {
    Token name;
    int instruction = kNone;  ///< kNone: the use is in .branchtargets of `label`
    int label = kNone;
    int position = 0;  ///< which operand or target
  };

  void declare_parameters();
  void enter();
  void leave();
  void statement();
  void directive();
  void registers();
  void variables(Space space);
  void register_range(const Token& prefix, Type type);
  void label(const Token& name);
  void branch_targets(const Token& token);
  void guarded();
  void instruction(const Token& root, Guard guard);
  void operands();
  void resolve_labels();
  void bind(const LabelUse& use, int target);

  Lexer& lexer_;
  Function& function_;
  Names names_;
  Locations locations_;
  int& registers_left_;
  int location_ = kNone;
  int label_before_ = kNone;  ///< the label that the statement before this one was
  std::vector<LabelUse> uses_;
  std::vector<std::size_t> first_uses_;  ///< of each open scope
};

}  // namespace cubit::runtime::ptx
