// Proves that option values are read exactly as written, or refused with a sentence: nothing is guessed or dropped.
#include "tools/options/arguments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tests/tools/support.hpp"

namespace cubit::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

template <class Function>
std::string refusal(Function function) {
  try {
    function();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Arguments, ListsKeepTheirOrder) {
  EXPECT_THAT(split_list("sm_80,sm_90a", "--arch"), ElementsAre("sm_80", "sm_90a"));
  EXPECT_THAT(split_list(" sm_80 , sm_86", "--arch"), ElementsAre("sm_80", "sm_86"));
  for (const char* bad : {"", ",", "sm_80,", ",sm_80", "a,,b", " "}) {
    EXPECT_THAT(refusal([&] { split_list(bad, "--arch"); }), HasSubstr("a part of the list is empty")) << bad;
  }
}

TEST(Arguments, NumbersByName) {
  EXPECT_THAT(parse_numbers("a=1,b=-2.5e-3", "--set"), ElementsAre(Pair("a", 1.0), Pair("b", -2.5e-3)));
  EXPECT_TRUE(std::isnan(parse_numbers("softmax_scale=nan", "--set")[0].second));  // the library refuses this value
}

TEST(Arguments, WhatIsNotANumberIsRefused) {
  const auto message = [](const char* text) { return refusal([&] { parse_numbers(text, "--set"); }); };
  const std::string wanted = "; give NAME=NUMBER,NAME=NUMBER";
  EXPECT_EQ(message("batch"), "--set \"batch\": is not name=number" + wanted);
  EXPECT_EQ(message("=1"), "--set \"=1\": is not name=number" + wanted);
  EXPECT_EQ(message("batch="), "--set \"batch=\": \"\" is not a number" + wanted);
  EXPECT_EQ(message("batch=two"), "--set \"batch=two\": \"two\" is not a number" + wanted);
  EXPECT_EQ(message("batch=2x"), "--set \"batch=2x\": \"2x\" is not a number" + wanted);
  EXPECT_EQ(message("batch=1e999"),
            "--set \"batch=1e999\": the number is too large or too small for 64 bits; accepted: 0, and magnitudes from "
            "1e-300 to 1e300");
  EXPECT_EQ(message("batch=1,batch=1"), "--set \"batch=1\": is given twice; leave one of the two out");
}

TEST(Arguments, TheSeedStandsAmongTheSizes) {
  const RandomCase random = parse_random("batch=2,seed=18446744073709551615,context=512", "--random");
  EXPECT_EQ(random.seed, 18446744073709551615ull);
  EXPECT_THAT(random.sizes, ElementsAre(Pair("batch", 2.0), Pair("context", 512.0)));
  EXPECT_EQ(parse_random("batch=2", "--random").seed, 1u);
}

TEST(Arguments, SizesAreFiniteAndSeedsAreIntegers) {
  const auto message = [](const char* text) { return refusal([&] { parse_random(text, "--random"); }); };
  EXPECT_THAT(message("batch=nan"), HasSubstr("a size must be finite"));
  EXPECT_THAT(message("batch=inf"), HasSubstr("a size must be finite"));
  for (const char* bad : {"seed=-1", "seed=1.5", "seed=", "seed=18446744073709551616"}) {
    EXPECT_THAT(message(bad), HasSubstr("a seed is an integer")) << bad;
  }
  EXPECT_THAT(message("seed=1,seed=2"), HasSubstr("is given twice"));
}

TEST(Arguments, FilesOfDescriptors) {
  const test::TemporaryFolder folder;
  const auto path =
      folder.write("kernels.txt", "# all of them\n\n  gqa_decode  \r\ngqa_decode:groups=4 # the small one\n\t\n#end");
  const auto lines = read_descriptors(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, "gqa_decode");
  EXPECT_EQ(lines[0].origin, path + ":3");
  EXPECT_EQ(lines[1].text, "gqa_decode:groups=4");
  EXPECT_EQ(lines[1].origin, path + ":4");
  EXPECT_TRUE(read_descriptors(folder.write("empty", "")).empty());
}

TEST(Arguments, FilesThatAreNotListsAreRefused) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(refusal([&] { read_descriptors(folder.path("missing")); }), HasSubstr("cannot be read: No such file"));
  EXPECT_THAT(refusal([&] { read_descriptors(folder.path(".")); }), HasSubstr("cannot be read"));
  const auto binary = folder.write("binary", std::string("gqa_decode\0x\n", 13));
  EXPECT_THAT(refusal([&] { read_descriptors(binary); }), HasSubstr("binary:1: holds a control character"));
}

TEST(Arguments, AByteOrderMarkIsSkippedWhereOneMayStand) {
  const test::TemporaryFolder folder;
  const auto lines = read_descriptors(folder.write("marked", "\xef\xbb\xbfgqa_decode\n\xef\xbb\xbfsecond\n"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, "gqa_decode");
  EXPECT_EQ(lines[1].text, "\xef\xbb\xbfsecond");
}

TEST(Arguments, ListsHaveLimits) {
  const test::TemporaryFolder folder;
  const auto message = [&](const std::string& content) {
    return refusal([&] { read_descriptors(folder.write("list", content)); });
  };
  EXPECT_EQ(message("#" + std::string(kLongestLine - 1, 'x') + "\n"), "accepted");
  EXPECT_THAT(message("\n#" + std::string(kLongestLine, 'x')), HasSubstr("list:2: the line is over 65536 bytes"));
  EXPECT_EQ(message(std::string(kLongestDescriptor, 'x') + " # good"), "accepted");
  EXPECT_THAT(message(std::string(kLongestDescriptor + 1, 'x')),
              HasSubstr("list:1: a descriptor of 4097 bytes is over the limit of 4096"));
  EXPECT_EQ(message(std::string(kMostListLines, '\n')), "accepted");
  EXPECT_THAT(message(std::string(kMostListLines + 1, '\n')), HasSubstr("has over 100000 lines"));
}

TEST(Arguments, AnEndlessListIsRefused) {
  EXPECT_THAT(refusal([] { read_descriptors("/dev/zero"); }), HasSubstr("/dev/zero:1: the line is over"));
}

TEST(Text, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(format_table({{"name"}, {"n", true}}, {{"a", "100"}, {"longer", "1"}}),
            "name      n\na       100\nlonger    1\n");
  EXPECT_EQ(format_table({{"name"}, {"note"}}, {{"a", ""}}), "name  note\na\n");
}

TEST(Text, SecondsAreRoundedToAUsefulUnit) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(99.4), "99 s");
  EXPECT_EQ(format_seconds(100), "2 min");
  EXPECT_EQ(format_seconds(5929), "99 min");
  EXPECT_EQ(format_seconds(7800), "2 h 10 min");
}

TEST(Text, TheTimeLeftIsThatOfTheItemsSoFar) {
  EXPECT_EQ(time_left(10, 0, 5), "");
  EXPECT_EQ(time_left(10, 2, 5), "25 s left, ");
  EXPECT_EQ(time_left(60, 1, 10), "10 min left, ");
}

TEST(Text, BytesInTheLargestUnitThatIsNotZero) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(1023), "1023 bytes");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(3.0 * 1024 * 1024 * 1024 * 1024), "3072.0 GiB");
}

}  // namespace
}  // namespace cubit::tools
