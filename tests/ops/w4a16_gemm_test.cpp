// w4a16_gemm as values: texts that parse back, plans whose accesses meet no bank twice, launches that follow from sizes and
// device alone and refuse what the argument struct rules out, kernels that compile without spills.
#include <cubit/w4a16_gemm.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "codegen/fragments.hpp"
#include "ops/argument_checks.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "runtime/nvrtc.hpp"
#include "runtime/settings.hpp"
#include "templates/w4a16_gemm_arguments.h"
#include "templates/w4a16_gemm_lanes.h"
#include "tests/support/pairwise.hpp"

namespace cubit::ops {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"};

W4a16Gemm make_descriptor(const tests::Combination& c) {
  static constexpr int kGroups[] = {32, 64, 128, 0};
  static constexpr int kTiles[] = {8, 16, 32, 64};
  return {.format = static_cast<W4Format>(c[0]),
          .bits = c[10] == 0 ? 4 : 8,
          .group_size = kGroups[c[1]],
          .element = c[2] == 0 ? Element::fp16 : Element::bf16,
          .tile_m = kTiles[c[3]],
          .activation_order = c[4] != 0,
          .function = static_cast<GemmFunction>(c[5]),
          .bias = c[6] != 0,
          .residual = c[7] != 0,
          .alignment = c[8] == 0 ? 16 : 4,
          .batch_invariant = c[9] != 0};
}
bool is_legal(const tests::Combination& c) {
  const W4a16Gemm descriptor = make_descriptor(c);
  const bool awq = descriptor.format == W4Format::awq;
  if (descriptor.bits == 8 && (awq || descriptor.tile_m > 32)) return false;
  return (awq || descriptor.alignment == 16) && !(descriptor.activation_order && (awq || descriptor.group_size == 0));
}
const std::vector<int> kCounts = {4, 4, 2, 4, 2, 6, 2, 2, 2, 2, 2};

std::vector<W4a16Gemm> descriptors(bool all) {
  std::vector<W4a16Gemm> result;
  for (const auto& c : all ? tests::all_combinations(kCounts, is_legal) : tests::pairwise_cover(kCounts, is_legal))
    result.push_back(make_descriptor(c));
  return result;
}

w4a16_gemm::Plan plan_of(std::string_view text, const char* architecture = "sm_90a") {
  return w4a16_gemm::make_plan(w4a16_gemm::parse(text), codegen::find_architecture(architecture));
}

TEST(GemmDescriptor, EveryValueHasOneTextThatParsesBackToIt) {
  std::set<std::string> texts;
  for (const W4a16Gemm& descriptor : descriptors(true)) {
    const std::string text = descriptor.text();
    EXPECT_TRUE(texts.insert(text).second) << text << " stands for two values";
    EXPECT_EQ(w4a16_gemm::parse(text), descriptor) << text;
  }
  const unsigned by_k = 3 * (3 * 2 + 1);                      // formats, groups with activation order or without
  const unsigned awq = 4 * 2;                                 // groups, alignments
  const unsigned tiles_of_all = 4 * (by_k + awq) + 3 * by_k;  // of nibbles, and of bytes
  EXPECT_EQ(texts.size(), tiles_of_all * 2 * 6 * 2 * 2 * 2);
  EXPECT_EQ(find_operator("w4a16_gemm").canonical("w4a16_gemm:format=gptq,group_size=128,element=fp16"), "w4a16_gemm");
  EXPECT_EQ(find_operator("w4a16_gemm").canonical("w4a16_gemm:group_size=all,format=awq"),
            "w4a16_gemm:format=awq,group_size=all");
}

TEST(GemmDescriptor, RefusalsNameTheRule) {
  const auto sentence = [](std::string_view text) -> std::string {
    try {
      find_operator(text).canonical(text);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::invalid_argument);
      return failure.what();
    }
    return "accepted";
  };
  EXPECT_EQ(sentence("w4a16_gemm:group_size=256"),
            "descriptor \"w4a16_gemm:group_size=256\": 256 is not a value of group_size; accepted: 32, 64, 128, all");
  EXPECT_EQ(sentence("w4a16_gemm:format=marlin"),
            "descriptor \"w4a16_gemm:format=marlin\": marlin is not a value of format; accepted: gptq, gptq_v2, awq, "
            "symmetric");
  EXPECT_EQ(
      sentence("w4a16_gemm:alignment=16"),
      "descriptor \"w4a16_gemm:alignment=16\": the field alignment applies to format=awq only; leave alignment out "
      "or ask for format=awq");
  EXPECT_EQ(
      sentence("w4a16_gemm:group_size=all,activation_order=1"),
      "descriptor \"w4a16_gemm:group_size=all,activation_order=1\": activation_order=1 needs groups that are not all "
      "of "
      "k, in a format other than awq, which has none; leave activation_order out, or ask for format=gptq, gptq_v2 or "
      "symmetric and group_size=32, 64 or 128");
  EXPECT_EQ(sentence("w4a16_gemm:bits=8,format=awq"),
            "descriptor \"w4a16_gemm:bits=8,format=awq\": format=awq has weights of 4 bits; leave bits out, or ask for "
            "format=gptq, gptq_v2 or symmetric");
  EXPECT_EQ(sentence("w4a16_gemm:bits=3"),
            "descriptor \"w4a16_gemm:bits=3\": 3 is not a value of bits; accepted: 4, 8");
  EXPECT_EQ(sentence("w4a16_gemm:bits=8,tile_m=64"),
            "descriptor \"w4a16_gemm:bits=8,tile_m=64\": two stages of 64 rows and of weights of 8 bits do not fit the "
            "shared memory of every architecture; ask for tile_m=8, 16 or 32, which compute any number of rows");
  EXPECT_EQ(sentence("w4a16_gemm:tile_m=32,activation_order=1,family=sm90"),
            "descriptor \"w4a16_gemm:tile_m=32,activation_order=1,family=sm90\": family=sm90: with "
            "activation_order=1 neighbours along k share no group; ask for family=sm80, or leave family out");
  EXPECT_EQ(sentence("w4a16_gemm:batch_invariant=2"),
            "descriptor \"w4a16_gemm:batch_invariant=2\": 2 is not a value of batch_invariant; accepted: 0, 1");
  EXPECT_EQ(
      sentence("w4a16_gemm:speed=1"),
      "descriptor \"w4a16_gemm:speed=1\": w4a16_gemm has no field speed; accepted fields: format, bits, "
      "group_size, element, tile_m, activation_order, function, bias, residual, alignment, batch_invariant, family");
}

