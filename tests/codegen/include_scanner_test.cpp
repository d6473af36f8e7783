// The scanner has a fast path for texts without spliced lines. Both paths must read the same includes.
#include "codegen/include_scanner.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/error.hpp"

namespace cubit::codegen {
namespace {

/// Returns operands and lines, or the refusal.
std::string reading(const std::string& text) {
  try {
    std::string result;
    for (const Include& include : includes_of("text", text)) {
      result += include.operand + ":" + std::to_string(include.line) + " ";
    }
    return result;
  } catch (const Failure& failure) {
    const std::string what = failure.what();
    return what.substr(0, what.find(" in text"));
  }
}

TEST(IncludeScanner, ReadsTheSameWithAndWithoutSplicedLines) {
  const char* const pieces[] = {"#include \"a.cuh\"\n",
                                "#include <b>",
                                "\n",
                                "// #include \"c\"",
                                "/*",
                                "*/",
                                "/* x */",
                                "word",
                                " ",
                                "\"",
                                "'",
                                "1'000",
                                "R\"(",
                                ")\"",
                                "__word",
                                "#",
                                "include",
                                "u8R",
                                ".5e+3",
                                "\\",
                                "\r",
                                "//",
                                "__TIME__",
                                "\"d\"",
                                "%:",
                                "\xc3\xa9"};
  std::mt19937 random(7);
  int includes = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto i = random() % 12; i > 0; --i) text += pieces[random() % std::size(pieces)];
    if (text.find("\\\n") != std::string::npos || text.find("\\\r\n") != std::string::npos) continue;
    const std::string plain = reading(text);
    ASSERT_EQ(plain, reading(text + "\\\n")) << text;
    includes += plain.find(':') != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(includes, 1000);
}

}  // namespace
}  // namespace cubit::codegen
