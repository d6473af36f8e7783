// Tests of suggestions: `suggest` returns the tiles and families that were measured to be fastest, leaves all other
// fields as they are, and refuses sizes that are missing, unknown or illegal.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <tuple>

#include "base/error.hpp"
#include "ops/gemm/schedule.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/members.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "tests/support/launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using ::testing::HasSubstr;
using tests::h200;
using tests::made_up_device;

std::string suggested(const char* text, const Numbers& sizes, const runtime::DeviceFacts& device = h200()) {
  return find_operator(text).suggest(text, sizes, device);
}

std::string suggested_gemm(const char* text, int m, int n, int k) {
  return suggested(text, {{"m", m}, {"n", n}, {"k", k}});
}

std::string tile_of(const std::string& text) {
  const W4a16Gemm descriptor = w4a16_gemm::parse(text);
  return fmt::format("{}x{}", descriptor.tile_m, descriptor.tile_n);
}

/// The descriptor of a result that was recorded before there were sets, when tile_m=16 and tile_n=256 were left out.
W4a16Gemm recorded(std::string text) {
  for (const auto& [name, field] : {std::pair{"tile_m=", "tile_m=16"}, std::pair{"tile_n=", "tile_n=256"}}) {
    if (text.find(name) == std::string::npos)
      text += (text.find(':') == std::string::npos ? ":" : ",") + std::string(field);
  }
  return w4a16_gemm::parse(text);
}

double modelled(const W4a16Gemm& descriptor, const cubit_w4a16_gemm_arguments& sizes) {
  const auto block = w4a16_gemm::plan_block(descriptor, *h200().architecture);
  return gemm::modelled_microseconds(block, w4a16_gemm::choose_schedule(block, sizes, h200()), h200());
}

/// Every kernel of the set, with any tile, that the device's architecture serves.
std::vector<W4a16Gemm> kernels_of_all_tiles(W4a16Gemm kernel, const runtime::DeviceFacts& device) {
  std::vector<W4a16Gemm> kernels;
  for (const int rows : w4a16_gemm::kTileRows) {
    for (const int columns : w4a16_gemm::kTileColumns) {
      kernel.tile_m = rows;
      kernel.tile_n = columns;
      if (w4a16_gemm::is_served(kernel) && serves(w4a16_gemm::families(), kernel, *device.architecture))
        kernels.push_back(kernel);
    }
  }
  return kernels;
}

/// Of all tiles, the tile that the model chooses.
std::string fastest_tile(const char* text, int m, int n, int k) {
  const W4a16Gemm set = w4a16_gemm::parse(text);
  const auto choice = w4a16_gemm::choice_of(set, kernels_of_all_tiles(set, h200()), *h200().architecture);
  cubit_w4a16_gemm_arguments sizes{};
  sizes.m = m;
  sizes.n = n;
  sizes.k = k;
  sizes.activation_stride = k;
  return tile_of(choice.member(choice.choose_by_sizes(w4a16_gemm::problem_of({}, sizes), h200())).text());
}

