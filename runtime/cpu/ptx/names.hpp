// Resolves names inside a function: first in the brace scopes from the inside out, then in the module.
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"

namespace cubit::runtime::ptx {

/// Variables and functions at module scope.
using ModuleNames = std::unordered_map<std::string_view, SymbolOperand>;

/// What a name refers to; monostate: the name is not declared.
using Meaning = std::variant<std::monostate, RegisterOperand, SymbolOperand>;

class Names {
 public:
  static constexpr std::size_t kDeepest = 64;  ///< brace scopes; limits the cost of a look-up

  explicit Names(const ModuleNames& module) : module_(module) {}

  void enter(const Token& brace);
  void leave();
  std::size_t depth() const { return scopes_.size(); }

  /// Each declare function throws Failure(invalid_argument) if this scope already has the name.
  void declare(const Token& name, const Meaning& meaning);
  void declare_range(const Token& prefix, int first, int count);  ///< registers prefix0 … prefix<count-1>, with indices
                                                                  ///< from `first`
  void declare_label(const Token& name, int label);

  Meaning find(std::string_view name) const;
  int find_label(std::string_view name) const;  ///< searches the innermost scope only; kNone: not declared (yet)

 private:
  struct Range {
    int first = 0;
    int count = 0;
  };
  struct Scope {
    std::unordered_map<std::string_view, Meaning> names;
    std::unordered_map<std::string_view, Range> ranges;
    std::unordered_map<std::string_view, int> labels;

    Meaning find(std::string_view name) const;
    Meaning find_in_ranges(std::string_view name) const;
  };

  const ModuleNames& module_;
  std::vector<Scope> scopes_;
};

}  // namespace cubit::runtime::ptx
