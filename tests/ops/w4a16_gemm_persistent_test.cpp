// Tests of w4a16_gemm's family sm90_persistent without a device: the features of its lanes, and its launches.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/kernels/gemm/persistent_gemm_arguments.h"
#include "tests/support/gemm_descriptors.hpp"
#include "tests/support/gemm_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

namespace lanes = persistent_lanes;
using tests::address;
using tests::arguments_of;
using tests::h200;
using tests::plan_of;
using Arguments = cubit_w4a16_gemm_arguments;

// ---- lanes ----

template <class Features>
std::multiset<int> features_of_all_warps() {
  std::multiset<int> features;
  for (int warp = 0; warp < lanes::kConsumerWarps; ++warp) {
    for (int group = 0; group < 8; ++group) {
      for (int row = 0; row < 2; ++row) {
        const int feature = Features::feature(4 * group, warp, row);
        for (int i = 1; i < 4; ++i)
          EXPECT_EQ(Features::feature(4 * group + i, warp, row), feature) << "lanes of a group have the same rows";
        features.insert(feature);
      }
    }
  }
  return features;
}

TEST(PersistentLanes, EveryFeatureIsOneRowOfTheOperand) {
  std::multiset<int> all;
  for (int feature = 0; feature < lanes::kBlockFeatures; ++feature) all.insert(feature);
  EXPECT_EQ(features_of_all_warps<lanes::FeaturesByK<false>>(), all);
  EXPECT_EQ(features_of_all_warps<lanes::FeaturesByK<true>>(), all);
  EXPECT_EQ(features_of_all_warps<lanes::FeaturesByN<false>>(), all);
  EXPECT_EQ(features_of_all_warps<lanes::FeaturesByN<true>>(), all);
  EXPECT_EQ(features_of_all_warps<lanes::FeaturesInOrder<false>>(), all);
  EXPECT_EQ(features_of_all_warps<lanes::FeaturesInOrder<true>>(), all);
}

template <class Gated>
void expect_gate_and_up_together() {
  for (int warp = 0; warp < lanes::kConsumerWarps; ++warp) {
    for (int lane = 0; lane < 32; ++lane)
      EXPECT_EQ(Gated::feature(lane, warp, 1), Gated::feature(lane, warp, 0) + lanes::kBlockFeatures / 2);
  }
}

TEST(PersistentLanes, AGateFeatureAndItsUpProjectionAreInOneLane) {
  expect_gate_and_up_together<lanes::FeaturesByK<true>>();
  expect_gate_and_up_together<lanes::FeaturesByN<true>>();
  expect_gate_and_up_together<lanes::FeaturesInOrder<true>>();
}

// Row r of a warp's 16 rows is in lanes 4 (r % 8) to 4 (r % 8) + 3. A box puts 128 rows of weights into a stage in
// order, or 8 gate rows and their 8 up-projection rows in turn.
TEST(PersistentLanes, RowsOfDenseWeightsLieInTheOrderOfTheOperand) {
  for (int row = 0; row < lanes::kBlockFeatures; ++row) {
    const int lane = row % 8 * 4;
    const int half = row % 16 / 8;
    EXPECT_EQ(lanes::FeaturesInOrder<false>::feature(lane, row / 16, half), row);
    EXPECT_EQ(lanes::FeaturesInOrder<true>::feature(lane, row / 16, half), 64 * half + row / 16 * 8 + row % 8);
  }
}

// A word along n has columns 0, 2, 4, 6, 1, 3, 5, 7 in its nibbles, and ldmatrix gives lane 4 g + q the four nibbles of
// 16-bit value g of a row.
TEST(PersistentLanes, NibblesByNAreOfTheLanesFeatures) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  for (int warp = 0; warp < lanes::kConsumerWarps; ++warp) {
    for (int lane = 0; lane < 32; ++lane) {
      const auto feature_at = [&](int row_byte, int nibble) {
        const int value = row_byte / 2 + lane / 4;  // 16-bit values of a row, four nibbles each
        return value / 2 * 8 + kOrder[value % 2 * 4 + nibble];
      };
      using Plain = lanes::FeaturesByN<false>;
      using Gated = lanes::FeaturesByN<true>;
      for (int row = 0; row < 2; ++row) {
        EXPECT_EQ(Plain::feature(lane, warp, row),
                  feature_at(Plain::words(lane, warp, 0, 0).byte, Plain::nibble(lane, warp) + row));
        EXPECT_EQ(Gated::feature(lane, warp, row),
                  feature_at(Gated::words(lane, warp, row, 0).byte, Gated::nibble(lane, warp)));
      }
    }
  }
}