/// Each of these tiles was the fastest of all measured tiles: bench/notes/w4a16_gemm.md. The tiles are written as
/// "8x32": tile_m=8, tile_n=32.
TEST(ModelledTiles, AreThoseThatWereMeasuredToBeFastest) {
  struct Cell {
    int n, k;
    std::array<const char*, 6> of_rows;  ///< for 1, 8, 16, 32, 64 and 128 rows
  };
  const Cell cells[] = {{4096, 4096, {"8x32", "8x32", "16x32", "16x64", "16x128", "32x256"}},
                        {8192, 8192, {"8x64", "8x64", "16x64", "32x256", "64x256", "64x256"}},
                        {28672, 8192, {"8x224", "8x224", "16x224", "32x256", "64x256", "64x256"}},
                        {8192, 28672, {"8x64", "8x64", "16x64", "32x256", "64x256", "64x256"}},
                        {16384, 16384, {"8x128", "8x128", "16x128", "32x256", "64x256", "64x256"}}};
  constexpr int kRows[] = {1, 8, 16, 32, 64, 128};
  for (const Cell& cell : cells)
    for (std::size_t i = 0; i < std::size(kRows); ++i)
      EXPECT_EQ(fastest_tile("w4a16_gemm", kRows[i], cell.n, cell.k), cell.of_rows[i])
          << cell.n << " x " << cell.k << ", " << kRows[i] << " rows";
  const auto of_awq = [](int m, int n, int k) { return fastest_tile("w4a16_gemm:format=awq", m, n, k); };
  EXPECT_EQ(of_awq(1, 8192, 8192), "8x64");
  EXPECT_EQ(of_awq(1, 28672, 8192), "8x256");
  EXPECT_EQ(of_awq(1, 4096, 4096), "8x64");
  EXPECT_EQ(of_awq(16, 4096, 4096), "16x64");
  EXPECT_EQ(of_awq(1, 8192, 28672), "8x128");
  EXPECT_EQ(of_awq(1, 16384, 16384), "8x128");
  EXPECT_EQ(fastest_tile("w4a16_gemm:family=sm80", 1, 16384, 16384), "8x256");
  EXPECT_EQ(fastest_tile("w4a16_gemm:family=sm80", 16, 28672, 8192), "16x256");
}

/// What choices lose against the fastest tile of a sweep.
struct Losses {
  std::size_t cells = 0;
  std::size_t unmeasured = 0;  ///< cells whose chosen tile is not in the sweep
  std::size_t within_3_percent = 0;
  double most = 0;
  std::string worst;
};

/// The file holds a device's times of every tile for eleven layers of models (bench/tile_sweep.py).
Losses losses_of(const w4a16_gemm::GemmChoice& choice, const std::string& file_name,
                 const runtime::DeviceFacts& device) {
  std::ifstream file(CUBIT_RESULTS "/" + file_name);
  std::map<std::array<int, 3>, std::map<std::string, double>> cells;
  for (const auto& one : nlohmann::json::parse(file)) {
    const std::array<int, 3> sizes = {one.at("m"), one.at("n"), one.at("k")};
    const W4a16Gemm descriptor = recorded(one.at("measured").at("descriptor").get<std::string>());
    cells[sizes][descriptor.text()] = one.at("measured").at("microseconds");
  }
  Losses losses;
  losses.cells = cells.size();
  for (const auto& [sizes, times] : cells) {
    cubit_w4a16_gemm_arguments launch{};
    launch.m = sizes[0];
    launch.n = sizes[1];
    launch.k = sizes[2];
    launch.activation_stride = launch.k;
    const std::string text = choice.member(choice.choose_by_sizes(w4a16_gemm::problem_of({}, launch), device)).text();
    if (!times.contains(text)) {
      ++losses.unmeasured;
      continue;
    }
    const auto best =
        std::min_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const double lost = times.at(text) / best->second - 1;
    losses.within_3_percent += lost <= 0.03 ? 1 : 0;
    if (lost <= losses.most) continue;
    losses.most = lost;
    losses.worst = fmt::format("{} rows of {} x {}: {} and not {}", sizes[0], sizes[1], sizes[2], text, best->first);
  }
  return losses;
}

/// Of all tiles, the model chooses tiles that take at most `most_lost` longer than the fastest tile.
void expect_little_lost(const std::string& file_name, std::size_t count, const runtime::DeviceFacts& device,
                        double most_lost) {
  const auto choice = w4a16_gemm::choice_of({}, kernels_of_all_tiles({}, device), *device.architecture);
  const Losses losses = losses_of(choice, file_name, device);
  EXPECT_EQ(losses.cells, count);
  EXPECT_LE(losses.unmeasured, 3u) << "the sweep has tiles of at most 64 rows";
  EXPECT_LE(losses.most, most_lost) << losses.worst;
}

TEST(ModelledTiles, LoseLittleAgainstTheBestOfASweep) {
  expect_little_lost("w4a16_gemm/w4a16_gemm_tiles_h200.json", 55, h200(), 0.03);
}

// An H100 has as many multiprocessors as an H200, and a memory that is a third slower.
runtime::DeviceFacts h100() {
  runtime::DeviceFacts device = h200();
  device.memory_bytes_per_second = 3352320000000;
  return device;
}