TEST(GemmPlan, IsFreeOfBankConflictsAndFitsEveryArchitecture) {
  for (const W4a16Gemm& descriptor : descriptors(false)) {
    for (const char* name : kArchitectures) {
      const auto& architecture = codegen::find_architecture(name);
      const auto plan = w4a16_gemm::make_plan(descriptor, architecture);
      const bool zeros = descriptor.format != W4Format::symmetric;
      const bool is_90 = plan.family == Family::sm90;
      // Of family sm90 tensor maps make the copies but those of zeros, and somebody puts activations in order or nobody does.
      const bool puts_in_order = is_90 && descriptor.format != W4Format::awq && descriptor.tile_m <= 32;
      const std::size_t of_90 = 2 + (zeros ? 2 : 0) + (puts_in_order ? 2 : 0);
      EXPECT_EQ(plan.report.proofs.size(), is_90                         ? of_90
                                           : descriptor.activation_order ? 4u
                                           : zeros                       ? 8u
                                                                         : 6u)
          << descriptor.text();
      for (const auto& proof : plan.report.proofs) {
        const bool is_of_small_groups =
            puts_in_order && descriptor.group_size == 32 && proof.access == "loads of words";
        EXPECT_EQ(proof.degree, is_of_small_groups ? 2 : 1) << descriptor.text() << proof.access;
      }
      EXPECT_GE(plan.stages, 2);
      EXPECT_GE(plan.blocks_per_sm, 1);
      EXPECT_LE(plan.shared_memory, architecture.shared_memory_per_block);
      int end = 0;
      for (const MemoryRegion& region : plan.report.memory) {
        EXPECT_GE(region.offset, end) << region.name;
        end = region.offset + region.bytes;
      }
      EXPECT_LE(end, plan.shared_memory);
      EXPECT_GT(end, plan.shared_memory - 128) << "regions begin at bank 0";
    }
  }
}