template <class Features, bool kGated>
void expect_outputs_once() {
  constexpr int kStores = Features::kRuns;
  constexpr int kRun = (kGated ? 2 : 4) / kStores;
  std::set<std::tuple<int, int, int>> stored;  // warpgroup, token, output
  for (int warp = 0; warp < lanes::kConsumerWarps; ++warp) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < kStores; ++i) {
        const lanes::Place at = lanes::stored_outputs<Features, kGated>(lane, warp, 3, i);
        for (int j = 0; j < kRun; ++j)
          EXPECT_TRUE(stored.insert({warp / 4, at.row, at.byte / 2 + j}).second) << warp << ' ' << lane;
        // The lane, or the lane that it exchanges with, has the output's feature as a row.
        const int first = warp / 4 * lanes::warpgroup_outputs(kGated) + at.byte / 2;
        for (int j = 0; j < kRun; ++j) {
          const bool is_own =
              Features::feature(lane, warp, 0) == first + j || Features::feature(lane, warp, 1) == first + j;
          const bool is_others =
              Features::feature(lane ^ 4, warp, 0) == first + j || Features::feature(lane ^ 4, warp, 1) == first + j;
          EXPECT_TRUE(is_own || (Features::kExchanges && is_others)) << warp << ' ' << lane;
        }
      }
    }
  }
  EXPECT_EQ(stored.size(), 2u * 8 * lanes::warpgroup_outputs(kGated)) << "of a block of 8 tokens";
}

TEST(PersistentLanes, EveryOutputIsStoredOnce) {
  expect_outputs_once<lanes::FeaturesByK<false>, false>();
  expect_outputs_once<lanes::FeaturesByK<true>, true>();
  expect_outputs_once<lanes::FeaturesByN<false>, false>();
  expect_outputs_once<lanes::FeaturesByN<true>, true>();
  expect_outputs_once<lanes::FeaturesInOrder<false>, false>();
  expect_outputs_once<lanes::FeaturesInOrder<true>, true>();
}

// The kernel computes a lane's first address of words. All other addresses are at the same distances in all lanes.
TEST(PersistentLanes, WordsAreAtTheSameDistancesForAllLanes) {
  for (const W4a16Gemm& descriptor : tests::pairwise_gemm_descriptors_of("sm90_persistent")) {
    if (descriptor.is_dense()) continue;  // no lane loads its weights
    const auto plan = plan_of(descriptor.text());
    const Tile& words = plan.words();
    const codegen::TileAccess& access = words.accesses.at(0);
    const auto at = [&](int instance, int lane) { return words.layout.address(access.at(instance, lane).value()); };
    for (int i = 0; i < access.instances; ++i) {
      const int warp = i % lanes::kConsumerWarps;
      for (int lane = 0; lane < 32; ++lane)
        EXPECT_EQ(at(i, lane) - at(warp, lane), at(i - warp, 0) - at(0, 0)) << descriptor.text();
    }
  }
}

// ---- launches ----

struct Encoded {
  Launch launch;
  PersistentGemmArguments parameters;
  std::vector<runtime::TensorMap> maps;
};

void* const kWorkspace = reinterpret_cast<void*>(std::uintptr_t{0x100000});

Encoded encode(const char* text, const Arguments& arguments) {
  const auto plan = plan_of(text);
  Encoded result{plan.encode(arguments, kWorkspace, plan.workspace_bytes(arguments, h200()), h200()), {}, {}};
  std::memcpy(&result.parameters, result.launch.parameters.data(), sizeof result.parameters);
  for (const MapParameter& one : result.launch.maps.all()) {
    EXPECT_EQ(one.offset % alignof(runtime::EncodedTensorMap), 0u);
    EXPECT_EQ(runtime::broken_rule(one.map), "");
    result.maps.push_back(one.map);
  }
  return result;
}

