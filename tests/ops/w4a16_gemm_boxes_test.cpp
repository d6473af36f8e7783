// Tests of launches of w4a16_gemm's family sm90: the tensor maps of its TMA copies, and the activations that its
// kernels reorder in the workspace.
#include <cubit/w4a16_gemm.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
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

/// The maps of words, activations and scales.
std::vector<runtime::TensorMap> maps_of(const char* text, const Arguments& arguments) {
  const Launch launch = plan_of(text).encode(arguments, address(0x100000), std::size_t{1} << 40, h200());
  std::vector<runtime::TensorMap> maps;
  std::size_t end = sizeof(PackedGemmArguments);
  for (const MapParameter& one : launch.maps.all()) {
    EXPECT_EQ(one.offset % alignof(runtime::EncodedTensorMap), 0u);
    EXPECT_GE(one.offset, end) << "no map lies on another parameter";
    EXPECT_EQ(runtime::broken_rule(one.map), "");
    end = one.offset + sizeof(runtime::EncodedTensorMap);
    maps.push_back(one.map);
  }
  EXPECT_EQ(launch.parameter_bytes, maps.empty() ? sizeof(PackedGemmArguments) : end);
  return maps;
}

TEST(GemmBoxes, FamilySm90HasMapsOfWordsByKActivationsAndScales) {
  auto arguments = arguments_of(100, 1032, 640);
  arguments.activation_stride = 704;
  const auto maps = maps_of("w4a16_gemm:tile_m=32,group_size=64,tile_n=256", arguments);
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[0], (runtime::TensorMap{.base = 0x2000,
                                         .element_bytes = 4,
                                         .rank = 2,
                                         .sizes = {1032, 640 / 8},
                                         .strides = {4 * 1032},
                                         .box = {32, 16},
                                         .swizzle = runtime::TensorSwizzle::span128}))
      << "one strip of columns, and the words of a stage: " << maps[0].text();
  EXPECT_EQ(maps[1], (runtime::TensorMap{.base = 0x1000,
                                         .element_bytes = 2,
                                         .rank = 2,
                                         .sizes = {640, 100},
                                         .strides = {2 * 704},
                                         .box = {64, 32},
                                         .swizzle = runtime::TensorSwizzle::span128}))
      << "half of a stage's k's, and the rows of a tile: " << maps[1].text();
  EXPECT_EQ(maps[2], (runtime::TensorMap{.base = 0x4000,
                                         .element_bytes = 2,
                                         .rank = 2,
                                         .sizes = {1032, 640 / 64},
                                         .strides = {2 * 1032},
                                         .box = {128, 2},
                                         .swizzle = runtime::TensorSwizzle::none}))
      << "half of a block's columns, and the groups of a stage: " << maps[2].text();
}

TEST(GemmBoxes, NarrowBlocksCopyScalesOfAllNeighbouringColumns) {
  const auto arguments = arguments_of(16, 1024, 640);
  const auto box_of = [&](const char* text, std::size_t map) { return maps_of(text, arguments).at(map).box; };
  EXPECT_EQ(box_of("w4a16_gemm:tile_m=16,tile_n=128", 0), (std::array<std::uint32_t, 5>{32, 16}));
  EXPECT_EQ(box_of("w4a16_gemm:tile_m=16,tile_n=128", 1), (std::array<std::uint32_t, 5>{64, 16}));
  EXPECT_EQ(box_of("w4a16_gemm:group_size=32,tile_m=16,tile_n=128", 2), (std::array<std::uint32_t, 5>{128, 4}));
  EXPECT_EQ(box_of("w4a16_gemm:tile_m=16,tile_n=128,function=silu_gate", 2), (std::array<std::uint32_t, 5>{64, 1}));
}