TEST(ModelledTiles, LoseLittleOnASlowerMemory) {
  expect_little_lost("w4a16_gemm/w4a16_gemm_tiles_h100.json", 22, h100(), 0.04);
}

TEST(ModelledTiles, TakeAnUnknownMemoryForAnH200s) {
  runtime::DeviceFacts unknown = h200();
  unknown.memory_bytes_per_second = 0;
  expect_little_lost("w4a16_gemm/w4a16_gemm_tiles_h200.json", 55, unknown, 0.03);
}

// A set leaves out tiles that few layers want (bench/notes/w4a16_gemm.md). The sweeps have no tiles of 16 rows for one
// row.
TEST(SuggestedTiles, OfASetLoseLittleAgainstTheBestOfASweep) {
  const auto choice = w4a16_gemm::choice_of({}, *h200().architecture);
  const Losses on_h200 = losses_of(choice, "w4a16_gemm/w4a16_gemm_tiles_h200.json", h200());
  EXPECT_LE(on_h200.unmeasured, 4u);
  EXPECT_GE(on_h200.within_3_percent + on_h200.unmeasured, on_h200.cells - 6);
  EXPECT_LE(on_h200.most, 0.15) << on_h200.worst;
  const Losses on_h100 = losses_of(choice, "w4a16_gemm/w4a16_gemm_tiles_h100.json", h100());
  EXPECT_LE(on_h100.unmeasured, 2u);
  EXPECT_GE(on_h100.within_3_percent + on_h100.unmeasured, on_h100.cells - 6);
  EXPECT_LE(on_h100.most, 0.19) << on_h100.worst;
}

// Nobody has timed which split-K factors are fastest with a slower memory.
TEST(SuggestedTiles, SplitKFactorsDoNotDependOnTheMemory) {
  const auto block = w4a16_gemm::plan_block(w4a16_gemm::parse("w4a16_gemm:tile_m=8,tile_n=64"), *h200().architecture);
  for (const int n : {1024, 2048, 3584, 5120}) {
    cubit_w4a16_gemm_arguments sizes{};
    sizes.m = 1;
    sizes.n = n;
    sizes.k = 13824;
    const int splits = w4a16_gemm::choose_schedule(block, sizes, h200()).splits;
    for (const std::int64_t rate : {std::int64_t{0}, std::int64_t{1000000000000}}) {
      runtime::DeviceFacts device = h200();
      device.memory_bytes_per_second = rate;
      EXPECT_EQ(w4a16_gemm::choose_schedule(block, sizes, device).splits, splits) << n << " columns at " << rate;
    }
  }
}

/// The performance model's times are compared with the benchmark's times. No time may be far off, and times must be
/// near where the model was fitted: fp16 in groups of 128 without batch invariance.
TEST(SuggestedTiles, ModelledTimesAreNearMeasuredOnes) {
  // One cell is off by 15.5%: 4 tiles of 1024 columns in a stream-K launch. The model was fitted to graphs of 8
  // launches, whose start is part of the times (docs/benchmarks.md).
  constexpr double kMostMissed = 0.16;
  constexpr double kUsuallyMissed = 0.08;
  std::ifstream file(CUBIT_RESULTS "/w4a16_gemm/w4a16_gemm_h200.json");
  int fitted = 0;
  int near = 0;
  std::string far;
  for (const auto& one : nlohmann::json::parse(file)) {
    cubit_w4a16_gemm_arguments sizes{};
    sizes.m = one.at("sizes").at("m").get<std::int32_t>();
    sizes.n = one.at("sizes").at("n").get<std::int32_t>();
    sizes.k = one.at("sizes").at("k").get<std::int32_t>();
    const W4a16Gemm descriptor = recorded(one.at("descriptor").get<std::string>());
    const std::string text = descriptor.text();
    const auto measured = one.at("microseconds").get<double>();
    const double missed = std::fabs(modelled(descriptor, sizes) / measured - 1);
    EXPECT_LT(missed, kMostMissed) << one.at("name") << " " << text;
    if (descriptor.element != Element::fp16 || descriptor.group_size != 128 || descriptor.batch_invariant) continue;
    ++fitted;
    near += missed < kUsuallyMissed ? 1 : 0;
    if (missed >= kUsuallyMissed)
      far += fmt::format("\n{} {}: {:.2f} us, modelled {:.2f}", one.at("name").get<std::string>(), text, measured,
                         modelled(descriptor, sizes));
  }
  EXPECT_GE(fitted, 50);
  EXPECT_GE(near, fitted - 2) << far;
}

