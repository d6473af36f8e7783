#include "codegen/comment_stripper.hpp"

#include <algorithm>
#include <cstddef>

namespace cubit::codegen {
namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

class Stripper {
 public:
  explicit Stripper(std::string_view text) : text_(text) {}

  std::string run() {
    while (next_ < text_.size()) step();
    drop_blanks();
    return std::move(result_);
  }

 private:
  std::string_view rest() const { return text_.substr(next_); }

  void step() {
    const char c = text_[next_];
    if (rest().starts_with("//")) return line_comment();
    if (rest().starts_with("/*")) return block_comment();
    if (rest().starts_with("R\"") && !follows_word()) return raw_string();
    if (c == '"' || (c == '\'' && !follows_word())) return literal(c);  // between digits a quote separates
    if (c == '\n') drop_blanks();
    copy(1);
  }

  bool follows_word() const { return !result_.empty() && is_word(result_.back()); }

  void copy(std::size_t count) {
    result_ += text_.substr(next_, count);
    next_ = std::min(text_.size(), next_ + count);
  }

  void drop_blanks() {
    while (!result_.empty() && (result_.back() == ' ' || result_.back() == '\t')) result_.pop_back();
  }

  void line_comment() {
    const std::string_view comment = rest().substr(0, rest().find('\n'));
    drop_blanks();
    if (comment.starts_with("// access: ")) result_ += " " + std::string(comment);
    next_ += comment.size();
  }

  /// The newlines that the comment spans; one blank where it spans none.
  void block_comment() {
    const std::size_t end = rest().find("*/", 2);
    const std::string_view comment = rest().substr(0, end == std::string_view::npos ? end : end + 2);
    const auto newlines = std::count(comment.begin(), comment.end(), '\n');
    if (newlines > 0) drop_blanks();
    result_.append(static_cast<std::size_t>(std::max<std::ptrdiff_t>(newlines, 1)), newlines > 0 ? '\n' : ' ');
    next_ += comment.size();
  }

  void literal(char quote) {
    std::size_t end = 1;
    while (end < rest().size() && rest()[end] != quote && rest()[end] != '\n') end += rest()[end] == '\\' ? 2 : 1;
    copy(end + 1);
  }

  void raw_string() {
    const std::size_t open = rest().find('(');
    if (open == std::string_view::npos) return copy(2);
    const std::string close = ")" + std::string(rest().substr(2, open - 2)) + "\"";
    const std::size_t end = rest().find(close, open);
    copy(end == std::string_view::npos ? rest().size() : end + close.size());
  }

  std::string_view text_;
  std::size_t next_ = 0;
  std::string result_;
};

}  // namespace

std::string without_comments(std::string_view text) { return Stripper(text).run(); }

}  // namespace cubit::codegen
