// Tests of w4a16_gemm launches without a device: a launch depends on sizes and device alone, and arguments that the
// argument struct rules out are refused.
#include <cubit/w4a16_gemm.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/gemm/sm90/sm90.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/weight_format/packed_gemm_arguments.h"
#include "tests/support/gemm_launches.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::arguments_of;
using tests::h200;
using tests::plan_of;
using Arguments = cubit_w4a16_gemm_arguments;

TEST(GemmLaunch, SplitsWhereTilesDoNotFillTheDevice) {
  const auto plan = plan_of("w4a16_gemm:tile_m=8,tile_n=256");
  const auto splits = [&](int n, int k) {
    const auto arguments = arguments_of(8, n, k);
    return plan.schedule(arguments, h200()).splits;
  };
  EXPECT_GT(splits(4096, 4096), 4);
  EXPECT_GT(splits(1024, 28672), 16);
  EXPECT_EQ(splits(256 * 132 * 16, 128), 1) << "one stage";
  EXPECT_EQ(splits(16384 * 100, 4096), 1) << "more tiles than counters";
}

TEST(GemmLaunch, AHandfulOfCandidatesIsAsGoodAsAllOfThem) {
  const auto plan = plan_of("w4a16_gemm:tile_m=16,tile_n=256");
  for (const int n : {256, 1024, 4096, 8192, 11008, 28672}) {
    for (const int k : {128, 1024, 4096, 8192, 28672}) {
      const auto split = plan.schedule(arguments_of(16, n, k), h200());
      double best = 1e300;
      for (int splits = 1; splits <= std::min(256, split.stages); ++splits)
        best = std::min(best, gemm::modelled_stages(plan.block, split.tiles(), split.stages, splits, h200()));
      const double chosen =
          split.stream_k_blocks > 0
              ? gemm::modelled_stream_k_stages(plan.block, split.tiles(), split.stages, split.stream_k_blocks, h200())
              : gemm::modelled_stages(plan.block, split.tiles(), split.stages, split.splits, h200());
      EXPECT_LE(chosen, 1.1 * best) << n << " x " << k;
    }
  }
}

TEST(GemmLaunch, WorkspaceHoldsWhatTheParametersPointTo) {
  const auto plan = plan_of("w4a16_gemm:tile_m=16,tile_n=256");
  auto arguments = arguments_of(33, 1032, 1024);
  arguments.decomposition = CUBIT_W4A16_SPLIT_K;
  arguments.splits = 3;
  const std::size_t bytes = plan.workspace_bytes(arguments, h200());
  EXPECT_EQ(bytes, kWorkspaceCounterBytes + 3u * 5 * 3 * 16 * 256 * 4);
  auto* const base = static_cast<char*>(address(0x100000));
  const Launch launch = plan.encode(arguments, base, bytes, h200());
  EXPECT_EQ(launch.shape.grid, (std::array<unsigned, 3>{3, 5, 3}));
  PackedGemmArguments parameters;
  ASSERT_EQ(launch.parameter_bytes, sizeof parameters);
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(reinterpret_cast<char*>(parameters.counters), base);
  EXPECT_EQ(reinterpret_cast<char*>(parameters.partial), base + kWorkspaceCounterBytes);
  EXPECT_EQ(parameters.stages, 8);
  EXPECT_EQ(parameters.activation_stride, 2 * 1024);

  arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  arguments.splits = 0;
  EXPECT_EQ(plan.workspace_bytes(arguments, h200()), 0u);
  EXPECT_EQ(plan.encode(arguments, nullptr, 0, h200()).shape.grid[2], 1u);
  arguments.m = 0;
  EXPECT_TRUE(plan.encode(arguments, nullptr, 0, h200()).empty);
}

