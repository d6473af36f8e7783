// Finds #include directives in two steps: from characters to logical lines without comments, then from lines to
// directives.
//
// A mistake here makes a wrong cache key. The scanner is therefore exact wherever a text can hide an #include: a quote
// inside a raw string or behind a number, a comment that spans lines of a directive, or a directive that is spread over
// two lines.
#include "codegen/include_scanner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace cubit::codegen {
namespace {

struct Line {
  std::string text;  ///< spliced lines joined; each comment replaced by one blank, each raw string by ""
  int number = 1;    ///< line number of the first character
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  // Bytes of UTF-8 sequences count as letters. The compiler also accepts a dollar sign as a letter.
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$' || (c & 0x80) != 0;
}

[[noreturn]] void refuse(std::string_view what, std::string_view name, int line, std::string rule, std::string remedy) {
  throw Failure(Status::invalid_argument, fmt::format("{} in {}, line {}", what, name, line), std::move(rule),
                std::move(remedy));
}

void refuse_word(std::string_view word, std::string_view name, int line) {
  if (!word.starts_with("__")) return;
  constexpr std::array<std::string_view, 3> kClock = {"__DATE__", "__TIME__", "__TIMESTAMP__"};
  if (std::find(kClock.begin(), kClock.end(), word) != kClock.end()) {
    refuse(word, name, line, "a kernel must not depend on the time of its compilation",
           "pass the value in the plan header or an argument");
  }
  if (word.starts_with("__has_include") || word.starts_with("__has_embed")) {
    refuse(word, name, line, "a kernel must not depend on the files of a machine",
           "include one of the given headers, or leave the check out");
  }
}

class LineReader {
 public:
  LineReader(std::string_view name, std::string_view text)
      : name_(name),
        text_(text),
        has_splices_(text.find("\\\n") != std::string_view::npos || text.find("\\\r\n") != std::string_view::npos) {
    skip_splices();
  }

  std::vector<Line> run() {
    while (!done()) step();
    finish_line();
    return std::move(lines_);
  }

 private:
  bool done() const { return next_ >= text_.size(); }

  /// Length of the line splice at `at`, or 0 if there is none. The compiler allows no blanks between backslash and
  /// newline, and accepts CR LF as a newline.
  std::size_t splice(std::size_t at) const {
    if (!has_splices_) return 0;
    const std::string_view rest = text_.substr(std::min(at, text_.size()));
    return rest.starts_with("\\\n") ? 2 : rest.starts_with("\\\r\n") ? 3 : 0;
  }

  void skip_splices() {
    for (; splice(next_) != 0; next_ += splice(next_)) ++number_;
  }

  char peek(std::size_t ahead = 0) const {
    std::size_t at = next_;
    for (; ahead > 0; --ahead) {
      ++at;
      while (splice(at) != 0) at += splice(at);
    }
    return at < text_.size() ? text_[at] : '\0';
  }

  void skip(std::size_t count = 1) {
    for (; count > 0 && !done(); --count) {
      if (text_[next_++] == '\n') ++number_;
      skip_splices();
    }
  }

  void copy() {
    line_.text += peek();
    skip();
  }

  /// Skips a whole line if the line holds plain code only. Every directive, comment, literal or refused word contains
  /// one of the characters that `remarkable` finds.
  bool skip_plain_line() {
    if (has_splices_ || !line_.text.empty() || !restarts_.empty()) return false;
    const auto remarkable = [&](std::size_t at) {
      const char c = text_[at];
      return c == '#' || c == '%' || c == '?' || c == '/' || c == '"' || c == '\'' ||
             (c == '_' && at + 1 < text_.size() && text_[at + 1] == '_');
    };
    std::size_t end = next_;
    while (end < text_.size() && text_[end] != '\n') {
      if (remarkable(end++)) return false;
    }
    next_ = end;
    if (!done()) end_line();
    return true;
  }

  void step() {
    if (skip_plain_line()) return;
    const char c = peek();
    if (c == '\n') return end_line();
    if (c == '/' && peek(1) == '/') return skip_line_comment();
    if (c == '/' && peek(1) == '*') return skip_block_comment();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return copy_number();
    if (is_word(c)) return copy_word();
    if (c == '"' || c == '\'') return copy_literal(c);
    copy();
  }

  void end_line() {
    skip();
    finish_line();
    line_ = {.text = {}, .number = number_};
  }

  void finish_line() {
    for (const Line& rest : restarts_) lines_.push_back({line_.text.substr(rest.text.size()), rest.number});
    lines_.insert(lines_.end() - static_cast<std::ptrdiff_t>(restarts_.size()), std::move(line_));
    restarts_.clear();
  }