/// A half of a tile's rows is whole boxes of whole swizzle atoms.
TEST(PersistentLaunch, CopiesActivationsInBoxesOfAtMost72Rows) {
  for (int rows = 16; rows <= 256; rows += 16) {
    const int box = persistent_lanes::box_tokens(rows);
    EXPECT_EQ(rows / 2 % box, 0) << rows;
    EXPECT_EQ(box % 8, 0) << rows;
    EXPECT_LE(box, 72) << rows;
  }
  EXPECT_EQ(persistent_lanes::box_tokens(256), 64);
  EXPECT_EQ(persistent_lanes::box_tokens(192), 48);
}

TEST(PersistentLaunch, HasMapsOfWordsActivationsAndOutput) {
  auto arguments = arguments_of(300, 1032, 640);
  arguments.activation_stride = 704;
  arguments.output_stride = 1040;
  const auto maps = encode("w4a16_gemm:tile_m=256,tile_n=256", arguments).maps;
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[0], (runtime::TensorMap{.base = 0x2000,
                                         .element_bytes = 4,
                                         .rank = 2,
                                         .sizes = {1032, 640 / 8},
                                         .strides = {4 * 1032},
                                         .box = {128, 8}}))
      << "the columns of a block, and the words of a stage: " << maps[0].text();
  EXPECT_EQ(maps[1], (runtime::TensorMap{.base = 0x1000,
                                         .element_bytes = 2,
                                         .rank = 2,
                                         .sizes = {640, 300},
                                         .strides = {2 * 704},
                                         .box = {64, 64},
                                         .swizzle = runtime::TensorSwizzle::span128}))
      << "a quarter of a tile's rows: " << maps[1].text();
  EXPECT_EQ(maps[2], (runtime::TensorMap{.base = 0x5000,
                                         .element_bytes = 2,
                                         .rank = 2,
                                         .sizes = {1032, 300},
                                         .strides = {2 * 1040},
                                         .box = {64, 64},
                                         .swizzle = runtime::TensorSwizzle::span128}))
      << "the outputs of a warpgroup: " << maps[2].text();
}

TEST(PersistentLaunch, BoxesOfOtherFormatsAndOfGates) {
  const auto arguments = arguments_of(200, 1024, 640);
  using runtime::TensorSwizzle;
  const auto expect_boxes = [&](const char* text, std::uint32_t words, std::uint32_t rows, TensorSwizzle swizzle,
                                std::uint32_t outputs, std::uint32_t tokens) {
    const auto maps = encode(text, arguments).maps;
    EXPECT_EQ(maps.at(0).box, (std::array<std::uint32_t, 5>{words, rows})) << text;
    EXPECT_EQ(maps.at(0).swizzle, swizzle) << text;
    EXPECT_EQ(maps.at(2).box, (std::array<std::uint32_t, 5>{outputs, tokens})) << text;
  };
  expect_boxes("w4a16_gemm:tile_m=192,tile_n=256", 128, 8, TensorSwizzle::none, 64, 48);
  expect_boxes("w4a16_gemm:tile_m=80,tile_n=256", 128, 8, TensorSwizzle::none, 64, 40);
  expect_boxes("w4a16_gemm:tile_m=128,tile_n=256,function=silu_gate", 64, 8, TensorSwizzle::none, 32, 64);
  expect_boxes("w4a16_gemm:format=awq,tile_m=128,tile_n=256", 16, 64, TensorSwizzle::span64, 64, 64);
  expect_boxes("w4a16_gemm:format=awq,tile_m=256,tile_n=256,function=silu_gate", 8, 64, TensorSwizzle::span32, 32, 64);
}

Arguments dense_arguments_of(int m, int n, int k) {
  Arguments arguments = arguments_of(m, n, k);
  arguments.qweight = arguments.qzeros = arguments.scales = nullptr;
  arguments.weight = address(0x2000);
  return arguments;
}

TEST(PersistentLaunch, DenseWeightsAreAMatrixOfRows) {
  auto arguments = dense_arguments_of(300, 1032, 648);
  const runtime::TensorMap rows = {.base = 0x2000,
                                   .element_bytes = 2,
                                   .rank = 2,
                                   .sizes = {648, 1032},
                                   .strides = {2 * 648},
                                   .box = {64, 128},
                                   .swizzle = runtime::TensorSwizzle::span128};
  const Encoded dense = encode("w4a16_gemm:format=dense,tile_m=128,tile_n=256", arguments);
  EXPECT_EQ(dense.maps.at(0), rows) << dense.maps.at(0).text();
  EXPECT_EQ(dense.parameters.slabs, 11) << "the last one is a tail of 8 values along k";
  arguments.weight_stride = 656;
  EXPECT_EQ(encode("w4a16_gemm:format=dense,element=bf16,tile_m=256,tile_n=256", arguments).maps.at(0).strides[0],
            2u * 656);
}

