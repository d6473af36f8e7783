// Proves that foreign text never reaches a terminal unescaped or at full length, and that harmless text stays
// unchanged.
#include "files/text/quote.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/text/error.hpp"
#include "files/text/format.hpp"

namespace cubit::tools {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Printable, EveryControlByteIsEscaped) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const bool harmless = byte >= 0x20 && byte < 0x7f;
    EXPECT_EQ(printable(text) == text, harmless) << byte;
    EXPECT_EQ(printable(text, Lines::many) == text, harmless || byte == '\n' || byte == '\t') << byte;
  }
  EXPECT_EQ(printable("a\x1b[2Jb\nc"), "a\\x1b[2Jb\\nc");
}

TEST(Printable, OtherScriptsStayButNotTheirControls) {
  EXPECT_EQ(printable("\u00e4\u6f22\U0001f600"), "\u00e4\u6f22\U0001f600");
  for (const char* control : {"\u0080", "\u009b", "\u2028", "\u202e", "\u2066", "\u200f"}) {
    EXPECT_THAT(printable(control), StartsWith("\\x")) << control;
  }
  for (const char* broken : {"\xc3", "\xe6\xbc", "\xf0\x9f\x98", "\xff", "\xc0\x80", "\x80"}) {
    EXPECT_THAT(printable(broken), StartsWith("\\x")) << broken;
  }
}

TEST(Shortened, SaysHowLongItWas) {
  EXPECT_EQ(shortened(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(shortened(std::string(2048, 'a')), std::string(200, 'a') + "\u2026 (2.0 KiB)");
  const std::string cut = shortened("a\u00e4" + std::string(9, 'b'), 2);  // the limit is inside the second character
  EXPECT_EQ(cut, "a\u2026 (12 bytes)");
}

TEST(CommandErrors, AreShortWhateverWasGiven) {
  const BadInput error(std::string(1 << 20, 'x') + "\n", "is wrong", "give another");
  EXPECT_LT(std::string(error.what()).size(), 300u);
  EXPECT_THAT(error.what(), EndsWith("(1.0 MiB): is wrong; give another"));
  EXPECT_STREQ(BadInput("a\nb", "is wrong", "give c").what(), "a\\nb: is wrong; give c");
}

TEST(Tables, CellsAreEscaped) { EXPECT_THAT(format_table({{"name"}}, {{"\x1b[2J"}}), HasSubstr("\\x1b[2J")); }

}  // namespace
}  // namespace cubit::tools