  void skip_line_comment() {
    if (!has_splices_) {
      next_ = std::min(text_.find('\n', next_), text_.size());
      return;
    }
    while (!done() && peek() != '\n') skip();
  }

  /// Replaces a comment, even over several lines, by one blank, because "# /* … */ include" is a directive. Contrary to
  /// the standard, NVRTC also accepts "x /* … */ #include" as a directive if the comment contains a newline. The
  /// scanner counts both.
  void skip_block_comment() {
    const int begin = number_;
    line_.text += ' ';
    skip(2);
    while (!done() && !(peek() == '*' && peek(1) == '/')) skip();
    skip(2);
    if (number_ != begin) restarts_.push_back({line_.text, number_});
  }

  /// A preprocessing number, in which a quote may separate digits.
  void copy_number() {
    while (!done()) {
      const char c = peek();
      const bool exponent = c == 'e' || c == 'E' || c == 'p' || c == 'P';
      if (exponent && (peek(1) == '+' || peek(1) == '-'))
        copy();
      else if (!is_word(c) && c != '.' && !(c == '\'' && is_word(peek(1))))
        return;
      copy();
    }
  }

  std::string take_word() {
    std::string word;
    if (has_splices_) {
      for (; !done() && is_word(peek()); skip()) word += peek();
      return word;
    }
    const std::size_t first = next_;
    while (!done() && is_word(text_[next_])) ++next_;
    word = text_.substr(first, next_ - first);
    return word;
  }

  void copy_word() {
    const int line = number_;
    const std::string word = take_word();
    refuse_word(word, name_, line);
    line_.text += word;
    constexpr std::array<std::string_view, 5> kRaw = {"R", "LR", "uR", "UR", "u8R"};
    if (peek() == '"' && std::find(kRaw.begin(), kRaw.end(), word) != kRaw.end()) skip_raw_string();
  }

  /// A literal ends at the end of its line at the latest. An apostrophe in text that the compiler skips opens nothing.
  void copy_literal(char quote) {
    copy();
    while (!done() && peek() != quote && peek() != '\n') {
      if (peek() == '\\' && peek(1) != '\n') copy();
      if (!done()) copy();
    }
    if (peek() == quote) copy();
  }

  /// Line splices have no effect inside a raw string.
  void skip_raw_string() {
    const std::size_t open = text_.find('(', next_);
    const std::size_t length = open == std::string_view::npos ? 0 : open - next_ - 1;
    const std::string closing = fmt::format("){}\"", text_.substr(next_ + 1, length));
    const std::size_t end = open == std::string_view::npos ? open : text_.find(closing, open);
    if (end == std::string_view::npos) {
      refuse("a raw string", name_, number_, "the raw string does not end",
             "close the raw string, or write an ordinary string");
    }
    const std::string_view skipped = text_.substr(next_, end + closing.size() - next_);
    number_ += static_cast<int>(std::count(skipped.begin(), skipped.end(), '\n'));
    next_ += skipped.size();
    line_.text += "\"\"";
    skip_splices();
  }

  std::string_view name_;
  std::string_view text_;
  bool has_splices_;  ///< few texts have splices; without them, lines, comments and words are taken whole
  std::size_t next_ = 0;
  int number_ = 1;
  Line line_;
  std::vector<Line> restarts_;  ///< what stood in line_ before each place where a directive may begin anew
  std::vector<Line> lines_;
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Returns the text after a directive's hash, in any spelling of the hash, or nothing for other lines. NVRTC disables
/// trigraphs by default. Counting one include too many does no harm.
std::string_view directive(std::string_view line) {
  line = trim(line);
  for (const std::string_view hash : {"#", "%:", "\?\?="}) {
    if (line.starts_with(hash)) return trim(line.substr(hash.size()));
  }
  return {};
}

}  // namespace

std::vector<Include> includes_of(std::string_view name, std::string_view text) {
  std::vector<Include> includes;
  for (const Line& line : LineReader(name, text).run()) {
    std::string_view rest = directive(line.text);
    const auto length = static_cast<std::size_t>(std::find_if_not(rest.begin(), rest.end(), is_word) - rest.begin());
    const std::string_view word = rest.substr(0, length);
    if (word == "include_next" || word == "import" || word == "embed") {
      refuse(fmt::format("#{}", word), name, line.number, "templates read files by #include \"name\" only",
             "write #include \"name\" with the name of a header that was given");
    }
    if (word != "include") continue;
    rest = trim(rest.substr(length));
    includes.push_back({rest.empty() ? "nothing" : std::string(rest), line.number});
  }
  return includes;
}

}  // namespace cubit::codegen
