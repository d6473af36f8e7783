// Proves the comparison of counters with a plan: an access that was not executed, or that met other banks than proved,
// does not agree.
#include "tools/kernels/counters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

Json site(const char* place, int requests, int wavefronts, int ideal) {
  Json result = {{"opcode", "ld.shared.b32"}, {"ptx_line", 12}, {"requests", requests}, {"wavefronts", wavefronts}};
  result["places"] = Json::array({"shared.cuh:3", place});
  result["ideal_wavefronts"] = ideal;
  return result;
}

/// Launches in sequence, each with these sites.
Json launches(const std::vector<std::vector<Json>>& sites_of) {
  Json list = Json::array();
  for (const std::vector<Json>& sites : sites_of) {
    Json launch = {{"kernel", "k"}, {"blocks", 2}, {"warps", 8}, {"barriers", 16}};
    launch["instructions"] = {{"ld.shared", 7}, {"mma", 30}};
    launch["shared"] = sites;
    launch["global"] = Json::array();
    list.push_back(std::move(launch));
  }
  return list;
}

/// A plan with one proof of two ideal wavefronts.
Json plan(int wavefronts) {
  Json proof = {{"access", "loads"}, {"degree", wavefronts / 2}, {"wavefronts", wavefronts}, {"ideal", 2}};
  proof["places"] = Json::array({"kernel.cuh:40", "kernel.cuh:41"});
  Json result;
  result["proofs"] = Json::array({std::move(proof)});
  return result;
}

Json compared(const Json& plan, const Json& counted) {
  const Json rows = compare_with_plan(plan, counted);
  EXPECT_EQ(rows.size(), 1u);
  return rows.at(0);
}

TEST(Counters, TheRatioToTheIdealAgreesOverSitesAndLaunches) {
  const Json row = compared(plan(4), launches({{site("kernel.cuh:40", 3, 6, 3), site("kernel.cuh:41", 1, 2, 1)},
                                               {site("kernel.cuh:41", 5, 10, 5), site("kernel.cuh:99", 1, 32, 1)}}));
  EXPECT_EQ(row.at("counted_requests"), 9);
  EXPECT_EQ(row.at("counted_wavefronts"), 18);
  EXPECT_EQ(row.at("counted_ideal"), 9);
  EXPECT_EQ(row.at("agrees"), true);
  EXPECT_FALSE(row.contains("places"));
}

TEST(Counters, AConflictThatWasNotProvedDoesNotAgree) {
  EXPECT_EQ(compared(plan(2), launches({{site("kernel.cuh:40", 3, 4, 3)}})).at("agrees"), false);
}

TEST(Counters, AProofOfMoreThanThereIsDoesNotAgree) {
  EXPECT_EQ(compared(plan(4), launches({{site("kernel.cuh:40", 3, 3, 3)}})).at("agrees"), false);
}

TEST(Counters, AnAccessThatWasNeverExecutedDoesNotAgree) {
  const Json row = compared(plan(2), launches({{site("kernel.cuh:99", 3, 3, 3)}}));
  EXPECT_EQ(row.at("counted_requests"), 0);
  EXPECT_EQ(row.at("agrees"), false);
}

TEST(Counters, TheTextHasARowPerPlaceAndOpcode) {
  const std::string text = counters_text(launches({{site("kernel.cuh:40", 3, 6, 3), site("kernel.cuh:40", 1, 2, 1)}}));
  EXPECT_THAT(text, AllOf(HasSubstr("k: 2 blocks, 8 warps, 16 arrivals at barriers"), HasSubstr("kernel.cuh:40"),
                          ::testing::ContainsRegex("ld\\.shared\\.b32 +4 +8 +4")));
  EXPECT_LT(text.find("mma"), text.find("ld.shared ")) << "the most frequent first";
}

}  // namespace
}  // namespace cubit::tools