TEST(PersistentLaunch, GatesOfDenseWeightsAlternateWithTheirUpProjections) {
  const auto maps =
      encode("w4a16_gemm:format=dense,tile_m=64,tile_n=256,function=silu_gate", dense_arguments_of(8, 1040, 64)).maps;
  EXPECT_EQ(maps.at(0), (runtime::TensorMap{.base = 0x2000,
                                            .element_bytes = 2,
                                            .rank = 4,
                                            .sizes = {64, 8, 2, 65},
                                            .strides = {128, 520 * 128, 8 * 128},
                                            .box = {64, 8, 2, 8},
                                            .swizzle = runtime::TensorSwizzle::span128}))
      << maps.at(0).text();
}

// The largest sizes: offsets of 2^40 bytes and more work, or are refused where a tensor map cannot have the stride.
TEST(PersistentLaunch, OffsetsOfDenseWeightsDoNotWrap) {
  constexpr int kMostColumns = 65535 * 256;
  constexpr int kMostK = 1 << 30;
  const auto maps =
      encode("w4a16_gemm:format=dense,tile_m=64,tile_n=256", dense_arguments_of(1, kMostColumns, kMostK)).maps;
  EXPECT_EQ(maps.at(0).sizes[1], std::uint64_t{kMostColumns});
  EXPECT_EQ(maps.at(0).strides[0], std::uint64_t{2} * kMostK);
  const auto sentence = tests::refusal_of([&] {
    encode("w4a16_gemm:format=dense,tile_m=64,tile_n=256,function=silu_gate", dense_arguments_of(1, 1024, kMostK));
  });
  EXPECT_EQ(sentence,
            "weight with n = 1024 and k = 1073741824: its up-projection rows begin 1099511627776 bytes behind the gate "
            "rows, and a tensor map has strides below 2^40 bytes; accepted: smaller sizes");
}

TEST(PersistentLaunch, RefusesWeightsOfTheOtherKind) {
  const auto sentence = [](const char* text, const Arguments& arguments) {
    return tests::refusal_of([&] { encode(text, arguments); });
  };
  constexpr const char* kDense = "w4a16_gemm:format=dense,tile_m=64,tile_n=256";
  Arguments arguments = dense_arguments_of(8, 256, 256);
  arguments.scales = address(0x4000);
  EXPECT_EQ(sentence(kDense, arguments),
            "scales at 0x4000: the descriptor does not have format=gptq, format=gptq_v2, format=awq or "
            "format=symmetric; give NULL, or ask for format=gptq, format=gptq_v2, format=awq or format=symmetric in "
            "the descriptor");
  arguments = dense_arguments_of(8, 256, 256);
  arguments.weight = nullptr;
  EXPECT_EQ(sentence(kDense, arguments), "weight = NULL: the tensor is needed");
  arguments.weight = address(0x2008);
  EXPECT_EQ(
      sentence(kDense, arguments),
      "weight at 0x2008: the address is not a multiple of 16 bytes; accepted: what cuMemAlloc gives, and multiples "
      "of 16 from there");
  arguments = dense_arguments_of(8, 256, 256);
  arguments.weight_stride = 248;
  EXPECT_EQ(sentence(kDense, arguments), "weight_stride = 248: it must be 0, for contiguous rows, or at least k");
  arguments.weight_stride = 260;
  EXPECT_EQ(sentence(kDense, arguments), "weight_stride = 260: it must be a multiple of 8 elements from 0 to 2^30");
  EXPECT_EQ(sentence(kDense, dense_arguments_of(8, 256, 100)), "k = 100: it must be a multiple of 8");
  arguments = arguments_of(8, 256, 256);
  arguments.weight_stride = 256;
  EXPECT_EQ(sentence("w4a16_gemm:tile_m=128,tile_n=256", arguments),
            "weight_stride = 256: it goes with format=dense only");
  arguments = arguments_of(8, 256, 256);
  arguments.weight = address(0x6000);
  EXPECT_EQ(sentence("w4a16_gemm:tile_m=128,tile_n=256", arguments),
            "weight at 0x6000: the descriptor does not have format=dense; give NULL, or ask for format=dense in the "
            "descriptor");
}

