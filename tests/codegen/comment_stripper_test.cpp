// Comments leave device code before the code is embedded; code, literals, line numbers and access marks stay.
#include "codegen/comment_stripper.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace cubit::codegen {
namespace {

TEST(CommentStripperTest, LineCommentsLeaveTheirLines) {
  EXPECT_EQ(without_comments("// what\n#pragma once\nint a;  // why\n\nint b;\n"),
            "\n#pragma once\nint a;\n\nint b;\n");
}

TEST(CommentStripperTest, BlockCommentsSeparateWordsAndKeepTheirNewlines) {
  EXPECT_EQ(without_comments("int/* x */a;"), "int a;");
  EXPECT_EQ(without_comments("a /* one\n two\n three */ b\n"), "a\n\n b\n");
  EXPECT_EQ(without_comments("a /* no end"), "a");
}

TEST(CommentStripperTest, LiteralsAreNoComments) {
  for (const std::string text : {"f(\"// not one\", \"/* nor this */\");\n", "char c = '\"'; int n = 1'000; g('/');\n",
                                 "asm(\"{ \\\" // x\" :: \"r\"(a));\n", "auto s = R\"x(// \" /* )x\";\n"}) {
    EXPECT_EQ(without_comments(text), text);
  }
}

TEST(CommentStripperTest, AccessMarksStay) {
  EXPECT_EQ(without_comments("load(a);      // access: loads of keys\n"), "load(a); // access: loads of keys\n");
  EXPECT_EQ(without_comments("load(a);  // accesses: none\n"), "load(a);\n");
}

TEST(CommentStripperTest, LinesKeepTheirNumbers) {
  const std::string text = "// a\n/* b\nc */ int d;  // e\nf();\n";
  const std::string stripped = without_comments(text);
  EXPECT_EQ(std::count(stripped.begin(), stripped.end(), '\n'), std::count(text.begin(), text.end(), '\n'));
  EXPECT_EQ(stripped.find("f();"), stripped.size() - 5);
}

}  // namespace
}  // namespace cubit::codegen