std::string family_of(std::string_view text, const char* architecture) {
  return plan_of(text, architecture).report.family;
}

TEST(GemmPlan, FamilySm90IsChosenWhereItIsFasterAndByName) {
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=16", "sm_90a"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=32", "sm_90a"), "sm90_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=64", "sm_90"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=64", "sm_120"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=8,family=sm90", "sm_90a"), "sm90_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=64,family=sm80", "sm_90a"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=64,batch_invariant=1", "sm_90a"), "sm80_w4a16_gemm")
      << "every tile gives the same bits";
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=32,bits=8", "sm_90a"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=32,activation_order=1", "sm_90a"), "sm80_w4a16_gemm");
  try {
    plan_of("w4a16_gemm:family=sm90", "sm_100a");
    FAIL() << "sm_100a has no wgmma";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "w4a16_gemm:family=sm90 for sm_100a: family=sm90: it needs wgmma, which sm_90a alone has; accepted: "
                 "sm_90a, or leave family out");
  }
}

TEST(GemmPlan, GivesAReasonForEveryDecision) {
  const auto plan = plan_of("w4a16_gemm:format=awq,element=bf16,tile_m=64");
  EXPECT_GE(plan.report.decisions.size(), 10u);
  for (const Decision& decision : plan.report.decisions)
    EXPECT_FALSE(decision.name.empty() || decision.value.empty() || decision.why.empty()) << decision.name;
  try {
    plan_of("w4a16_gemm", "sm_75");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::unsupported);
    EXPECT_STREQ(failure.what(),
                 "w4a16_gemm for sm_75: no kernel family runs there (sm80_w4a16_gemm: it needs cp.async, which sm_80 "
                 "brought); accepted: sm_80 and later");
  }
}

// Copies take every byte of a stage's tiles once.
TEST(GemmLanes, CopiesTakeEveryByteOnce) {
  for (const W4a16Gemm& descriptor : descriptors(false)) {
    const auto plan = w4a16_gemm::make_plan(descriptor, codegen::find_architecture("sm_80"));
    const auto expect_once = [&](const codegen::TileLayout& layout, const codegen::TileAccess& copies) {
      std::set<std::pair<int, int>> taken;
      for (int i = 0; i < copies.instances; ++i) {
        for (int lane = 0; lane < 32; ++lane) {
          const auto at = copies.at(i, lane).value();
          EXPECT_TRUE(taken.insert({at.row, at.byte}).second) << copies.name;
        }
      }
      EXPECT_EQ(static_cast<int>(taken.size()) * copies.bytes_per_lane, layout.rows * layout.row_bytes) << copies.name;
    };
    expect_once(plan.words, w4a16_gemm::word_accesses(plan)[0]);
    expect_once(plan.activations, w4a16_gemm::activation_accesses(plan)[0]);
    if (descriptor.activation_order) continue;
    expect_once(plan.scales, w4a16_gemm::scale_accesses(plan)[0]);
    if (w4a16_gemm::stores_zeros(descriptor)) expect_once(plan.zeros, w4a16_gemm::zero_accesses(plan)[0]);
  }
}

