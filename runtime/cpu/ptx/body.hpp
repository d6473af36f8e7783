// Parses the statements between a function's braces.
#pragma once

#include <vector>

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"
#include "runtime/cpu/ptx/locations.hpp"
#include "runtime/cpu/ptx/names.hpp"

namespace cubit::runtime::ptx {

/// Maximum number of registers of a module, because `%r<1000000>` is short to write.
constexpr int kMostRegisters = 1 << 20;

class BodyParser {
 public:
  /// `function` already has its parameters and results. `registers_left` is the module's remaining budget of registers.
  BodyParser(Lexer& lexer, Function& function, const ModuleNames& names, int& registers_left);

  /// Parses from the opening brace to the matching closing brace.
  void parse();

 private:
  /// A use of a label that may be defined later.
  struct LabelUse {
    Token name;
    int instruction = kNone;  ///< kNone: the use is in .branchtargets of `label`
    int label = kNone;
    int position = 0;  ///< index of the operand or target
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
  int label_before_ = kNone;  ///< the label directly before the current statement
  std::vector<LabelUse> uses_;
  std::vector<std::size_t> first_uses_;  ///< first use in each open scope
};

}  // namespace cubit::runtime::ptx