// With atomics all split-K slices of a tile share one place in the workspace. Only a launch that asks for atomics gets
// them.
TEST(GemmLaunch, AtomicSumsHaveOnePlacePerTileAndAreNeverChosen) {
  for (const char* text :
       {"w4a16_gemm:tile_m=16,tile_n=256,atomic_splits=true", "w4a16_gemm:tile_m=64,tile_n=256,atomic_splits=true"}) {
    const auto plan = plan_of(text);
    const auto tile_m = static_cast<std::size_t>(plan.block.descriptor.tile_m);
    auto arguments = arguments_of(16, 1032, 1024);
    const auto launch_of = [&](int decomposition, int splits) {
      arguments.decomposition = decomposition;
      arguments.splits = splits;
      const std::size_t bytes = plan.workspace_bytes(arguments, h200());
      const Launch launch = plan.encode(arguments, address(0x100000), bytes, h200());
      PackedGemmArguments parameters;
      std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
      return std::tuple{bytes, launch.shape.grid, parameters.adds_atomically};
    };
    const std::size_t ordered = tile_m > 32 ? 16 * 1024 * 2 : 0;  // reordered activations
    const auto [bytes, grid, atomic] = launch_of(CUBIT_W4A16_SPLIT_K_ATOMIC, 4);
    EXPECT_EQ(bytes, kWorkspaceCounterBytes + 5 * tile_m * 256 * 4 + ordered);
    EXPECT_EQ(grid, (std::array<unsigned, 3>{1, 5, 4})) << "no clusters";
    EXPECT_EQ(atomic, 1);
    EXPECT_EQ(std::get<2>(launch_of(CUBIT_W4A16_SPLIT_K, 4)), 0);
    EXPECT_EQ(std::get<0>(launch_of(CUBIT_W4A16_SPLIT_K, 4)), kWorkspaceCounterBytes + 20 * tile_m * 256 * 4 + ordered);
    const auto automatic = plan.schedule(arguments_of(16, 1032, 8192), h200());
    EXPECT_GT(automatic.splits, 1);
    EXPECT_FALSE(automatic.atomic);
    EXPECT_EQ(std::get<2>(launch_of(CUBIT_W4A16_SPLIT_K_ATOMIC, 1)), 0) << "nothing to add";
  }
}

TEST(GemmLaunch, BalancedSharesCoverAllStagesOfAllTiles) {
  const auto plan = plan_of("w4a16_gemm:tile_m=64,tile_n=256");
  auto arguments = arguments_of(128, 28672, 8192);
  const auto chosen = plan.schedule(arguments, h200());
  EXPECT_EQ(chosen.stream_k_blocks, 132) << "224 tiles would be two waves, and the second wave would not be full";
  arguments.decomposition = CUBIT_W4A16_STREAM_K;
  const std::size_t bytes = plan.workspace_bytes(arguments, h200());
  EXPECT_EQ(bytes, kWorkspaceCounterBytes + 224u * 2 * 256 * 64 * sizeof(float) + 128u * 8192 * 2)
      << "a tile has two slices at most; and reordered activations";
  const Launch launch = plan.encode(arguments, address(0x100000), bytes, h200());
  EXPECT_EQ(launch.shape.grid, (std::array<unsigned, 3>{132, 1, 1}));
  PackedGemmArguments parameters;
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(parameters.row_tiles, 2);
  EXPECT_EQ(parameters.share, 224 * 64 / 132);
  EXPECT_EQ(parameters.larger, 224 * 64 % 132);

  arguments = arguments_of(1, 256, 128);
  arguments.decomposition = CUBIT_W4A16_STREAM_K;
  EXPECT_EQ(plan.schedule(arguments, h200()).splits, 1) << "one block computes one stage";
}

