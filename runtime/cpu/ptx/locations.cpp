// Implements the parsing of .loc directives. PTX ISA, "Debugging Directives: .loc".
#include "runtime/cpu/ptx/locations.hpp"

#include <fmt/format.h>

#include <limits>

#include "runtime/cpu/ptx/literal.hpp"

namespace cubit::runtime::ptx {

std::size_t Locations::Hash::operator()(const Place& place) const {
  auto hash = static_cast<std::size_t>(place.file);
  hash = hash * 0x9E3779B97F4A7C15u + static_cast<std::size_t>(place.line);
  return hash * 0x9E3779B97F4A7C15u + static_cast<std::size_t>(place.column);
}

Locations::Place Locations::take_place(Lexer& lexer) {
  constexpr std::int64_t kLargest = std::numeric_limits<int>::max();
  Place place;
  place.file = static_cast<int>(take_count(lexer, "a file number", kLargest));
  place.line = static_cast<int>(take_count(lexer, "a source line", kLargest));
  place.column = static_cast<int>(take_count(lexer, "a source column", kLargest));
  return place;
}

int Locations::add(const Place& place, int inlined_at, std::string_view function, const Token& token) {
  const int depth = inlined_at == kNone ? 0 : depths_[inlined_at] + 1;
  if (depth > kDeepest) Lexer::refuse(token, fmt::format("calls are inlined deeper than {}", kDeepest));
  const int index = static_cast<int>(locations_.size());
  const int outermost = inlined_at == kNone ? index : locations_[inlined_at].outermost;
  locations_.push_back({place.file, place.line, place.column, inlined_at, outermost, function});
  depths_.push_back(depth);
  latest_[place] = index;
  return index;
}

/// The place of a call refers to an earlier .loc. If several match and differ in their own callers, the latest counts.
int Locations::find_or_add(const Place& place, const Token& token) {
  const auto found = latest_.find(place);
  return found != latest_.end() ? found->second : add(place, kNone, {}, token);
}

int Locations::take(Lexer& lexer) {
  const Token token = lexer.peek();
  const Place place = take_place(lexer);
  int inlined_at = kNone;
  std::string_view function;
  while (lexer.accept(',')) {
    if (lexer.accept("function_name")) {
      function = lexer.expect(TokenKind::name, "a label of .debug_str").text;
      if (lexer.accept('+')) take_offset(lexer);
    } else if (lexer.accept("inlined_at")) {
      inlined_at = find_or_add(take_place(lexer), token);
    } else {
      Lexer::fail(lexer.peek(), "function_name or inlined_at was expected here");
    }
  }
  const auto found = latest_.find(place);
  const bool known = found != latest_.end() && locations_[found->second].inlined_at == inlined_at &&
                     locations_[found->second].function == function;
  return known ? found->second : add(place, inlined_at, function, token);
}

}  // namespace cubit::runtime::ptx
