// Proves which launches the study of split-K compares, and what its table shows of made-up measurements.
#include "tools/study/split_k.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "files/text/error.hpp"
#include "tools/bench/table.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// An entry with the measurements of a kernel of 4 warps.
Json measured(Json entry, double microseconds) {
  entry.update(Json{{"microseconds", microseconds}, {"floor_share", 0.5}, {"operations", 2.0 * 16 * 4096 * 4096}});
  add_kernel_and_launch(entry, {{"registers", 168}, {"static_shared_memory", 1024}},
                        {{"threads", 128},
                         {"grid", {1, 16, 4}},
                         {"blocks", 64},
                         {"cluster_blocks", 1},
                         {"dynamic_shared_memory", 65536},
                         {"workspace_bytes", 0},
                         {"blocks_per_sm", 3},
                         {"occupancy", 0.1875}});
  return entry;
}

SplitKStudy one_cell() { return {.rows = {16}, .sizes = {4096}, .splits = {4}}; }

TEST(SplitKStudy, ComparesThePublishedShapes) {
  const Json entries = split_k_entries({});
  constexpr std::size_t kCells = 5 * 6;
  constexpr std::size_t kChoices = 1 + 4 + 4 + 1 + 1;
  ASSERT_EQ(entries.size(), kCells * kChoices);
  std::set<std::string> distinct;
  for (const Json& entry : entries) {
    EXPECT_EQ(entry.at("sizes").at("n"), entry.at("sizes").at("k"));
    EXPECT_EQ(entry.at("splits").is_null(), !entry.at("sizes").contains("splits"));
    distinct.insert(entry.at("descriptor").get<std::string>() + entry.at("sizes").dump());
  }
  EXPECT_EQ(distinct.size(), entries.size());
  EXPECT_EQ(entries.front().at("sizes"), Json({{"m", 1}, {"n", 512}, {"k", 512}, {"decomposition", 1}}));
  EXPECT_EQ(entries.back().at("sizes"), Json({{"m", 16}, {"n", 16384}, {"k", 16384}, {"decomposition", 0}}));
}

TEST(SplitKStudy, KernelsOfACellHaveTheSameTiles) {
  std::vector<std::string> descriptors;
  for (const Json& entry : split_k_entries(one_cell())) descriptors.push_back(entry.at("descriptor"));
  const std::string tiled = "w4a16_gemm:tile_m=16,tile_n=256";
  EXPECT_THAT(descriptors, ElementsAre(tiled, tiled, tiled + ",atomic_splits=true", tiled, "w4a16_gemm"));
  EXPECT_EQ(split_k_entries({.rows = {9}}).front().at("descriptor"), tiled);
  EXPECT_EQ(split_k_entries({.rows = {8}}).front().at("descriptor"), "w4a16_gemm:tile_m=8,tile_n=256");
  EXPECT_EQ(split_k_entries({.rows = {500}}).front().at("descriptor"), "w4a16_gemm:tile_m=64,tile_n=256");
}

TEST(SplitKStudy, SpeedupsReferToDataParallelOfTheSameCell) {
  Json entries = split_k_entries({.rows = {1, 16}, .sizes = {512}, .splits = {4}});
  double microseconds = 40;
  for (Json& entry : entries) {
    entry = measured(entry, microseconds);
    microseconds /= 2;
  }
  const Json published = published_entries(entries, kDataParallel);
  for (const std::size_t first : {0, 5}) {
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(published[first + i].at("speedup"), 1 << i);
  }
  EXPECT_FALSE(published[0].contains("comparable"));
}

TEST(SplitKStudy, RowsShowRatesAndResources) {
  const Json entries = split_k_entries(one_cell());
  SplitKRows rows;
  const std::string first = rows.next(measured(entries[0], 20));
  EXPECT_THAT(first,
              AllOf(HasSubstr("n = k = 4096\n"), HasSubstr("occupancy\n"), HasSubstr("20.00"), HasSubstr("26.84"),
                    HasSubstr("50%"), HasSubstr("168"), HasSubstr("65.0"), HasSubstr("64"), HasSubstr("19%\n")));
  EXPECT_THAT(rows.next(measured(entries[1], 10)), AllOf(HasSubstr("split_k 4"), Not(HasSubstr("n = k"))));
  Json skipped = entries[2];
  skipped["skipped"] = "no room";
  EXPECT_EQ(rows.next(skipped), "M=16, split_k_atomic 4: not measured: no room\n");
}

TEST(SplitKStudy, RegistersOfTheCpuDeviceAreEmpty) {
  Json entry = measured(split_k_entries(one_cell())[0], 20);
  entry["registers"] = entry["blocks_per_sm"] = entry["occupancy"] = nullptr;
  EXPECT_THAT(SplitKRows().next(entry), Not(HasSubstr("null")));
}

TEST(SplitKStudy, ListsOfNumbersAreChecked) {
  EXPECT_THAT(parse_rows("1,16"), ElementsAre(1, 16));
  EXPECT_THAT(parse_sizes("128,65536"), ElementsAre(128, 65536));
  EXPECT_THAT(parse_splits("1,256"), ElementsAre(1, 256));
  for (const char* text : {"0", "-1", "1025", "1.5", "one", "1,1", "99999999999", ""}) {
    EXPECT_THROW(parse_rows(text), BadInput) << text;
  }
  for (const char* text : {"127", "192", "65664", "0"}) EXPECT_THROW(parse_sizes(text), BadInput) << text;
  for (const char* text : {"0", "257"}) EXPECT_THROW(parse_splits(text), BadInput) << text;
}

}  // namespace
}  // namespace cubit::tools