TEST(SuggestedTiles, SplitKFactorsAreModelledToo) {
  struct Measured {
    const char* text;
    int m, n, k, splits;
    double microseconds;
  };
  constexpr Measured kAll[] = {{"w4a16_gemm:tile_m=8,tile_n=64", 1, 1024, 8192, 1, 9.7},
                               {"w4a16_gemm:tile_m=8,tile_n=64", 1, 1024, 8192, 2, 7.0},
                               {"w4a16_gemm:tile_m=8,tile_n=64", 1, 1024, 4096, 4, 4.2},
                               {"w4a16_gemm:tile_m=16,tile_n=64", 16, 2048, 8192, 1, 10.7},
                               {"w4a16_gemm:tile_m=16,tile_n=64", 16, 2048, 8192, 2, 7.8},
                               {"w4a16_gemm:tile_m=16,tile_n=64", 16, 4096, 4096, 2, 6.4},
                               {"w4a16_gemm:tile_m=16,tile_n=128", 16, 8192, 8192, 2, 13.9}};
  for (const Measured& one : kAll) {
    cubit_w4a16_gemm_arguments sizes{};
    sizes.m = one.m;
    sizes.n = one.n;
    sizes.k = one.k;
    sizes.decomposition = CUBIT_W4A16_SPLIT_K;
    sizes.splits = one.splits;
    EXPECT_NEAR(modelled(w4a16_gemm::parse(one.text), sizes), one.microseconds, 0.07 * one.microseconds)
        << one.text << " " << one.splits;
  }
}

/// Descriptors for which nobody has timed the tiles.
TEST(SuggestedTiles, AreTheSmallestThatHoldTheRowsWhereNobodyHasTimedThem) {
  for (const char* field : {"batch_invariant=true", "family=sm75"}) {
    const std::string text = std::string("w4a16_gemm:") + field;
    const auto with = [&](const char* tile) { return "w4a16_gemm:" + std::string(tile) + field; };
    EXPECT_EQ(suggested_gemm(text.c_str(), 3, 8192, 8192), with("tile_m=8,tile_n=256,"));
    EXPECT_EQ(suggested_gemm(text.c_str(), 9, 8192, 8192), with("tile_m=16,tile_n=256,"));
    EXPECT_EQ(suggested_gemm(text.c_str(), 17, 8192, 8192), with("tile_m=32,tile_n=256,"));
    EXPECT_EQ(suggested_gemm(text.c_str(), 1000, 8192, 8192), with("tile_m=64,tile_n=256,"));
  }
  EXPECT_EQ(suggested_gemm("w4a16_gemm:bits=8,batch_invariant=true", 1000, 8192, 8192),
            "w4a16_gemm:bits=8,tile_m=32,tile_n=256,batch_invariant=true");
  EXPECT_EQ(suggested("w4a16_gemm", {{"m", 64}, {"n", 1024}, {"k", 1024}}, made_up_device("sm_75", 40)),
            "w4a16_gemm:tile_m=64,tile_n=256");
}

