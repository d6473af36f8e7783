// The library holds its templates without comments, so rewording a comment changes no kernel's key.
#include <gtest/gtest.h>

#include <string>

#include "codegen/comment_stripper.hpp"
#include "ops/operator.hpp"
#include "runtime/cache/key.hpp"
#include "templates/embedded.hpp"

namespace cubit {
namespace {

TEST(EmbeddedTemplatesTest, NoTemplateHoldsAComment) {
  ASSERT_GT(templates::embedded().headers().size(), 50U);
  for (const codegen::Header& header : templates::embedded().headers()) {
    EXPECT_EQ(header.text, codegen::without_comments(header.text)) << header.name;
    EXPECT_EQ(header.text.find("//"), header.text.find("// access: ")) << header.name;
    EXPECT_EQ(header.text.find("/*"), std::string::npos) << header.name;
  }
}

codegen::KernelSource merge_source() {
  const codegen::Architecture& architecture = codegen::find_architecture("sm_90a");
  return ops::find_operator("merge").specialise("merge", architecture)->source();
}

/// The source with `added` at the end of each header's first line, embedded as the build embeds it.
codegen::KernelSource reworded(const std::string& added) {
  codegen::KernelSource source = merge_source();
  for (codegen::Header& header : source.headers) {
    const std::string text = std::string(header.text).insert(header.text.find('\n'), added);
    header.text = header.name == "plan.cuh" ? header.text : codegen::without_comments(text);
  }
  return source;
}

TEST(EmbeddedTemplatesTest, RewordingACommentChangesNoKey) {
  const runtime::RequestKey key = runtime::request_key(merge_source());
  EXPECT_EQ(runtime::request_key(reworded("  // A comment.")), key);
  EXPECT_EQ(runtime::request_key(reworded(" /* Another comment. */")), key);
  EXPECT_NE(runtime::request_key(reworded("\nconstexpr int kAdded = 1;")), key);
}

}  // namespace
}  // namespace cubit