// Family sm90 adds an even number of split-K slices in 2-CTA clusters, whose blocks are neighbours along x.
TEST(GemmLaunch, AnEvenNumberOfSlicesIsClustered) {
  const auto launch_of = [](const char* descriptor, int splits) {
    const auto plan = plan_of(descriptor, "sm_90a");
    auto arguments = arguments_of(130, 1040, 1024);
    arguments.decomposition = splits > 1 ? CUBIT_W4A16_SPLIT_K : CUBIT_W4A16_DATA_PARALLEL;
    arguments.splits = splits > 1 ? splits : 0;
    const std::size_t bytes = plan.workspace_bytes(arguments, h200());
    return plan.encode(arguments, address(0x100000), bytes, h200());
  };
  const auto is_clustered = [](const Launch& launch) {
    PackedGemmArguments parameters;
    std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
    return parameters.clustered;
  };
  const Launch clustered = launch_of("w4a16_gemm:tile_m=64,tile_n=256", 4);
  EXPECT_EQ(clustered.shape.grid, (std::array<unsigned, 3>{4, 5, 3}));
  EXPECT_EQ(clustered.shape.cluster_blocks, 2u);
  EXPECT_EQ(is_clustered(clustered), 1);
  for (const auto& [descriptor, splits] : {std::pair{"w4a16_gemm:tile_m=64,tile_n=256", 3},
                                           {"w4a16_gemm:tile_m=64,tile_n=256", 1},
                                           {"w4a16_gemm:tile_m=64,tile_n=256,family=sm80", 4},
                                           {"w4a16_gemm:tile_m=64,tile_n=256,function=silu_gate", 4}}) {
    const Launch launch = launch_of(descriptor, splits);
    EXPECT_EQ(launch.shape.grid[0], 3u) << descriptor << ": row tiles";
    EXPECT_EQ(launch.shape.grid[2], static_cast<unsigned>(splits)) << descriptor;
    EXPECT_EQ(launch.shape.cluster_blocks, 1u) << descriptor;
    EXPECT_EQ(is_clustered(launch), 0) << descriptor;
  }
}

// A block of 64 columns has all of k, and each of its eight warps has an eighth: no split-K, and no workspace.
TEST(GemmLaunch, WarpsOfANarrowBlockDivideAllOfK) {
  const auto plan = plan_of("w4a16_gemm:tile_m=8,tile_n=64,family=sm80");
  EXPECT_EQ(plan.block.k_partitions, 8);
  auto arguments = arguments_of(20, 520, 8192 + 128);
  EXPECT_EQ(plan.workspace_bytes(arguments, h200()), 0u);
  const Launch launch = plan.encode(arguments, nullptr, 0, h200());
  EXPECT_EQ(launch.shape.grid[0], 3u) << "tiles of 8 rows";
  EXPECT_EQ(launch.shape.grid[1], 9u) << "of 64 columns";
  EXPECT_EQ(launch.shape.grid[2], 1u);
  EXPECT_EQ(launch.shape.threads, 8u * 32);
  PackedGemmArguments parameters;
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(parameters.stages, 65);
  EXPECT_EQ(parameters.splits, 8);
  EXPECT_EQ(parameters.split_stages, 8);
  EXPECT_EQ(plan_of("w4a16_gemm:bits=8,tile_m=16,tile_n=64").block.k_partitions, 8);
}

