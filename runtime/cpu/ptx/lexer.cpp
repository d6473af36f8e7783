// Implements the lexer. PTX ISA, "Syntax".
#include "runtime/cpu/ptx/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cubit::runtime::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool starts_name(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
bool continues_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }
bool is_punctuation(char c) { return std::string_view(",;:{}[]()<>@!|+-=").find(c) != std::string_view::npos; }

std::string where(const Token& token) {
  if (token.kind == TokenKind::end) return fmt::format("PTX line {}, the end of the text", token.line);
  return fmt::format("PTX line {}, '{}'", token.line, excerpt(token.text));
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 60;
  std::string shown(text.substr(0, kShown));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text.size() > kShown ? shown + "..." : shown;
}

void Lexer::fail(const Token& token, std::string rule, std::string remedy) {
  throw Failure(Status::invalid_argument, where(token), std::move(rule), std::move(remedy));
}

void Lexer::refuse(const Token& token, std::string rule, std::string remedy) {
  throw Failure(Status::unsupported, where(token), std::move(rule), std::move(remedy));
}

Lexer::Lexer(std::string_view text) : text_(text) {
  // NVRTC includes the terminating zero in the size that it reports.
  while (!text_.empty() && text_.back() == '\0') text_.remove_suffix(1);
  next_ = scan();
}

Token Lexer::take() {
  const Token taken = next_;
  if (taken.kind != TokenKind::end) next_ = scan();
  return taken;
}

bool Lexer::accept(char c) {
  if (!next_.is(c)) return false;
  take();
  return true;
}

bool Lexer::accept(std::string_view w) {
  if (!next_.is(w)) return false;
  take();
  return true;
}

void Lexer::expect(char c) {
  if (!accept(c)) fail(next_, fmt::format("'{}' was expected here", c));
}

Token Lexer::expect(TokenKind kind, std::string_view what) {
  if (next_.kind != kind) fail(next_, fmt::format("{} was expected here", what));
  return take();
}

void Lexer::skip_block_comment() {
  const std::size_t close = text_.find("*/", at_ + 2);
  if (close == std::string_view::npos) fail(token(TokenKind::punctuation, at_ + 2), "this comment does not end");
  for (; at_ < close + 2; ++at_) line_ += text_[at_] == '\n';
}

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const std::string_view two = text_.substr(at_, 2);
    if (two == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (two == "/*") {
      skip_block_comment();
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v') {
      line_ += c == '\n';
      ++at_;
    } else {
      return;
    }
  }
}

std::size_t Lexer::end_of_name(std::size_t at) const {
  while (at < text_.size() && continues_name(text_[at])) ++at;
  return at;
}

/// Modifiers may begin with a digit (".2d") and contain "::" (".L2::128B").
std::size_t Lexer::end_of_dotted(std::size_t at) const {
  while (true) {
    at = end_of_name(at);
    if (text_.substr(at, 2) != "::") return at;
    at += 2;
  }
}

std::size_t Lexer::end_of_string(std::size_t at) const {
  for (; at < text_.size() && text_[at] != '\n'; ++at) {
    if (text_[at] == '\\') {
      ++at;
    } else if (text_[at] == '"') {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

Token Lexer::token(TokenKind kind, std::size_t end) {
  const Token made{kind, text_.substr(at_, end - at_), line_};
  at_ = end;
  return made;
}

Token Lexer::scan() {
  skip_space();
  if (at_ >= text_.size()) return {TokenKind::end, {}, line_};
  const char c = text_[at_];
  if (starts_name(c)) return token(TokenKind::name, end_of_name(at_ + 1));
  if (is_digit(c)) {
    std::size_t end = end_of_name(at_);
    if (text_.substr(end, 1) == ".") end = end_of_name(end + 1);
    return token(TokenKind::number, end);
  }
  if (c == '.') {
    const std::size_t end = end_of_dotted(at_ + 1);
    if (end > at_ + 1) return token(TokenKind::dotted, end);
  }
  if (c == '"') {
    const std::size_t end = end_of_string(at_ + 1);
    if (end == std::string_view::npos) fail(token(TokenKind::string, at_ + 1), "this string does not end on its line");
    return token(TokenKind::string, end);
  }
  if (is_punctuation(c)) return token(TokenKind::punctuation, at_ + 1);
  fail(token(TokenKind::punctuation, at_ + 1), "no PTX token begins with this character");
}

}  // namespace cubit::runtime::ptx
