// The process's table of user code. An entry never changes, so that a name and hash always stand for the same text.
#include "ops/user_code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.hpp"
#include "codegen/identifier.hpp"
#include "runtime/cache/key.hpp"

namespace cubit::ops {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kLongestText = 65536;
constexpr std::size_t kHashDigits = 16;

/// The table is never destroyed, because other threads may still use it while the process ends.
struct Table {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> texts;  ///< by "name@hash"
};
Table& table() {
  static auto& instance = *new Table;
  return instance;
}

std::string hash_of(std::string_view text) {
  const auto hash = runtime::content_hash(text);
  std::string digits;
  for (std::size_t i = 0; i < kHashDigits / 2; ++i) digits += fmt::format("{:02x}", hash[i]);
  return digits;
}

bool is_name(std::string_view name) { return name.size() <= kLongestName && codegen::is_identifier(name); }

[[noreturn]] void reject(std::string given, std::string rule, std::string remedy) {
  throw Failure(Status::invalid_argument, std::move(given), std::move(rule), std::move(remedy));
}

}  // namespace

bool is_user_code_name(std::string_view text) {
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos || !is_name(text.substr(0, at))) return false;
  const std::string_view hash = text.substr(at + 1);
  return hash.size() == kHashDigits && hash.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string add_user_code(std::string_view name, std::string_view text, std::string_view function) {
  if (!is_name(name)) {
    reject(fmt::format("the name \"{}\"", name.substr(0, kLongestName)), "user code is named by an identifier",
           fmt::format("accepted: up to {} letters, digits and underscores, not a digit first", kLongestName));
  }
  if (text.size() > kLongestText)
    reject(fmt::format("the code of {}", name), fmt::format("it has {} bytes", text.size()),
           fmt::format("accepted: up to {}", kLongestText));
  if (text.find(function) == std::string_view::npos)
    reject(
        fmt::format("the code of {}", name), fmt::format("it does not define {}", function),
        fmt::format("accepted: code with a function {}, as templates/attention/score_user.cuh declares it", function));
  std::string key = fmt::format("{}@{}", name, hash_of(text));
  Table& known = table();
  const std::lock_guard lock(known.mutex);
  const auto [entry, is_new] = known.texts.try_emplace(key, text);
  if (!is_new && entry->second != text) reject(key, "another text has this name and hash", "give it another name");
  return key;
}

codegen::Header find_user_code(std::string_view name_and_hash) {
  Table& known = table();
  const std::lock_guard lock(known.mutex);
  const auto entry = known.texts.find(name_and_hash);
  if (entry == known.texts.end()) {
    reject(fmt::format("score={}", name_and_hash), "no code of this name and hash was added to this process",
           "add its text with cubit_add_score, or cubit … --score name=file");
  }
  return {fmt::format("user/{}.cuh", name_and_hash.substr(0, name_and_hash.find('@'))), entry->second};
}

}  // namespace cubit::ops