// In family sm90 the consumer warps of a narrow block take the stages of one ring in turn, and producer warps copy.
TEST(GemmLaunch, WarpsOfANarrowSm90BlockShareOneRing) {
  const auto plan = plan_of("w4a16_gemm:tile_m=16,tile_n=128");
  EXPECT_EQ(plan.block.family, "sm90");
  EXPECT_EQ(plan.block.k_partitions, 8);
  const auto producers =
      w4a16_gemm::sm90::make_narrow_plan(w4a16_gemm::parse(plan.block.descriptor.text), *h200().architecture).producers;
  EXPECT_EQ(plan.block.stages % producers.warps, 0);
  auto arguments = arguments_of(20, 520, 8192 + 128);
  arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  EXPECT_EQ(plan.workspace_bytes(arguments, h200()), 0u);
  const Launch launch = plan.encode(arguments, nullptr, 0, h200());
  EXPECT_EQ(launch.shape.grid[0], 2u) << "tiles of 16 rows";
  EXPECT_EQ(launch.shape.grid[1], 5u) << "of 128 columns";
  EXPECT_EQ(launch.shape.grid[2], 1u);
  EXPECT_EQ(launch.shape.threads, 12u * 32);
  PackedGemmArguments parameters;
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(parameters.stages, 65);
  EXPECT_EQ(parameters.splits, 1);
  EXPECT_EQ(plan_of("w4a16_gemm:tile_m=16,tile_n=64").block.family, "sm90") << "sm90 was measured to be faster";
  EXPECT_EQ(plan_of("w4a16_gemm:tile_m=16,tile_n=64").block.k_partitions, 8);
  EXPECT_EQ(plan_of("w4a16_gemm:tile_m=16,tile_n=64,bits=8").block.family, "sm80")
      << "the only family with this kernel";
  EXPECT_EQ(plan_of("w4a16_gemm:tile_m=16,tile_n=64", "sm_120").block.family, "sm80");
  const auto wide =
      w4a16_gemm::sm90::make_narrow_plan(w4a16_gemm::parse("w4a16_gemm:tile_m=8,tile_n=224"), *h200().architecture);
  EXPECT_EQ(wide.producers.warps, 1) << "a stage has twice as many words";
  EXPECT_EQ(wide.block.threads, 12 * 32) << "three warps of the producer warpgroup are idle";
  EXPECT_EQ(wide.block.stages % wide.block.k_partitions, 0) << "the room for one more stage is left to other blocks";
}

// A narrow block has a multiprocessor to itself. If tiles leave multiprocessors idle, several blocks split k, as far as
// that saves more than merging costs. Each fragment of 8 rows of a strip has a counter.
TEST(GemmLaunch, NarrowSm90BlocksSplitKWhereTilesAreFew) {
  const auto plan = plan_of("w4a16_gemm:tile_m=16,tile_n=64");
  const auto splits_of = [&](int m, int n, int k) { return plan.schedule(arguments_of(m, n, k), h200()).splits; };
  EXPECT_EQ(splits_of(16, 8192, 8192), 1) << "128 tiles";
  EXPECT_EQ(splits_of(16, 4096, 4096), 2) << "64 tiles";
  EXPECT_EQ(splits_of(16, 4096, 2048), 1) << "4.1 us, and 4.6 us in two slices";
  EXPECT_EQ(splits_of(16, 1024, 8192), 8) << "16 tiles";
  EXPECT_EQ(splits_of(32, 1024, 8192), 4) << "32 tiles";
  EXPECT_EQ(splits_of(16, 64, 128 * 1024), 16) << "the most slices that were tried";
  EXPECT_EQ(splits_of(16, 64, 128), 1);
  const auto wider = plan_of("w4a16_gemm:tile_m=16,tile_n=128");
  EXPECT_EQ(wider.schedule(arguments_of(16, 4096, 2048), h200()).splits, 4)
      << "stages take twice as long, and merges equally long";
  const auto widest = plan_of("w4a16_gemm:tile_m=8,tile_n=224");
  EXPECT_EQ(widest.schedule(arguments_of(8, 448, 8192), h200()).splits, 1) << "blocks of 224 columns never split k";
  auto arguments = arguments_of(16, 1024, 8192);
  const std::size_t bytes = plan.workspace_bytes(arguments, h200());
  EXPECT_EQ(bytes, kWorkspaceCounterBytes + 16u * 8 * 64 * 16 * sizeof(float));
  EXPECT_EQ(plan.block.counters_per_tile, 2 * 2);
  EXPECT_EQ(plan_of("w4a16_gemm:tile_m=16,tile_n=128,function=silu_gate").block.counters_per_tile, 2 * 2)
      << "gate columns with their up-projection columns";
  const Launch launch = plan.encode(arguments, address(0x100000), bytes, h200());
  EXPECT_EQ(launch.shape.grid, (std::array<unsigned, 3>{1, 16, 8}));
  arguments.decomposition = CUBIT_W4A16_SPLIT_K;
  arguments.splits = 3;
  EXPECT_EQ(plan.schedule(arguments, h200()).splits, 3) << "as the launch asks";
}