// Lane (r, c) of an operand has row r and pair c: its words and activations must be of the same k's.
TEST(GemmLanes, AgreeWithTheFragmentsOfTheIsa) {
  const auto& c_fragment = codegen::find_fragment("mma.m16n8k16 C, 32-bit");
  for (int lane = 0; lane < 32; ++lane) {
    const int row = c_fragment.at(lane, 0).row;
    const auto words = gemm_lanes::words_by_k(lane, 3, 2);
    const auto activations = gemm_lanes::activations_by_k(lane, 5, 2);
    EXPECT_EQ(words.byte, 4 * (32 * 3 + 4 * row));
    EXPECT_EQ(activations.row, 8 * 5 + row) << "the B operand's column is the lane's r";
    EXPECT_EQ(8 * words.row, activations.byte / 2) << "both are the 8 k's from here on";
    EXPECT_EQ(gemm_lanes::first_column(lane), 4 * row);
    for (const int half : {0, 1}) {
      const auto bytes = gemm_lanes::byte_words_by_k(lane, 3, 2, half);
      EXPECT_EQ(bytes.byte, words.byte) << "the same four columns";
      EXPECT_EQ(4 * bytes.row, activations.byte / 2 + 4 * half) << "the 8 k's in two words";
    }
    EXPECT_EQ(gemm_lanes::byte_zeros(lane, 3, 0).byte, 32 * 3 + gemm_lanes::first_column(lane));
    // ldmatrix: lanes 8i … 8i + 7 address the rows of matrix i, which are 8 k's.
    const auto by_n = gemm_lanes::words_by_n(lane, 3, 2);
    EXPECT_EQ(by_n.row, 32 * 2 + lane / 8 * 8 + lane % 8);
    EXPECT_EQ(by_n.byte, 32 * 3 / 2);
    EXPECT_EQ(gemm_lanes::activations_by_n(lane, 5, 2).byte, 2 * (32 * 2 + 8 * (lane / 8)));
  }
}

// The kernel computes a lane's first address, and takes all others at constant distances from it (of copies of words, and by n
// of activations at every other step, from its second; of words of bytes from the first of the same half): their distances are
// those of lane 0.
TEST(GemmLanes, AddressesAreAtTheSameDistancesForAllLanes) {
  for (const W4a16Gemm& descriptor : descriptors(false)) {
    const auto plan = w4a16_gemm::make_plan(descriptor, codegen::find_architecture("sm_80"));
    const auto words = w4a16_gemm::word_accesses(plan)[1];
    const auto activations = w4a16_gemm::activation_accesses(plan)[1];
    const auto address = [](const codegen::TileLayout& layout, const codegen::TileAccess& access, int instance,
                            int lane) { return layout.address(access.at(instance, lane).value()); };
    const int tiles = descriptor.tile_m / 8;
    const int period = descriptor.format == W4Format::awq ? 2 : 1;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < words.instances; ++i) {
        const int strip = i % gemm_lanes::kStrips;
        const int half = descriptor.bits == 8 ? i / gemm_lanes::kStrips % 2 * gemm_lanes::kStrips : 0;
        EXPECT_EQ(address(plan.words, words, i, lane) - address(plan.words, words, half + strip, lane),
                  address(plan.words, words, i - strip, 0) - address(plan.words, words, half, 0));
      }
      for (int i = 0; i < activations.instances; ++i) {
        const int first = i / tiles % period * tiles;
        EXPECT_EQ(address(plan.activations, activations, i, lane) - address(plan.activations, activations, first, lane),
                  address(plan.activations, activations, i, 0) - address(plan.activations, activations, first, 0));
      }
    }
    const auto expect_same_distances = [&](const codegen::TileLayout& layout, const codegen::TileAccess& copies,
                                           int every) {
      for (int i = 0; i < copies.instances; ++i) {
        const int warp = i % plan.warps;
        const int first = i / plan.warps % every * plan.warps;
        for (int lane = 0; lane < 32; ++lane) {
          EXPECT_EQ(address(layout, copies, i, lane) - address(layout, copies, first + warp, lane),
                    address(layout, copies, i - warp, 0) - address(layout, copies, first, 0));
        }
      }
    };
    expect_same_distances(plan.words, w4a16_gemm::word_accesses(plan)[0], descriptor.bits == 8 ? 4 : 2);
    expect_same_distances(plan.activations, w4a16_gemm::activation_accesses(plan)[0], 1);
  }
}