// By n the rows of a narrow block are short: one box holds them, swizzled within its width, and a line of the L2 cache
// holds the rows of several blocks.
TEST(GemmBoxes, NarrowBlocksCopyWordsByNInOneBox) {
  const auto arguments = arguments_of(8, 1024, 640);
  const auto expect_words = [&](const char* text, std::uint32_t words, runtime::TensorSwizzle swizzle) {
    const auto map = maps_of(text, arguments).at(0);
    EXPECT_EQ(map.box, (std::array<std::uint32_t, 5>{words, 128})) << text;
    EXPECT_EQ(map.swizzle, swizzle) << text;
    EXPECT_EQ(map.l2_bytes, 128) << text;
  };
  using runtime::TensorSwizzle;
  expect_words("w4a16_gemm:format=awq,tile_m=8,tile_n=64", 8, TensorSwizzle::span32);
  expect_words("w4a16_gemm:format=awq,tile_m=8,tile_n=128", 16, TensorSwizzle::span64);
  expect_words("w4a16_gemm:format=awq,tile_m=8,tile_n=224", 28, TensorSwizzle::none);
  expect_words("w4a16_gemm:format=awq,tile_m=16,tile_n=96", 12, TensorSwizzle::none);
  expect_words("w4a16_gemm:format=awq,tile_m=8,tile_n=128,function=silu_gate", 8, TensorSwizzle::span32);
}

TEST(GemmBoxes, FamilySm90HasMapsOfWordsByN) {
  const auto maps = maps_of("w4a16_gemm:format=awq,tile_m=64,tile_n=256", arguments_of(64, 512, 384));
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[0], (runtime::TensorMap{.base = 0x2000,
                                         .element_bytes = 4,
                                         .rank = 2,
                                         .sizes = {512 / 8, 384},
                                         .strides = {512 / 2},
                                         .box = {16, 128},
                                         .swizzle = runtime::TensorSwizzle::span64}))
      << "half of a block's columns, and the k's of a stage: " << maps[0].text();
  EXPECT_EQ(maps[1].box[1], 64u);
  EXPECT_EQ(maps[2].box[1], 1u);
}

TEST(GemmBoxes, MapsOfOneRowAndOfOneGroup) {
  auto arguments = arguments_of(1, 256, 328);
  arguments.activation_stride = 0;
  const auto maps = maps_of("w4a16_gemm:tile_m=32,group_size=all,tile_n=256", arguments);
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[1].sizes[1], 1u);
  EXPECT_EQ(maps[1].strides[0], 2u * 328) << "a map of one row still needs a stride";
  EXPECT_EQ(maps[2].sizes[1], 1u);
}

TEST(GemmBoxes, FamilySm80HasNoMapsAndTakesRowsThatAreAllTheSame) {
  auto arguments = arguments_of(100, 256, 128);
  arguments.activation_stride = 0;
  EXPECT_TRUE(maps_of("w4a16_gemm:tile_m=32,tile_n=256,family=sm80", arguments).empty());
}

// Family sm90 reorders the activations of many rows in the workspace, behind the partial sums. Each block that is
// resident at the same time has one slice of chunks of 64 k's. Words of AWQ need no reordering.
TEST(GemmBoxes, ActivationsOfManyRowsAreReorderedInTheWorkspace) {
  const auto plan = plan_of("w4a16_gemm:tile_m=64,group_size=all,tile_n=256", "sm_90a");
  auto arguments = arguments_of(130, 1040, 1032);
  arguments.activation_stride = 1096;
  arguments.decomposition = CUBIT_W4A16_SPLIT_K;
  arguments.splits = 4;
  constexpr std::size_t kPartialSums = sizeof(float) * 3 * 5 * 4 * 256 * 64;
  constexpr std::size_t kRowBytes = 17 * 128;
  const std::size_t bytes = plan.workspace_bytes(arguments, h200());
  EXPECT_EQ(bytes, kWorkspaceCounterBytes + kPartialSums + (130 * kRowBytes + 255) / 256 * 256);
  auto* const base = static_cast<char*>(address(0x100000));
  const Launch launch = plan.encode(arguments, base, bytes, h200());
  PackedGemmArguments parameters;
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(static_cast<char*>(parameters.reordered), base + kWorkspaceCounterBytes + kPartialSums);
  EXPECT_EQ(parameters.reordered_stride, static_cast<std::int64_t>(kRowBytes));
  EXPECT_EQ(parameters.slices, 51) << "17 chunks along k times 3 row tiles are fewer than blocks";
  EXPECT_EQ(parameters.slice_chunks, 1);
  EXPECT_EQ(parameters.larger_slices, 0);
  EXPECT_LE(reinterpret_cast<char*>(parameters.slice_states + parameters.slices + 2), base + kWorkspaceCounterBytes);
  ASSERT_EQ(launch.maps.all().size(), 4u);
  const runtime::TensorMap map = launch.maps.all()[3].map;
  EXPECT_EQ(map.base, reinterpret_cast<std::uintptr_t>(parameters.reordered));
  EXPECT_EQ(map.sizes[0], 17u * 64);
  EXPECT_EQ(map.sizes[1], 130u);
  EXPECT_EQ(map.strides[0], kRowBytes);
}

