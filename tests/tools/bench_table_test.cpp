// Proves what an operator's benchmark table and its roofline show of made-up entries.
#include "tools/bench/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "files/text/error.hpp"
#include "tools/bench/roofline.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Json one_case() {
  return {{"group", "one KV head"},    {"name", "B=8"},      {"descriptor", "copy:rows=2"}, {"sizes", {{"batch", 8}}},
          {"target_microseconds", 20}, {"target_share", 0.5}};
}

/// The case with measurements on `device`: 2000 bytes and 16000 operations.
Json measured(double microseconds, double floor, const char* device = "NVIDIA H200") {
  Json entry = one_case();
  entry.update(Json{{"device", device},
                    {"microseconds", microseconds},
                    {"floor_microseconds", floor},
                    {"floor_share", floor / microseconds},
                    {"gigabytes_per_second", 2.0 / microseconds},
                    {"bytes", 2000},
                    {"operations", 16000},
                    {"tensor_operations_per_second", 1e12}});
  return entry;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(BenchTable, ATargetIsMetWhenAllOfItIs) {
  EXPECT_EQ(target_met(measured(20, 10)), "yes");
  EXPECT_EQ(target_met(measured(20.1, 15)), "no");  // too slow
  EXPECT_EQ(target_met(measured(19, 9)), "no");     // below its share
  EXPECT_EQ(target_met(one_case()), "");            // not measured
  Json without = measured(20, 10);
  without["target_microseconds"] = without["target_share"] = nullptr;
  EXPECT_EQ(target_met(without), "");
}

TEST(BenchTable, MicrosecondsOfAnotherDeviceAreNotJudged) {
  EXPECT_EQ(target_met(measured(900, 600, "a small GPU")), "yes");
  EXPECT_EQ(target_met(measured(900, 100, "a small GPU")), "no");
}

TEST(BenchTable, ShowsWhatWasMeasuredAndWhyTheRestWasNot) {
  Json skipped = one_case();
  skipped["name"] = "B=9";
  skipped["skipped"] = "a later version";
  const std::string text = bench_table_text(Json::array({measured(20, 10), skipped}));
  EXPECT_THAT(text, AllOf(HasSubstr("one KV head\n"), HasSubstr("20.0 us, 50%"), HasSubstr("50.0%  20.0 us"),
                          HasSubstr("B=9, copy:rows=2: not measured: a later version\n")));
}

TEST(BenchTable, CasesAloneShowTheirSizes) {
  const std::string text = bench_table_text(Json::array({one_case()}));
  EXPECT_THAT(text, AllOf(HasSubstr("batch=8"), HasSubstr("20.0 us, 50%"), Not(HasSubstr("floor us"))));
}

TEST(BenchTable, OtherSizesHaveNoTarget) {
  const Json changed = with_sizes(Json::array({one_case()}), {{"batch", 2}, {"context", 16}});
  EXPECT_EQ(changed[0]["sizes"], (Json{{"batch", 2}, {"context", 16}}));
  EXPECT_TRUE(changed[0]["target_microseconds"].is_null());
  EXPECT_TRUE(changed[0]["target_share"].is_null());
  EXPECT_EQ(with_sizes(Json::array({one_case()}), {})[0], one_case());
}

TEST(BenchTable, CasesAreChosenByAnyOfTheirTexts) {
  const Json cases = Json::array({one_case()});
  for (const char* part : {"KV head", "B=8", "rows=2"}) EXPECT_EQ(matching(cases, part).size(), 1u) << part;
  EXPECT_TRUE(matching(cases, "B=9").empty());
}

Json operators_with_decompositions() {
  return Json::array(
      {{{"name", "copy"},
        {"bench", Json::array({one_case()})},
        {"decompositions",
         {{{"name", "whole"}, {"numbers", {{"parts", 1}}}}, {{"name", "halves"}, {"numbers", {{"parts", 2}}}}}}},
       {{"name", "read"}, {"bench", Json::array({one_case()})}, {"decompositions", Json::array()}}});
}

TEST(BenchTable, EveryCaseComesWithEveryDecomposition) {
  const Json operators = operators_with_decompositions();
  const Json entries = with_decompositions(Json::array({one_case(), one_case()}), operators, "copy", "all");
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0]["decomposition"], "whole");
  EXPECT_EQ(entries[1]["decomposition"], "halves");
  EXPECT_EQ(entries[3]["sizes"], (Json{{"batch", 8}, {"parts", 2}}));
  EXPECT_TRUE(entries[3]["target_microseconds"].is_null()) << "a target is the best decomposition's";
  EXPECT_EQ(first_decomposition(operators, "copy"), "whole");
  EXPECT_EQ(with_decompositions(Json::array({one_case()}), operators, "copy", "halves").size(), 1u);
  EXPECT_THAT(bench_table_text(entries), AllOf(HasSubstr("B=8, whole"), HasSubstr("batch=8,parts=2")));
}