TEST(SuggestedTiles, LeaveOtherFieldsAloneAndAreLegalEverywhere) {
  for (const char* text : {"w4a16_gemm", "w4a16_gemm:format=awq,alignment=4", "w4a16_gemm:bits=8,element=bf16",
                           "w4a16_gemm:group_size=all,function=silu_gate", "w4a16_gemm:batch_invariant=true",
                           "w4a16_gemm:activation_order=true,residual=true", "w4a16_gemm:family=sm75"}) {
    for (const char* architecture : {"sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120"}) {
      const bool is_of_sm75 = std::string_view(text).ends_with("family=sm75");
      if (std::string_view(architecture) == "sm_75" && std::string_view(text).find("bf16") != std::string_view::npos)
        continue;
      for (const int m : {0, 1, 5, 16, 17, 100, 5000}) {
        for (const int n : {16, 1040, 5120, 151936}) {
          const auto device = made_up_device(architecture, 108);
          const W4a16Gemm given = w4a16_gemm::parse(text);
          const W4a16Gemm chosen = w4a16_gemm::parse(suggested(text, {{"m", m}, {"n", n}, {"k", 1024}}, device));
          W4a16Gemm expected = given;
          expected.tile_m = chosen.tile_m;
          expected.tile_n = chosen.tile_n;
          EXPECT_EQ(chosen, expected);
          EXPECT_NO_THROW(w4a16_gemm::plan_block(chosen, *device.architecture)) << chosen.text() << architecture;
          EXPECT_NO_THROW(w4a16_gemm::check_sizes(chosen, m, n, 1024));
          EXPECT_TRUE(!is_of_sm75 || chosen.tile_n == 256);
        }
      }
    }
  }
}

TEST(SuggestedTiles, StayWithinTheTilesGiven) {
  EXPECT_EQ(tile_of(suggested_gemm("w4a16_gemm:tile_m=64", 1, 8192, 8192)), "64x256");
  EXPECT_EQ(tile_of(suggested_gemm("w4a16_gemm:tile_n=160", 1, 8192, 8192)), "8x160");
  EXPECT_EQ(tile_of(suggested_gemm("w4a16_gemm:tile_n=256", 2000, 8192, 8192)), "256x256");
  EXPECT_EQ(tile_of(suggested_gemm("w4a16_gemm:tile_n=224", 1, 8192, 8192)), "8x224");
  EXPECT_EQ(tile_of(suggested_gemm("w4a16_gemm:tile_n=224", 64, 8192, 8192)), "16x224");
  EXPECT_EQ(tile_of(suggested_gemm("w4a16_gemm:tile_m=8,tile_n=160", 64, 8192, 8192)), "8x160");
}

TEST(SuggestedTiles, FollowTheNumberOfMultiprocessors) {
  const Numbers sizes = {{"m", 1}, {"n", 8192}, {"k", 8192}};
  EXPECT_EQ(suggested("w4a16_gemm", sizes, made_up_device("sm_90a", 132)), "w4a16_gemm:tile_m=8,tile_n=64");
  EXPECT_EQ(suggested("w4a16_gemm", sizes, made_up_device("sm_90a", 96)), "w4a16_gemm:tile_m=8,tile_n=256");
  // There are more tiles than counters for split-K.
  EXPECT_NO_THROW(suggested("w4a16_gemm", {{"m", 1}, {"n", 65536}, {"k", 8192}}, made_up_device("sm_90a", 3000)));
}

TEST(SuggestedTiles, NeedTheSizesAndNoOthers) {
  tests::expect_refused(
      [] {
        suggested("w4a16_gemm", {{"m", 1}, {"n", 4096}});
      },
      "no size k: which tiles of w4a16_gemm are fastest depends on it; give m, n and k");
  tests::expect_refused(
      [] {
        suggested("w4a16_gemm", {{"m", 1}, {"n", 4096}, {"k", 128}, {"batch", 2}});
      },
      "size batch: which tiles of w4a16_gemm are fastest does not depend on it; accepted: m, n, k");
  tests::expect_refused_with([] { suggested_gemm("w4a16_gemm", 1, 4100, 128); },
                             "n = 4100: it must be a multiple of 8");
  tests::expect_refused_with([] { suggested_gemm("w4a16_gemm", 1, 4096, 100); }, "k = 100: it must be a multiple of 8");
  tests::expect_refused_with([] { suggested_gemm("w4a16_gemm", -1, 4096, 128); }, "m = -1: it must be from 0");
  tests::expect_refused_with(
      [] {
        suggested("w4a16_gemm", {{"m", 1}, {"n", 2e9}, {"k", 128}});
      },
      "n = 2000000000: it must be a multiple of 8 from 8 to 16776960");
  tests::expect_refused(
      [] { suggested_gemm("w4a16_gemm:format=awq", 1, 40, 128); },
      "n = 40: rows of qweight are 20 bytes apart, not a multiple of alignment=16; ask for alignment=4 "
      "in the descriptor");
  EXPECT_EQ(suggested("w4a16_gemm", {{"m", 2147483391}, {"n", 64}, {"k", 128}}), "w4a16_gemm:tile_m=256,tile_n=256");
}