TEST(PersistentLaunch, AMatrixOfOneRowNeedsNoStride) {
  auto arguments = arguments_of(1, 256, 328);
  arguments.activation_stride = 0;
  arguments.output_stride = 0;
  const auto maps = encode("w4a16_gemm:tile_m=128,tile_n=256,group_size=all", arguments).maps;
  EXPECT_EQ(maps.at(1).strides[0], 2u * 328);
  EXPECT_EQ(maps.at(2).strides[0], 2u * 256);
}

// 132 multiprocessors hold 66 clusters. Few tiles leave clusters idle unless the two blocks of a cluster divide k.
TEST(PersistentLaunch, ClustersDivideKWhereTilesAreFew) {
  const auto few = encode("w4a16_gemm:tile_m=256,tile_n=256", arguments_of(256, 8192, 8192));
  EXPECT_EQ(few.launch.shape.cluster_blocks, 2u);
  EXPECT_EQ(few.launch.shape.grid, (std::array<unsigned, 3>{2 * 64, 1, 1}));
  EXPECT_EQ(few.parameters.feature_tiles, 64);
  EXPECT_EQ(few.parameters.slabs, 128);
  EXPECT_EQ(few.parameters.split_slabs, 64);
  EXPECT_EQ(few.parameters.share, 0);
}

TEST(PersistentLaunch, ClustersTakeWholeTilesInTurn) {
  const auto full = encode("w4a16_gemm:tile_m=256,tile_n=256", arguments_of(1024, 33 * 256, 8192));
  EXPECT_EQ(full.launch.shape.grid, (std::array<unsigned, 3>{2 * 66, 1, 1}));
  EXPECT_EQ(full.parameters.token_tiles, 4);
  EXPECT_EQ(full.parameters.feature_tiles, 33);
  EXPECT_EQ(full.parameters.tile_group, 4);
  EXPECT_EQ(full.parameters.split_slabs, 0);
  EXPECT_EQ(full.parameters.whole_tiles, 4 * 33) << "two rounds of 66 clusters";
  EXPECT_EQ(full.parameters.share, 0);
}

// 80 tiles are one round of 66 clusters and 14 tiles more.
TEST(PersistentLaunch, ClustersShareTheTilesThatRoundsLeaveOver) {
  const auto arguments = arguments_of(512, 10240, 8192);
  const auto one = encode("w4a16_gemm:tile_m=256,tile_n=256", arguments);
  EXPECT_EQ(one.launch.shape.grid[0], 2u * 66);
  EXPECT_EQ(one.parameters.whole_tiles, 0);
  EXPECT_EQ(one.parameters.units, 64) << "of two slabs";
  EXPECT_EQ(one.parameters.share, 80 * 64 / 66);
  EXPECT_EQ(one.parameters.larger, 80 * 64 % 66);
  EXPECT_EQ(one.parameters.flags, kWorkspace);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.parameters.partials), 0x100000 + kWorkspaceCounterBytes);
  EXPECT_EQ(plan_of("w4a16_gemm:tile_m=256,tile_n=256").workspace_bytes(arguments, h200()),
            kWorkspaceCounterBytes + 132 * 128 * 256 * sizeof(float))
      << "one block's sums for each block";
  const auto three = encode("w4a16_gemm:tile_m=256,tile_n=256", arguments_of(1536, 10240, 8192));
  EXPECT_EQ(three.parameters.whole_tiles, 2 * 66);
  EXPECT_EQ(three.parameters.share, (66 + 42) * 64 / 66) << "of one round and the 42 tiles that are left";
}

// Rows decide whether clusters share tiles.
TEST(PersistentLaunch, AWorkspaceServesFewerRows) {
  const auto plan = plan_of("w4a16_gemm:tile_m=256,tile_n=256");
  for (const int n : {1024, 5120, 10240, 33 * 256}) {
    std::size_t largest = 0;
    for (int m = 1; m <= 4096; m += 85) {
      const std::size_t bytes = plan.workspace_bytes(arguments_of(m, n, 8192), h200());
      EXPECT_GE(bytes, largest) << m << " rows of " << n;
      largest = bytes;
      EXPECT_NO_THROW(plan.encode(arguments_of(m, n, 8192), kWorkspace, bytes, h200()));
    }
  }
}

