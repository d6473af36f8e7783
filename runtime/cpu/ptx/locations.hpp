// Source places of one function, as .loc gives them: each distinct inlining chain once.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"

namespace cubit::runtime::ptx {

class Locations {
 public:
  static constexpr int kDeepest = 256;  ///< calls inlined into one another

  explicit Locations(std::vector<SourceLocation>& locations) : locations_(locations) {}

  /// After ".loc": the rest of the directive. Returns the index of the place in the list.
  int take(Lexer& lexer);

 private:
  struct Place {
    int file = 0;
    int line = 0;
    int column = 0;
    bool operator==(const Place&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Place& place) const;
  };

  static Place take_place(Lexer& lexer);
  int add(const Place& place, int inlined_at, std::string_view function, const Token& token);
  int find_or_add(const Place& place, const Token& token);

  std::vector<SourceLocation>& locations_;
  std::vector<int> depths_;
  std::unordered_map<Place, int, Hash> latest_;
};

}  // namespace cubit::runtime::ptx
