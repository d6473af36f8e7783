// Escapes foreign text, such as names and paths, before a message or a log line contains it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace cubit {
namespace escaping {

inline bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

inline std::size_t claimed_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/// Number of bytes of the character at the front of `text`; 0 if the bytes are not a valid character.
inline std::size_t character_length(std::string_view text) {
  const std::size_t length = claimed_length(static_cast<unsigned char>(text[0]));
  if (length == 0 || length > text.size()) return 0;
  return std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(length), continues) ? length : 0;
}

/// Control characters of ASCII and Latin-1, and characters that change the direction of the text after them.
inline bool acts_on_a_terminal(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (character.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (character.size() != 3 || byte(0) != 0xe2) return false;
  const bool embeds = byte(1) == 0x80 && ((byte(2) >= 0xa8 && byte(2) <= 0xae) || byte(2) == 0x8e || byte(2) == 0x8f);
  return embeds || (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
}

inline void append_escaped(std::string& result, std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n') {
      result += "\\n";
    } else {
      constexpr const char* kDigits = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      result += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
}

/// The largest number of bytes, at most `limit`, that does not split a character.
inline std::size_t whole_characters(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text.size();
  std::size_t end = limit;
  while (end > 0 && limit - end < 4 && continues(text[end])) --end;
  return end;
}

}  // namespace escaping

/// Whether a text may have several lines; a compiler's log has several.
enum class Lines { one, many };

/// `text` with every byte escaped that a terminal would act on: control characters and invalid UTF-8.
inline std::string printable(std::string_view text, Lines lines = Lines::one) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = escaping::character_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    const bool layout = lines == Lines::many && (character == "\n" || character == "\t");
    if (length == 0 || (!layout && escaping::acts_on_a_terminal(character))) {
      escaping::append_escaped(result, character);
    } else {
      result += character;
    }
    text.remove_prefix(character.size());
  }
  return result;
}

}  // namespace cubit
