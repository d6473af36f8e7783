// Implements name resolution. PTX ISA, "Parameterized Variable Names" and "Labels".
#include "runtime/cpu/ptx/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace cubit::runtime::ptx {
namespace {

constexpr std::size_t kLongestNumber = 7;  // a module has fewer than 10^7 registers

[[noreturn]] void fail_twice(const Token& name) { Lexer::fail(name, "this name is declared twice in one scope"); }

std::size_t trailing_digits(std::string_view name) {
  std::size_t count = 0;
  while (count < name.size() && name[name.size() - 1 - count] >= '0' && name[name.size() - 1 - count] <= '9') ++count;
  return count;
}

}  // namespace

void Names::enter(const Token& brace) {
  if (scopes_.size() >= kDeepest) Lexer::refuse(brace, fmt::format("braces are nested deeper than {}", kDeepest));
  scopes_.emplace_back();
}

void Names::leave() { scopes_.pop_back(); }

void Names::declare(const Token& name, const Meaning& meaning) {
  if (!scopes_.back().names.emplace(name.text, meaning).second) fail_twice(name);
}

void Names::declare_range(const Token& prefix, int first, int count) {
  if (!scopes_.back().ranges.emplace(prefix.text, Range{first, count}).second) fail_twice(prefix);
}

void Names::declare_label(const Token& name, int label) {
  if (!scopes_.back().labels.emplace(name.text, label).second) fail_twice(name);
}

/// "%f16" may be number 16 of "%f" or number 6 of "%f1".
Meaning Names::Scope::find_in_ranges(std::string_view name) const {
  if (ranges.empty()) return {};
  const std::size_t most = std::min(trailing_digits(name), kLongestNumber);
  for (std::size_t length = 1; length <= most; ++length) {
    const std::string_view digits = name.substr(name.size() - length);
    if (length > 1 && digits[0] == '0') continue;
    const auto range = ranges.find(name.substr(0, name.size() - length));
    if (range == ranges.end()) continue;
    int number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (number < range->second.count) return RegisterOperand{range->second.first + number};
  }
  return {};
}

Meaning Names::Scope::find(std::string_view name) const {
  const auto found = names.find(name);
  return found != names.end() ? found->second : find_in_ranges(name);
}

Meaning Names::find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const Meaning meaning = scope->find(name);
    if (meaning.index() != 0) return meaning;
  }
  const auto found = module_.find(name);
  return found == module_.end() ? Meaning() : Meaning(found->second);
}

int Names::find_label(std::string_view name) const {
  const auto found = scopes_.back().labels.find(name);
  return found == scopes_.back().labels.end() ? kNone : found->second;
}

}  // namespace cubit::runtime::ptx