/// With batch_invariant=true the split-K slices follow from n and k alone, whatever m, tile and device are.
TEST(GemmLaunch, BatchInvariantSlicesFollowFromColumnsAndDepth) {
  runtime::DeviceFacts small = h200();
  small.multiprocessors = 20;
  bool others_depend_on_m = false;
  for (const int n : {64, 4096, 28672}) {
    for (const int k : {128, 1024, 8192}) {
      std::set<int> slices;
      std::set<int> usual;
      for (const char* tile : {"8", "16", "32", "64"}) {
        for (const char* architecture : {"sm_75", "sm_80", "sm_90a", "sm_120"}) {
          const std::string text = std::string("w4a16_gemm:tile_n=256,tile_m=") + tile;
          for (const int m : {1, 8, 9, 40, 128, 5000}) {
            const auto plan = plan_of(text + ",batch_invariant=true", architecture);
            for (const auto& device : {h200(), small})
              slices.insert(plan.schedule(arguments_of(m, n, k), device).splits);
            usual.insert(plan_of(text, architecture).schedule(arguments_of(m, n, k), h200()).splits);
          }
        }
      }
      EXPECT_EQ(slices.size(), 1u) << n << " x " << k;
      others_depend_on_m = others_depend_on_m || usual.size() > 1;
      EXPECT_EQ(*slices.begin() > 1, k > 128 && n < 28672 * 4) << n << " x " << k;
    }
  }
  EXPECT_TRUE(others_depend_on_m) << "otherwise this test would pass without the field";
}

// The factors that were measured; another factor gives a row other bits.
TEST(GemmLaunch, BatchInvariantSplitsStayTheSame) {
  const auto splits = [](int n, int k) {
    return plan_of("w4a16_gemm:tile_m=16,tile_n=256,batch_invariant=true")
        .schedule(arguments_of(1, n, k), h200())
        .splits;
  };
  EXPECT_EQ(splits(4096, 8192), 8);
  EXPECT_EQ(splits(1024, 8192), 11);
}

// If tiles fill the device, one block adds up all slices of a tile in a place of its own, and needs no counter.
TEST(GemmLaunch, BatchInvariantBlocksTakeWholeTilesWhereTilesFillTheDevice) {
  const auto plan = plan_of("w4a16_gemm:tile_m=16,tile_n=256,batch_invariant=true");
  auto arguments = arguments_of(4096, 8192, 8192);
  arguments.decomposition = CUBIT_W4A16_SPLIT_K;
  arguments.splits = 3;
  const std::size_t blocks = 132 * static_cast<std::size_t>(plan.block.blocks_per_sm);
  // 192 rows have 384 tiles, which do not fill the device: each of their slices has a place in the workspace.
  EXPECT_EQ(plan.workspace_bytes(arguments, h200()), kWorkspaceCounterBytes + 384 * 3 * 16 * 256 * 4);
  const std::size_t bytes = kWorkspaceCounterBytes + blocks * 16 * 256 * 4;
  const Launch launch = plan.encode(arguments, address(0x100000), bytes, h200());
  EXPECT_EQ(launch.shape.grid, (std::array<unsigned, 3>{static_cast<unsigned>(blocks), 1, 1}));
  PackedGemmArguments parameters;
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(parameters.whole_tiles, 256 * 32);
  EXPECT_EQ(parameters.splits, 3);
  EXPECT_EQ(parameters.share, 0);

  arguments.m = 16;
  const Launch few = plan.encode(arguments, address(0x100000), bytes, h200());
  EXPECT_EQ(few.shape.grid, (std::array<unsigned, 3>{1, 32, 3}));
  std::memcpy(&parameters, few.parameters.data(), sizeof parameters);
  EXPECT_EQ(parameters.whole_tiles, 0);
}

struct BadArgument {
  const char* text;
  const char* sentence;
  void (*change)(Arguments&);
};

class RefusedGemm : public ::testing::TestWithParam<BadArgument> {};