runtime::DeviceFacts h200() {
  runtime::DeviceFacts facts;
  facts.architecture = &codegen::find_architecture("sm_90a");
  facts.multiprocessors = 132;
  return facts;
}

void* address(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

using Arguments = cubit_w4a16_gemm_arguments;

Arguments arguments_of(int m, int n, int k) {
  Arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.activations = address(0x1000);
  arguments.qweight = address(0x2000);
  arguments.qzeros = address(0x3000);
  arguments.scales = address(0x4000);
  arguments.output = address(0x5000);
  arguments.activation_stride = k;
  arguments.output_stride = n;
  arguments.m = m;
  arguments.n = n;
  arguments.k = k;
  return arguments;
}

TEST(GemmLaunch, SplitsWhereTilesDoNotFillTheDevice) {
  const auto plan = plan_of("w4a16_gemm:tile_m=8");
  const auto splits = [&](int n, int k) {
    const auto arguments = arguments_of(8, n, k);
    return w4a16_gemm::choose_split(plan, arguments, h200()).splits;
  };
  EXPECT_GT(splits(4096, 4096), 4);
  EXPECT_GT(splits(1024, 28672), 16);
  EXPECT_EQ(splits(256 * 132 * 16, 128), 1) << "one stage";
  EXPECT_EQ(splits(16384 * 100, 4096), 1) << "more tiles than counters";
}

TEST(GemmLaunch, AHandfulOfCandidatesIsAsGoodAsAllOfThem) {
  const auto plan = plan_of("w4a16_gemm");
  for (const int n : {256, 1024, 4096, 8192, 11008, 28672}) {
    for (const int k : {128, 1024, 4096, 8192, 28672}) {
      const auto split = w4a16_gemm::choose_split(plan, arguments_of(16, n, k), h200());
      double best = 1e300;
      for (int splits = 1; splits <= std::min(256, split.stages); ++splits)
        best = std::min(best, w4a16_gemm::modelled_stages(plan, split.tiles(), split.stages, splits, h200()));
      const double chosen =
          split.blocks > 0
              ? w4a16_gemm::modelled_stages_of_shares(plan, split.tiles(), split.stages, split.blocks, h200())
              : w4a16_gemm::modelled_stages(plan, split.tiles(), split.stages, split.splits, h200());
      EXPECT_LE(chosen, 1.1 * best) << n << " x " << k;
    }
  }
}

TEST(GemmLaunch, WorkspaceHoldsWhatTheParametersPointTo) {
  const auto plan = plan_of("w4a16_gemm");
  auto arguments = arguments_of(33, 1032, 1024);
  arguments.decomposition = CUBIT_W4A16_SPLIT_K;
  arguments.splits = 3;
  const std::size_t bytes = w4a16_gemm::workspace_bytes(plan, &arguments, h200());
  EXPECT_EQ(bytes, kWorkspaceCounterBytes + 3u * 5 * 3 * 16 * 256 * 4);
  auto* const base = static_cast<char*>(address(0x100000));
  const Launch launch = w4a16_gemm::encode(plan, &arguments, base, bytes, h200());
  EXPECT_EQ(launch.shape.grid, (std::array<unsigned, 3>{3, 5, 3}));
  W4a16GemmArguments parameters;
  ASSERT_EQ(launch.parameter_bytes, sizeof parameters);
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(reinterpret_cast<char*>(parameters.counters), base);
  EXPECT_EQ(reinterpret_cast<char*>(parameters.partial), base + kWorkspaceCounterBytes);
  EXPECT_EQ(parameters.stages, 8);
  EXPECT_EQ(parameters.activation_stride, 2 * 1024);

  arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  arguments.splits = 0;
  EXPECT_EQ(w4a16_gemm::workspace_bytes(plan, &arguments, h200()), 0u);
  EXPECT_EQ(w4a16_gemm::encode(plan, &arguments, nullptr, 0, h200()).shape.grid[2], 1u);
  arguments.m = 0;
  EXPECT_TRUE(w4a16_gemm::encode(plan, &arguments, nullptr, 0, h200()).empty);
}

TEST(GemmLaunch, EvenSharesAreAllStagesOfAllTiles) {
  const auto plan = plan_of("w4a16_gemm:tile_m=64");
  auto arguments = arguments_of(128, 28672, 8192);
  const auto chosen = w4a16_gemm::choose_split(plan, arguments, h200());
  EXPECT_EQ(chosen.blocks, 132) << "224 tiles would be two waves of which the second is not full";
  arguments.decomposition = CUBIT_W4A16_STREAM_K;
  const std::size_t bytes = w4a16_gemm::workspace_bytes(plan, &arguments, h200());
  EXPECT_EQ(bytes, kWorkspaceCounterBytes + 224u * 2 * 256 * 64 * sizeof(float)) << "a tile is in two parts at most";
  const Launch launch = w4a16_gemm::encode(plan, &arguments, address(0x100000), bytes, h200());
  EXPECT_EQ(launch.shape.grid, (std::array<unsigned, 3>{132, 1, 1}));
  W4a16GemmArguments parameters;
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(parameters.row_tiles, 2);
  EXPECT_EQ(parameters.share, 224 * 64 / 132);
  EXPECT_EQ(parameters.larger, 224 * 64 % 132);

  arguments = arguments_of(1, 256, 128);
  arguments.decomposition = CUBIT_W4A16_STREAM_K;
  EXPECT_EQ(w4a16_gemm::workspace_bytes(plan, &arguments, h200()), 0u) << "one stage is one block's";
}

/// How the parts of k follow: for batch_invariant=1 from n and k alone, whatever m, tile and device.
TEST(GemmLaunch, BatchInvariantPartsFollowFromColumnsAndDepth) {
  runtime::DeviceFacts small = h200();
  small.multiprocessors = 20;
  bool others_depend_on_m = false;
  for (const int n : {64, 4096, 28672}) {
    for (const int k : {128, 1024, 8192}) {
      std::set<int> parts;
      std::set<int> usual;
      for (const char* tile : {"8", "16", "32", "64"}) {
        for (const char* architecture : {"sm_80", "sm_90a", "sm_120"}) {
          const std::string text = std::string("w4a16_gemm:tile_m=") + tile;
          for (const int m : {1, 8, 9, 40, 128, 5000}) {
            const auto plan = plan_of(text + ",batch_invariant=1", architecture);
            for (const auto& device : {h200(), small})
              parts.insert(w4a16_gemm::choose_split(plan, arguments_of(m, n, k), device).splits);
            usual.insert(w4a16_gemm::choose_split(plan_of(text, architecture), arguments_of(m, n, k), h200()).splits);
          }
        }
      }
      EXPECT_EQ(parts.size(), 1u) << n << " x " << k;
      others_depend_on_m = others_depend_on_m || usual.size() > 1;
      EXPECT_EQ(*parts.begin() > 1, k > 128 && n < 28672 * 4) << n << " x " << k;
    }
  }
  EXPECT_TRUE(others_depend_on_m) << "else this test would pass without the field";
}

// Where tiles fill the device a block adds up all parts of a tile, in a place of its own, and needs no counter.
TEST(GemmLaunch, BatchInvariantBlocksTakeTurnsWhereTilesFillTheDevice) {
  const auto plan = plan_of("w4a16_gemm:batch_invariant=1");
  auto arguments = arguments_of(4096, 8192, 8192);
  arguments.decomposition = CUBIT_W4A16_SPLIT_K;
  arguments.splits = 3;
  const std::size_t blocks = 132 * static_cast<std::size_t>(plan.blocks_per_sm);
  const std::size_t bytes = w4a16_gemm::workspace_bytes(plan, &arguments, h200());
  EXPECT_EQ(bytes, kWorkspaceCounterBytes + blocks * 16 * 256 * 4);
  const Launch launch = w4a16_gemm::encode(plan, &arguments, address(0x100000), bytes, h200());
  EXPECT_EQ(launch.shape.grid, (std::array<unsigned, 3>{static_cast<unsigned>(blocks), 1, 1}));
  W4a16GemmArguments parameters;
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  EXPECT_EQ(parameters.turn_tiles, 256 * 32);
  EXPECT_EQ(parameters.splits, 3);
  EXPECT_EQ(parameters.share, 0);

  arguments.m = 16;
  const Launch few = w4a16_gemm::encode(plan, &arguments, address(0x100000), bytes, h200());
  EXPECT_EQ(few.shape.grid, (std::array<unsigned, 3>{1, 32, 3}));
  std::memcpy(&parameters, few.parameters.data(), sizeof parameters);
  EXPECT_EQ(parameters.turn_tiles, 0);
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
    w4a16_gemm::encode(plan, &arguments, address(0x100000), std::size_t{1} << 40, h200());
    FAIL() << "accepted: " << GetParam().sentence;
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::invalid_argument);
    EXPECT_NE(std::string(failure.what()).find(GetParam().sentence), std::string::npos) << failure.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedGemm,
    ::testing::Values(
        BadArgument{"w4a16_gemm", "m = -1: it must be from 0", [](Arguments& a) { a.m = -1; }},
        BadArgument{"w4a16_gemm", "n = 20: it must be a multiple of 8 from 8", [](Arguments& a) { a.n = 20; }},
        BadArgument{"w4a16_gemm", "n = 0: it must be a multiple of 8", [](Arguments& a) { a.n = 0; }},
        BadArgument{"w4a16_gemm:function=silu_gate", "n = 24: function=silu_gate", [](Arguments& a) { a.n = 24; }},
        BadArgument{"w4a16_gemm", "k = 0: it must be from 1", [](Arguments& a) { a.k = 0; }},
        BadArgument{"w4a16_gemm", "k = 192: it is not a multiple of group_size=128; accepted: multiples of 128",
                    [](Arguments& a) { a.k = 192; }},
        BadArgument{"w4a16_gemm:group_size=all", "k = 20: it must be a multiple of 8", [](Arguments& a) { a.k = 20; }},
        BadArgument{"w4a16_gemm:format=awq",
                    "n = 40: rows of qweight are 20 bytes apart, not a multiple of alignment=16; ask for alignment=4",
                    [](Arguments& a) { a.n = 40; }},
        BadArgument{"w4a16_gemm:format=awq,function=silu_gate",
                    "n = 96: the second half of a row of qweight begins at byte 24, not a multiple of alignment=16",
                    [](Arguments& a) { a.n = 96; }},
        BadArgument{"w4a16_gemm", "activations = NULL", [](Arguments& a) { a.activations = nullptr; }},
        BadArgument{"w4a16_gemm", "qzeros = NULL", [](Arguments& a) { a.qzeros = nullptr; }},
        BadArgument{"w4a16_gemm:bits=8", "qzeros at 0x3004: the address is not a multiple of 8 bytes",
                    [](Arguments& a) { a.qzeros = address(0x3004); }},
        BadArgument{"w4a16_gemm:bias=1", "bias = NULL", [](Arguments&) {}},
        BadArgument{"w4a16_gemm:activation_order=1", "g_idx = NULL", [](Arguments&) {}},
        BadArgument{"w4a16_gemm:residual=1", "residual = NULL", [](Arguments&) {}},
        BadArgument{"w4a16_gemm", "qweight at 0x2008: the address is not a multiple of 16 bytes",
                    [](Arguments& a) { a.qweight = address(0x2008); }},
        BadArgument{"w4a16_gemm", "output at 0x5008: the address is not a multiple of 16 bytes; accepted: ",
                    [](Arguments& a) { a.output = address(0x5008); }},
        BadArgument{"w4a16_gemm", "activation_stride = 516: it must be a multiple of 8",
                    [](Arguments& a) { a.activation_stride = 516; }},
        BadArgument{"w4a16_gemm", "decomposition = 4: it must be 0 (automatic)",
                    [](Arguments& a) { a.decomposition = 4; }},
        BadArgument{"w4a16_gemm:tile_m=8",
                    "decomposition = 3 of 262144 tiles of rows and columns, 4 stages of k each: a tile needs 4 of the",
                    [](Arguments& a) {
                      a.m = 1 << 20;
                      a.decomposition = CUBIT_W4A16_STREAM_K;
                    }},
        BadArgument{
            "w4a16_gemm:batch_invariant=1",
            "decomposition = 3 of w4a16_gemm:batch_invariant=1: even shares of all tiles, and with them the order "
            "of k, depend on the number of rows; accepted: 0, 1 or 2",
            [](Arguments& a) { a.decomposition = CUBIT_W4A16_STREAM_K; }},
        BadArgument{"w4a16_gemm", "splits = 2: it goes with decomposition 2 (split-K) only",
                    [](Arguments& a) { a.splits = 2; }},
        BadArgument{"w4a16_gemm:tile_m=8",
                    "splits = 2 of 262144 tiles of rows and columns: a tile of more than one split needs 4 of the",
                    [](Arguments& a) {
                      a.m = 1 << 20;
                      a.decomposition = CUBIT_W4A16_SPLIT_K;
                      a.splits = 2;
                    }},
        BadArgument{"w4a16_gemm", "cubit_w4a16_gemm_arguments.size = 4", [](Arguments& a) { a.size = 4; }}));