TEST(PersistentLaunch, ACallerChoosesTheDecomposition) {
  auto arguments = arguments_of(4096, 8192, 8192);
  arguments.decomposition = CUBIT_W4A16_SPLIT_K;
  arguments.splits = 2;
  const auto split = encode("w4a16_gemm:tile_m=256,tile_n=256", arguments);
  EXPECT_EQ(split.parameters.split_slabs, 64);
  EXPECT_EQ(split.launch.shape.grid[0], 2u * 16 * 64) << "each cluster has one tile";
  arguments = arguments_of(256, 8192, 8192);
  arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  const auto parallel = encode("w4a16_gemm:tile_m=256,tile_n=256", arguments);
  EXPECT_EQ(parallel.parameters.split_slabs, 0);
  EXPECT_EQ(parallel.parameters.share, 0);
  arguments.decomposition = CUBIT_W4A16_STREAM_K;
  EXPECT_EQ(encode("w4a16_gemm:tile_m=256,tile_n=256", arguments).parameters.share, 32 * 64 / 66);
}

// The second slice begins with a whole group, and no slice is empty.
TEST(PersistentLaunch, SlicesBeginWithGroups) {
  const auto split_slabs = [](const char* text, int k) {
    auto arguments = arguments_of(128, 256, k);
    arguments.decomposition = CUBIT_W4A16_SPLIT_K;
    arguments.splits = 2;
    return encode(text, arguments).parameters.split_slabs;
  };
  EXPECT_EQ(split_slabs("w4a16_gemm:tile_m=128,tile_n=256", 384), 4) << "of 6 slabs, two of which are a group";
  EXPECT_EQ(split_slabs("w4a16_gemm:tile_m=128,tile_n=256", 128), 0) << "one group";
  EXPECT_EQ(split_slabs("w4a16_gemm:tile_m=128,tile_n=256,group_size=64", 320), 3);
  EXPECT_EQ(split_slabs("w4a16_gemm:tile_m=128,tile_n=256,group_size=32", 96), 1);
  EXPECT_EQ(split_slabs("w4a16_gemm:tile_m=128,tile_n=256,group_size=all", 8), 0);
  auto arguments = dense_arguments_of(128, 256, 320);
  arguments.decomposition = CUBIT_W4A16_SPLIT_K;
  arguments.splits = 2;
  EXPECT_EQ(encode("w4a16_gemm:format=dense,tile_m=128,tile_n=256", arguments).parameters.split_slabs, 3)
      << "of 5 slabs";
}

TEST(PersistentLaunch, TakesNoRowsAndThenNeedsNoWorkspace) {
  const auto plan = plan_of("w4a16_gemm:tile_m=128,tile_n=256");
  EXPECT_EQ(plan.workspace_bytes(arguments_of(0, 5120, 8192), h200()), 0u);
  EXPECT_TRUE(plan.encode(arguments_of(0, 256, 128), nullptr, 0, h200()).empty);
}

TEST(PersistentLaunch, RefusalsNameTheRule) {
  const auto sentence = [](const Arguments& arguments) -> std::string {
    try {
      encode("w4a16_gemm:tile_m=128,tile_n=256", arguments);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::invalid_argument);
      return failure.what();
    }
    return "accepted";
  };
  auto arguments = arguments_of(128, 256, 256);
  arguments.decomposition = CUBIT_W4A16_STREAM_K;
  EXPECT_EQ(
      sentence(arguments),
      "decomposition = 3 of 1 tiles, 4 stages of k each: each of 66 clusters takes at least 2 stages and needs 16 "
      "of the workspace's 4096 counters, and all stages are counted in 31 bits; accepted: more tiles or k's, or "
      "another decomposition");
  arguments.decomposition = CUBIT_W4A16_SPLIT_K;
  arguments.splits = 4;
  EXPECT_EQ(sentence(arguments),
            "splits = 4 of w4a16_gemm:tile_m=128,tile_n=256: in family sm90_persistent the two blocks of a cluster "
            "compute two "
            "tiles, or two slices of one tile; accepted: 0, 1 or 2");
  arguments = arguments_of(128, 256, 256);
  arguments.activation_stride = 0;
  EXPECT_EQ(sentence(arguments),
            "activation_stride = 0: family sm90_persistent reads rows by a tensor map, whose stride must be a multiple "
            "of 8 from 8 on (any stride: tile_m=64, tile_n=256 and family=sm80)");
}

}  // namespace
}  // namespace cubit::ops