TEST_P(RefusedGemm, NamesTheRule) {
  const auto plan = plan_of(GetParam().text);
  auto arguments = arguments_of(16, 512, 512);
  GetParam().change(arguments);
  try {
    plan.encode(arguments, address(0x100000), std::size_t{1} << 40, h200());
    FAIL() << "accepted: " << GetParam().sentence;
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::invalid_argument);
    EXPECT_NE(std::string(failure.what()).find(GetParam().sentence), std::string::npos) << failure.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedGemm,
    ::testing::Values(
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "m = -1: it must be from 0", [](Arguments& a) { a.m = -1; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "n = 20: it must be a multiple of 8 from 8",
                    [](Arguments& a) { a.n = 20; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "n = 0: it must be a multiple of 8",
                    [](Arguments& a) { a.n = 0; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256,function=silu_gate", "n = 24: function=silu_gate",
                    [](Arguments& a) { a.n = 24; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "k = 0: it must be from 1", [](Arguments& a) { a.k = 0; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "k = 190: it must be a multiple of 8",
                    [](Arguments& a) { a.k = 190; }},
        BadArgument{"w4a16_gemm:group_size=all,tile_m=16,tile_n=256", "k = 20: it must be a multiple of 8",
                    [](Arguments& a) { a.k = 20; }},
        BadArgument{"w4a16_gemm:format=awq,tile_m=16,tile_n=256",
                    "n = 40: rows of qweight are 20 bytes apart, not a multiple of alignment=16; ask for alignment=4",
                    [](Arguments& a) { a.n = 40; }},
        BadArgument{"w4a16_gemm:format=awq,tile_m=16,tile_n=256,function=silu_gate",
                    "n = 96: the second half of a row of qweight begins at byte 24, not a multiple of alignment=16",
                    [](Arguments& a) { a.n = 96; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "activations = NULL",
                    [](Arguments& a) { a.activations = nullptr; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "qzeros = NULL", [](Arguments& a) { a.qzeros = nullptr; }},
        BadArgument{"w4a16_gemm:bits=8,tile_m=16,tile_n=256",
                    "qzeros at 0x3004: the address is not a multiple of 8 bytes",
                    [](Arguments& a) { a.qzeros = address(0x3004); }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256,bias=true", "bias = NULL", [](Arguments&) {}},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256",
                    "bias at 0x6000: ", [](Arguments& a) { a.bias = address(0x6000); }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256",
                    "residual at 0x6000: ", [](Arguments& a) { a.residual = address(0x6000); }},
        BadArgument{"w4a16_gemm:format=symmetric,tile_m=16,tile_n=256", "qzeros at 0x3000: ", [](Arguments&) {}},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "output_stride = 0: outputs would overwrite one another",
                    [](Arguments& a) { a.output_stride = 0; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "output_stride = 504: outputs would overwrite one another",
                    [](Arguments& a) { a.output_stride = 504; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256,function=silu_gate",
                    "output_stride = 248: outputs would overwrite one another",
                    [](Arguments& a) { a.output_stride = 248; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256,activation_order=true", "g_idx = NULL", [](Arguments&) {}},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256,residual=true", "residual = NULL", [](Arguments&) {}},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "qweight at 0x2008: the address is not a multiple of 16 bytes",
                    [](Arguments& a) { a.qweight = address(0x2008); }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256",
                    "output at 0x5008: the address is not a multiple of 16 bytes; accepted: ",
                    [](Arguments& a) { a.output = address(0x5008); }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "activation_stride = 516: it must be a multiple of 8",
                    [](Arguments& a) { a.activation_stride = 516; }},
        BadArgument{"w4a16_gemm:tile_m=32,tile_n=256,family=sm90",
                    "activation_stride = 0: family sm90 reads rows by a tensor map, whose stride must be a multiple of "
                    "8 from 8 on (any stride: family=sm80, with tile_n=256, 64 or 32)",
                    [](Arguments& a) { a.activation_stride = 0; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "decomposition = 5: it must be 0 (automatic)",
                    [](Arguments& a) { a.decomposition = 5; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256",
                    "decomposition = 4 of w4a16_gemm:tile_m=16,tile_n=256: the descriptor's kernel adds split-K slices "
                    "in order only, with the same "
                    "bits at every launch; accepted: 0 to 3, or a descriptor with atomic_splits=true and tile_n=256",
                    [](Arguments& a) { a.decomposition = CUBIT_W4A16_SPLIT_K_ATOMIC; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256,batch_invariant=true",
                    "decomposition = 4 of w4a16_gemm:tile_m=16,tile_n=256,batch_invariant=true: sums that atomics add "
                    "have no order of k, "
                    "and batch_invariant=true needs one order; accepted: 0, 1 or 2",
                    [](Arguments& a) { a.decomposition = CUBIT_W4A16_SPLIT_K_ATOMIC; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=64",
                    "in family sm90 a block of 64 columns has one tile; accepted: 0, 1 or 2",
                    [](Arguments& a) { a.decomposition = CUBIT_W4A16_SPLIT_K_ATOMIC; }},
        BadArgument{"w4a16_gemm:tile_m=8,tile_n=256",
                    "decomposition = 3 of 262144 tiles of rows and columns, 4 stages of k each: a tile needs 4 of the",
                    [](Arguments& a) {
                      a.m = 1 << 20;
                      a.decomposition = CUBIT_W4A16_STREAM_K;
                    }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256,batch_invariant=true",
                    "decomposition = 3 of w4a16_gemm:tile_m=16,tile_n=256,batch_invariant=true: balanced shares of all "
                    "tiles, and with them "
                    "the order of k, depend on the number of rows; accepted: 0, 1 or 2",
                    [](Arguments& a) { a.decomposition = CUBIT_W4A16_STREAM_K; }},
        BadArgument{
            "w4a16_gemm:tile_m=16,tile_n=64,family=sm80",
            "decomposition = 2 of w4a16_gemm:tile_m=16,tile_n=64,family=sm80: in family sm80 a block of 64 columns has "
            "all of k; accepted: 0 or 1, or a descriptor without tile_n",
            [](Arguments& a) { a.decomposition = CUBIT_W4A16_SPLIT_K; }},
        BadArgument{
            "w4a16_gemm:tile_m=16,tile_n=64",
            "decomposition = 3 of w4a16_gemm:tile_m=16,tile_n=64: in family sm90 a block of 64 columns has one tile; "
            "accepted: 0, 1 or 2, or a descriptor without tile_n",
            [](Arguments& a) { a.decomposition = CUBIT_W4A16_STREAM_K; }},
        BadArgument{"w4a16_gemm:tile_m=8,tile_n=224",
                    "in family sm90 a block of 224 columns has all of k; accepted: 0 or 1",
                    [](Arguments& a) { a.decomposition = CUBIT_W4A16_SPLIT_K; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=64", "multiple of 8 from 8 on (any stride: family=sm80, with",
                    [](Arguments& a) { a.activation_stride = 0; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=128",
                    "multiple of 8 from 8 on (any stride: family=sm80, with tile_n=256, 64 or 32)",
                    [](Arguments& a) { a.activation_stride = 0; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=32",
                    "n = 2097152: with tile_n=32 it must be at most 2097120, because a grid has at most 65535 blocks "
                    "of 32 columns; ask for tile_n=256",
                    [](Arguments& a) { a.n = 1 << 21; }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "splits = 2: it goes with decompositions 2 and 4 (split-K) only",
                    [](Arguments& a) { a.splits = 2; }},
        BadArgument{"w4a16_gemm:tile_m=8,tile_n=256",
                    "splits = 2 of 262144 tiles of rows and columns: a tile of more than one split needs 4 of the",
                    [](Arguments& a) {
                      a.m = 1 << 20;
                      a.decomposition = CUBIT_W4A16_SPLIT_K;
                      a.splits = 2;
                    }},
        BadArgument{"w4a16_gemm:tile_m=16,tile_n=256", "cubit_w4a16_gemm_arguments.size = 4",
                    [](Arguments& a) { a.size = 4; }}));

}  // namespace
}  // namespace cubit::ops