TEST(SuggestedTiles, ServeADeviceOfOneMultiprocessor) {
  EXPECT_NO_THROW(suggested("w4a16_gemm", {{"m", 512}, {"n", 4096}, {"k", 4096}}, made_up_device("sm_90a", 1)));
}

TEST(SuggestedTiles, AreOfTheNamedFamily) {
  EXPECT_EQ(suggested("w4a16_gemm:family=sm90_persistent", {{"m", 512}, {"n", 8192}, {"k", 8192}}),
            "w4a16_gemm:tile_m=256,tile_n=256,family=sm90_persistent");
}

TEST(SuggestedTiles, AreRefusedWhereThereIsNoKernelAtAll) {
  try {
    suggested("w4a16_gemm:element=bf16", {{"m", 1}, {"n", 64}, {"k", 128}}, made_up_device("sm_75", 40));
    ADD_FAILURE() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::unsupported);
    EXPECT_THAT(failure.what(), HasSubstr("no kernel family runs there"));
  }
}

TEST(SuggestedFamily, IsSm80WhereSm90WouldCopyInt4RowsInPieces) {
  const char* const pages = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,cache=paged";
  const std::string sm80_pages = std::string(pages) + ",family=sm80";
  for (const int page_size : {1, 2, 4}) EXPECT_EQ(suggested(pages, {{"page_size", page_size}}), sm80_pages);
  for (const int page_size : {8, 16, 64, 256}) EXPECT_EQ(suggested(pages, {{"page_size", page_size}}), pages);
  EXPECT_EQ(suggested(pages, {}), pages);
  const char* const unaligned = "gqa_decode:heads_per_kv=8,kv=int4_rows";
  const std::string sm80_unaligned = std::string(unaligned) + ",family=sm80";
  for (const int heads : {1, 2, 4, 8}) EXPECT_EQ(suggested(unaligned, {{"kv_heads", heads}}), unaligned);
  for (const int heads : {3, 5, 6, 7}) EXPECT_EQ(suggested(unaligned, {{"kv_heads", heads}}), sm80_unaligned);
}

TEST(SuggestedFamily, StaysWhereItIsNamedOrNothingIsKnown) {
  for (const char* text : {"gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,cache=paged,family=sm90",
                           "gqa_decode:heads_per_kv=8,cache=paged", "gqa_decode:kv=fp8_e4m3,cache=paged"})
    EXPECT_EQ(suggested(text, {{"page_size", 1}}), text);
  EXPECT_EQ(suggested("gqa_decode:kv=int4_rows,groups=4,cache=paged", {{"page_size", 1}}, made_up_device("sm_80", 108)),
            "gqa_decode:kv=int4_rows,groups=4,cache=paged");
}

TEST(SuggestedFamily, RefusesOtherSizes) {
  tests::expect_refused(
      [] {
        suggested("gqa_decode", {{"page_size", 16}});
      },
      "size page_size: which family of gqa_decode is fastest does not depend on it; accepted: kv_heads");
  tests::expect_refused_with([] { suggested("gqa_decode:cache=paged", {{"page_size", 257}}); }, "page_size = 257");
}

TEST(Suggestions, AreTheCanonicalTextWhereThereIsNothingToChoose) {
  EXPECT_EQ(suggested("merge:head_dim=128", {}), "merge");
  tests::expect_refused(
      [] {
        suggested("merge", {{"rows", 2}});
      },
      "size rows: no field of merge is chosen by sizes; give none");
  for (const Operator* op : operators())
    EXPECT_TRUE(!op->suggest_help().empty() || op->suggest(op->name(), {}, h200()) == op->name()) << op->name();
}

}  // namespace
}  // namespace cubit::ops