// Each descriptor for one architecture, in turn.
/// What its loop and its end depend on; types and functions in turn.
std::vector<W4a16Gemm> descriptors_of_sm90() {
  std::vector<W4a16Gemm> all;
  for (const W4Format format : {W4Format::gptq, W4Format::awq, W4Format::symmetric}) {
    for (const int group_size : {32, 64, 128, 0}) {
      for (const int tile_m : {8, 16, 32, 64}) {
        W4a16Gemm one{.format = format, .group_size = group_size, .tile_m = tile_m, .family = Family::sm90};
        one.element = all.size() % 2 == 0 ? Element::fp16 : Element::bf16;
        one.function = all.size() % 3 == 0 ? GemmFunction::silu_gate : GemmFunction::none;
        all.push_back(one);
      }
    }
  }
  return all;
}

TEST(GemmPlan, EveryPairOfFieldValuesCompilesWithoutSpills) {
  std::shared_ptr<const runtime::Compiler> compiler;
  try {
    const auto settings = runtime::Settings::from_environment();
    compiler = runtime::load_nvrtc(settings.nvrtc_path, 0, settings.nvrtc_folders);
  } catch (const Failure& failure) {
    GTEST_SKIP() << "no compiler: " << failure.what();
  }
  const std::vector<W4a16Gemm> chosen = descriptors(false);
  std::vector<std::pair<std::string, const char*>> items;
  for (const W4a16Gemm& one : chosen)
    items.emplace_back(one.text(), kArchitectures[items.size() % std::size(kArchitectures)]);
  for (const W4a16Gemm& one : descriptors_of_sm90()) items.emplace_back(one.text(), "sm_90a");
  std::vector<std::string> troubles(items.size());
  parallel_for(std::ssize(items), [&](std::int64_t i) {
    const auto& [text, architecture] = items[i];
    const auto made = find_operator(text).specialise(text, codegen::find_architecture(architecture));
    const auto compiled = compiler->compile(made->source());
    const int spills = compiled.resources.spill_load_bytes + compiled.resources.spill_store_bytes;
    if (spills > 0 || compiled.resources.static_shared_memory > 0) {
      troubles[i] = fmt::format("{} for {}: {} bytes of spills, {} of static shared memory", text, architecture, spills,
                                compiled.resources.static_shared_memory);
    }
  });
  for (const std::string& trouble : troubles) EXPECT_EQ(trouble, "");
}

}  // namespace
}  // namespace cubit::ops
