// Splits PTX text into tokens in one pass without copies: a token is a view of the text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace cubit::runtime::ptx {

enum class TokenKind {
  end,          ///< end of the text
  name,         ///< "add", "%r1", "$L__BB0_2", "_"
  dotted,       ///< ".global", ".v4", ".shared::cluster"; includes the dot
  number,       ///< "12", "0x1F", "0f3F800000", "9.0"; has no sign
  string,       ///< includes its quotes
  punctuation,  ///< one character of ,;:{}[]()<>@!|+-=
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  int line = 1;

  bool is(char c) const { return kind == TokenKind::punctuation && text[0] == c; }
  bool is(std::string_view word) const { return kind != TokenKind::string && text == word; }
  /// True if no character lies between this token and `next`.
  bool touches(const Token& next) const { return text.data() + text.size() == next.text.data(); }
};

/// Reads tokens with one token of look-ahead. Every error names the line.
class Lexer {
 public:
  explicit Lexer(std::string_view text);  ///< the text must outlive the lexer and its tokens

  const Token& peek() const { return next_; }
  Token take();
  bool accept(char c);              ///< takes the next token if it is this character
  bool accept(std::string_view w);  ///< takes the next token if it is this word
  void expect(char c);
  Token expect(TokenKind kind, std::string_view what);

  /// Throws Failure(invalid_argument) at `token`: "PTX line 12, 'foo': <rule>; <remedy>".
  [[noreturn]] static void fail(const Token& token, std::string rule, std::string remedy = {});
  /// Throws Failure(unsupported) in the same form.
  [[noreturn]] static void refuse(const Token& token, std::string rule, std::string remedy = {});

 private:
  Token scan();
  void skip_space();
  void skip_block_comment();
  std::size_t end_of_name(std::size_t at) const;
  std::size_t end_of_dotted(std::size_t at) const;
  std::size_t end_of_string(std::size_t at) const;
  Token token(TokenKind kind, std::size_t end);

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  Token next_;
};

/// The part of a text that an error shows: at most 60 characters, with '?' for characters outside ASCII.
std::string excerpt(std::string_view text);

}  // namespace cubit::runtime::ptx
