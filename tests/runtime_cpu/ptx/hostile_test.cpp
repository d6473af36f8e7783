// Proves: damaged text gives an error or a module, never a crash, a hang or a stack overflow. fuzz_ptx.cpp goes
// further.
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>

#include "base/error.hpp"
#include "runtime/cpu/ptx/blocks.hpp"
#include "tests/runtime_cpu/ptx/nvrtc_samples.hpp"
#include "tests/runtime_cpu/ptx/sample_text.hpp"

namespace cubit::runtime::ptx {
namespace {

/// Returns whether the text was accepted. Exceptions other than Failure fail the test.
bool survives(std::string text) {
  try {
    for (const Function& function : parse(std::move(text)).functions) build_blocks(function);
    return true;
  } catch (const Failure& failure) {
    EXPECT_TRUE(failure.status() == Status::invalid_argument || failure.status() == Status::unsupported);
    return false;
  }
}

void truncate_everywhere(const std::string& text) {
  ASSERT_TRUE(survives(text));
  int refused = 0;
  for (std::size_t size = 0; size < text.size(); ++size) refused += !survives(text.substr(0, size));
  EXPECT_GT(refused, static_cast<int>(text.size() / 2));
}

/// Makes one to four edits: changes or deletes a byte, doubles or moves a passage, or inserts a word with a meaning.
std::string mutate(std::string text, std::mt19937& random) {
  constexpr const char* kWords[] = {"{", "}", "%r<99999999>", ".loc 1 1 1", "-",  "0x",
                                    "[", "@", "::",           ";",          "L:", "\0x"};
  for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
    const std::size_t at = random() % text.size();
    const std::size_t length = random() % 40;
    switch (random() % 5) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.insert(random() % text.size(), text.substr(at, length));
        break;
      default:
        text.insert(at, kWords[random() % std::size(kWords)]);
    }
    if (text.empty()) text = " ";
  }
  return text;
}

void mutate_often(const std::string& text, int rounds) {
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < rounds; ++i) refused += !survives(mutate(text, random));
  EXPECT_GT(refused, rounds / 4);
  EXPECT_LT(refused, rounds);
}

TEST(Hostile, EveryTruncationOfEveryConstruct) { truncate_everywhere(kEveryConstruct); }

TEST(Hostile, MutationsOfEveryConstruct) { mutate_often(kEveryConstruct, 5000); }

TEST(Hostile, EveryTruncationOfARealKernel) {
  const PtxCompiler* const compiler = PtxCompiler::instance();
  if (!compiler) GTEST_SKIP() << "no NVRTC on this machine";
  truncate_everywhere(compiler->compile(sample_source("stream_read", "sm_90a"), true));
}

TEST(Hostile, MutationsOfARealKernel) {
  const PtxCompiler* const compiler = PtxCompiler::instance();
  if (!compiler) GTEST_SKIP() << "no NVRTC on this machine";
  mutate_often(compiler->compile(sample_source("stream_read", "sm_120"), false), 20000);
}

TEST(Hostile, RandomBytes) {
  std::mt19937 random(13);
  for (int i = 0; i < 2000; ++i) {
    std::string text = ".version 9.0 .target sm_80 ";
    for (int length = static_cast<int>(random() % 200); length > 0; --length) text += static_cast<char>(random());
    survives(text);
  }
}

std::string repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

/// Sizes at which only a linear parser finishes in time.
TEST(Hostile, LongTexts) {
  const std::string head = ".version 9.0 .target sm_80 ";
  const std::string kernel = head + ".entry k { .reg .pred p; .reg .b32 r; ";
  EXPECT_FALSE(survives(repeat("{", 3'000'000)));
  EXPECT_FALSE(survives(kernel + repeat("{", 3'000'000)));
  EXPECT_FALSE(survives(head + ".global .b8 x = " + repeat("(", 3'000'000)));
  EXPECT_FALSE(survives(kernel + "mov.b32 r, " + repeat("-", 3'000'000)));
  EXPECT_FALSE(survives(kernel + "mov.b32 r, " + repeat("9", 3'000'000)));
  EXPECT_FALSE(survives(kernel + repeat("bra x; ", 300'000) + "}"));
  EXPECT_TRUE(survives(head + "// " + repeat("comment", 1'500'000)));
  EXPECT_TRUE(survives(head + ".section .debug_str { .b8 " + repeat("1,", 1'000'000) + "1 }"));
  EXPECT_TRUE(survives(head + ".global .b8 x[] = {" + repeat("1,", 500'000) + "1};"));
  EXPECT_TRUE(survives(kernel + "mov.b32 {" + repeat("r,", 300'000) + "r}, r; }"));
  EXPECT_TRUE(survives(kernel + repeat("{ .reg .b32 r; }", 200'000) + "}"));
  EXPECT_TRUE(survives(kernel + repeat("@p bra x; ", 100'000) + "x: ret; }"));
  EXPECT_TRUE(survives(kernel + repeat("{ @p bra x; ", 60) + repeat("@p bra x; ", 50'000) + repeat("}", 60) + "x: }"));
}

/// Irreducible control flow: two chains of blocks that cross at every step.
TEST(Hostile, LaddersOfBranches) {
  std::string text = ".version 9.0 .target sm_80 .entry k { .reg .pred p; @p bra b0; ";
  for (int i = 0; i < 20'000; ++i) {
    const std::string n = std::to_string(i);
    const std::string next = std::to_string(i + 1);
    text += "a" + n + ": @p bra b" + next + "; bra a" + next + "; b" + n + ": @p bra a" + n + "; bra b" + next + ";\n";
  }
  EXPECT_TRUE(survives(text + "a20000: ret; b20000: ret; }"));
}

}  // namespace
}  // namespace cubit::runtime::ptx
