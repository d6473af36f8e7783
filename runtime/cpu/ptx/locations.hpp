// Collects the source places of one function from .loc directives. Each distinct inlining chain is stored once.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/lexer.hpp"

namespace cubit::runtime::ptx {

class Locations {
 public:
  static constexpr int kDeepest = 256;  ///< maximum depth of inlined calls

  explicit Locations(std::vector<SourceLocation>& locations) : locations_(locations) {}

  /// Parses the rest of a directive after ".loc". Returns the index of the place in the list.
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