TEST(BenchTable, OnlyTheDecompositionsOfAnOperatorAreAccepted) {
  const auto refusal = [](const std::string& name, const std::string& wanted) -> std::string {
    try {
      with_decompositions(Json::array({one_case()}), operators_with_decompositions(), name, wanted);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("copy", "thirds"),
            "--decomposition thirds: copy has no such decomposition; accepted: all, whole, halves");
  EXPECT_EQ(refusal("read", "all"), "--decomposition all: read has only one decomposition; leave --decomposition out");
}

TEST(BenchTable, ASpeedupIsOverTheFirstDecompositionOfTheSameCase) {
  const auto entry = [](const char* name, const char* decomposition, double microseconds) {
    Json made = measured(microseconds, 10);
    made["name"] = name;
    made["decomposition"] = decomposition;
    return made;
  };
  Json not_measured = one_case();
  not_measured.update(Json{{"name", "B=9"}, {"decomposition", "whole"}, {"skipped", "too large"}});
  Json entries = Json::array({entry("B=8", "whole", 30), entry("B=8", "halves", 20), entry("B=8", "thirds", 60),
                              not_measured, entry("B=9", "halves", 20)});
  add_speedups(entries, "whole");
  EXPECT_DOUBLE_EQ(entries[0]["speedup"], 1);
  EXPECT_DOUBLE_EQ(entries[1]["speedup"], 1.5);
  EXPECT_DOUBLE_EQ(entries[2]["speedup"], 0.5);
  EXPECT_FALSE(entries[4].contains("speedup")) << "there is nothing to compare it with";
  EXPECT_THAT(bench_table_text(entries), AllOf(HasSubstr("speedup"), HasSubstr("  1.50  "), HasSubstr("B=8, halves"),
                                               HasSubstr("B=9, whole, copy:rows=2: not measured: too large")));
}

TEST(BenchTable, UnknownOperatorsAreBadInput) {
  const Json operators = Json::array({{{"name", "copy"}, {"bench", Json::array({one_case()})}}});
  EXPECT_EQ(bench_cases(operators, "copy").size(), 1u);
  EXPECT_THROW(bench_cases(operators, "cop"), BadInput);
}

TEST(Roofline, HasAPointAndAFloorForEveryMeasurement) {
  Json skipped = one_case();
  skipped["skipped"] = "a later version";
  const std::string svg = roofline_picture(Json::array({skipped, measured(20, 10), measured(40, 10)}));
  EXPECT_EQ(count(svg, "class=\"point\""), 2);
  EXPECT_EQ(count(svg, "class=\"floor\""), 2);
  EXPECT_EQ(count(svg, "class=\"limit\""), 2);
  EXPECT_EQ(count(svg, "class=\"key\""), 1);
  EXPECT_THAT(svg, AllOf(HasSubstr("Roofline: NVIDIA H200"), HasSubstr(">B=8 50%<"), HasSubstr(">B=8 25%<"),
                         HasSubstr("tensor cores, fp16: 1 Top/s"), HasSubstr("read floor: 200 MB/s")));
}

TEST(Roofline, WithoutATensorLimitOnlyTheMemoryLineIsDrawn) {
  Json entry = measured(20, 10);
  entry["tensor_operations_per_second"] = 0;
  EXPECT_EQ(count(roofline_picture(Json::array({entry})), "class=\"limit\""), 1);
}

TEST(Roofline, OfNothingSaysSo) {
  EXPECT_THAT(roofline_picture(Json::array({one_case()})), HasSubstr("Nothing was measured"));
}

// Many kernels at their floor: every label finds a place, and no label is lost.
TEST(Roofline, LabelsOfPointsInOnePlaceAreAllThere) {
  Json entries = Json::array();
  for (int i = 0; i < 12; ++i) entries.push_back(measured(10, 10));
  EXPECT_EQ(count(roofline_picture(entries), ">B=8 100%<"), 12);
}

}  // namespace
}  // namespace cubit::tools