// At most one slice for each block that is resident at the same time, and for each counter but two.
TEST(GemmBoxes, SlicesOfActivationsAreNoMoreThanResidentBlocks) {
  const auto plan = plan_of("w4a16_gemm:tile_m=64,tile_n=256", "sm_90a");
  const auto slices_of = [&](int multiprocessors, int n, int k) {
    auto arguments = arguments_of(130, n, k);
    arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
    auto device = h200();
    device.multiprocessors = multiprocessors;
    const std::size_t bytes = plan.workspace_bytes(arguments, device);
    const Launch launch = plan.encode(arguments, address(0x100000), bytes, device);
    PackedGemmArguments parameters;
    std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
    EXPECT_EQ(parameters.slices * parameters.slice_chunks + parameters.larger_slices, 3 * k / 64) << "all chunks";
    return parameters.slices;
  };
  EXPECT_EQ(slices_of(132, 1 << 16, 1024), 48) << "chunks";
  EXPECT_EQ(slices_of(132, 1024, 8192), 12) << "blocks";
  EXPECT_EQ(slices_of(7, 1 << 16, 8192), 7) << "further blocks have not begun";
  EXPECT_EQ(slices_of(1000, 1 << 20, 1 << 20), 254) << "a counter for each slice, and two more";
}

// The last 256 counters belong to slices of activations.
TEST(GemmBoxes, MergesLeaveTheCountersOfSlicesAlone) {
  const auto plan = plan_of("w4a16_gemm:tile_m=64,tile_n=256", "sm_90a");
  const auto split_of = [&](int tiles, int decomposition, int splits) {
    auto arguments = arguments_of(64, 256 * tiles, 1024);
    arguments.decomposition = decomposition;
    arguments.splits = splits;
    return plan.schedule(arguments, h200());
  };
  EXPECT_EQ(split_of(480, CUBIT_W4A16_SPLIT_K, 3).splits, 3);
  EXPECT_THROW(split_of(481, CUBIT_W4A16_SPLIT_K, 3), Failure);
  EXPECT_GT(split_of(480, CUBIT_W4A16_STREAM_K, 0).stream_k_blocks, 0);
  EXPECT_THROW(split_of(481, CUBIT_W4A16_STREAM_K, 0), Failure);
  EXPECT_TRUE(split_of(240, CUBIT_W4A16_SPLIT_K, 2).clustered);
  EXPECT_FALSE(split_of(241, CUBIT_W4A16_SPLIT_K, 2).clustered) << "clusters need twice as many counters";
}

TEST(GemmBoxes, NoActivationsAreReorderedOfNoRowsOrForAwq) {
  auto arguments = arguments_of(130, 1024, 1024);
  arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  EXPECT_EQ(plan_of("w4a16_gemm:tile_m=64,format=awq,tile_n=256", "sm_90a").workspace_bytes(arguments, h200()), 0u);
  arguments.m = 0;
  EXPECT_EQ(plan_of("w4a16_gemm:tile_m=64,tile_n=256", "sm_90a").workspace_bytes(arguments, h200()), 0u);
}

}  // namespace
}  // namespace cubit::ops
