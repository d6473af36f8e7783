// How family sm90 distributes the stages of a batch over blocks: from bounds and the device, or as the caller asks.
#include <cubit/gqa_decode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "tests/support/gqa_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops::gqa_decode::sm90 {
namespace {

constexpr const char* kSm90 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90";
constexpr const char* kSm80 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm80";
constexpr int kProcessors = tests::kH200Processors;
using tests::h200;

Plan plan_of(const char* text) { return make_plan(parse(text), codegen::find_architecture("sm_90a")); }

cubit_gqa_decode_arguments bounds(int batch, int max_length, int splits = 0) {
  cubit_gqa_decode_arguments arguments{};
  arguments.batch = batch;
  arguments.kv_heads = 1;
  arguments.max_length = max_length;
  arguments.splits = splits;
  return arguments;
}

Split split_of(const cubit_gqa_decode_arguments& arguments) { return choose_split(plan_of(kSm90), arguments, h200()); }

TEST(BalancedSchedule, EveryUnitHasABlockAndNoBlockTwoMoreThanAnother) {
  for (const int sequences : {1, 2, 3, 7, 64, 100, 131, 132, 133, 200, 512, 5000}) {
    for (const int longest : {1, 2, 9, 32, 256, 4096}) {
      const Division division = divide({sequences, sequences * longest, longest}, kProcessors, 1, 0);
      const int units = division.parts > 0 ? sequences * division.parts : sequences * longest;
      EXPECT_EQ(division.blocks * division.quotient + division.remainder, units) << sequences << " of " << longest;
      EXPECT_LT(division.remainder, division.blocks);
      EXPECT_LE(division.blocks, kProcessors);
      EXPECT_GE(division.quotient, 1) << "a block without work";
      EXPECT_LE(division.parts, longest);
    }
  }
}

TEST(BalancedSchedule, WholeSequencesWhereTheyFillTheDevice) {
  for (const int sequences : {128, 132, 256, 264, 512}) {
    EXPECT_EQ(divide({sequences, sequences * 32, 32}, kProcessors, 1, 0).parts, 1) << sequences;
  }
  EXPECT_EQ(divide({32, 32 * 32, 32}, kProcessors, 1, 0).parts, 4);
  EXPECT_EQ(divide({8, 8 * 32, 32}, kProcessors, 1, 0).parts, 16);
}

TEST(BalancedSchedule, NoMoreBlocksThanMakeAsManyRounds) {
  for (const auto& [sequences, blocks] : {std::pair{512, 128}, {256, 128}, {264, 132}, {528, 132}, {130, 130}}) {
    const Division division = divide({sequences, sequences * 32, 32}, kProcessors, 1, 0);
    ASSERT_EQ(division.parts, 1);
    EXPECT_EQ(division.blocks, blocks) << sequences;
  }
  const Division uneven = divide({520, 520 * 32, 32}, kProcessors, 1, 0);
  ASSERT_EQ(uneven.parts, 1);
  EXPECT_EQ(uneven.quotient + (uneven.remainder > 0 ? 1 : 0), 4) << "no round more";
  const Split asked = split_of(bounds(512, 8192, 1));
  EXPECT_EQ(asked.blocks, 128) << "the same holds for splits that the caller asks for";
}

TEST(BalancedSchedule, StagesWhereSequencesDoNotDivideOrDiffer) {
  EXPECT_EQ(divide({200, 200 * 32, 32}, kProcessors, 1, 0).parts, 0) << "a second round for half of the device";
  EXPECT_EQ(divide({64, 788, 128}, kProcessors, 1, 1).parts, 0) << "one long sequence among short ones";
}

TEST(BalancedSchedule, AGapBeforeEverySequenceCounts) {
  const Division division = divide({64, 788, 128}, kProcessors, 1, 1);
  EXPECT_EQ(division.blocks * division.quotient + division.remainder, 788 + 64);
}

TEST(BalancedSchedule, OneSequenceHasNoMorePartsThanAreWorthIt) {
  EXPECT_LE(divide({1, 32, 32}, kProcessors, 1, 0).blocks, 32);
  EXPECT_GT(divide({1, 512, 512}, kProcessors, 1, 0).blocks, 64);
}

/// The stages with a token that is kept, or that the first query token or a later one sees.
std::vector<int> stages_with_seen(int length, int first_query, int window, int kept_tokens, int stage_tokens) {
  std::vector<int> stages;
  for (int stage = 0; stage == 0 || stage * stage_tokens < length; ++stage) {
    bool is_seen = length == 0;
    for (int token = stage * stage_tokens; token < std::min(length, (stage + 1) * stage_tokens); ++token)
      is_seen = is_seen || token < kept_tokens || token > first_query - window;
    if (is_seen) stages.push_back(stage);
  }
  return stages;
}

TEST(BalancedSchedule, OfAWindowStagesThatNobodySeesAreLeftOut) {
  for (const int length : {0, 1, 15, 16, 17, 63, 64, 65, 200})
    for (const int query_tokens : {1, 2, 16})
      for (const int window : {1, 2, 16, 17, 50, 200})
        for (const int kept : {0, 1, 16, 17, 48, 200})
          for (const int log2 : {4, 5}) {
            const int first_query = length - query_tokens;
            const VisitedStages walked = stages_of_window(length, first_query, window, kept, log2);
            std::vector<int> stages;
            for (int i = 0; i < walked.count; ++i) stages.push_back(walked.stage(i));
            EXPECT_EQ(stages, stages_with_seen(length, first_query, window, kept, 1 << log2))
                << length << " tokens, " << query_tokens << " queries, window " << window << ", kept " << kept;
          }
}

/// The host does not know the lengths. Its bound for the stages of a sequence must not be too small for any length.
TEST(GqaSplit, AWindowBoundsTheStagesOfEverySequence) {
  const Plan plan = plan_of("gqa_decode:heads_per_kv=8,query_tokens=3,window=true,family=sm90");
  for (const int window : {1, 100, 257, 3000}) {
    for (const int kept : {0, 1, 300}) {
      auto arguments = bounds(1, 5000);
      arguments.window = window;
      arguments.kept_tokens = kept;
      const std::int32_t any = 0;
      arguments.lengths = &any;
      const auto blocks = choose_split(plan, arguments, h200()).blocks;
      int most = 0;
      const int log2 = std::countr_zero(static_cast<unsigned>(plan.chunk_tokens()));
      for (int length = 1; length <= 5000; ++length)
        most = std::max(most, stages_of_window(length, length - 3, window, kept, log2).count);
      EXPECT_GE(blocks, most) << "one sequence has at least a block for each stage";
      EXPECT_LE(blocks, most + 2);
      arguments.lengths = nullptr;
      EXPECT_LE(choose_split(plan, arguments, h200()).units, most);
    }
  }
}

TEST(GqaSplit, WorkspaceFollowsTheBlocksNotTheBatch) {
  EXPECT_EQ(split_of(bounds(128, 8192)).slots, 0) << "whole sequences leave no partial results";
  EXPECT_EQ(split_of(bounds(32, 8192)).slots, 2 * 128)
      << "a block shares at most its first sequence and its last sequence with other blocks";
  const std::int32_t lengths[] = {0};
  auto ragged = bounds(5000, 8192);
  ragged.lengths = lengths;  // never read here
  const Split split = split_of(ragged);
  EXPECT_EQ(split.blocks, kProcessors);
  EXPECT_EQ(split.slots, 2 * kProcessors);
}

/// Arguments with 8 KV heads whose rows of 80 bytes are contiguous.
cubit_gqa_decode_arguments eight_heads(int batch, int max_length) {
  auto arguments = bounds(batch, max_length);
  arguments.kv_heads = 8;
  for (std::int64_t(*strides)[3] : {&arguments.key_strides, &arguments.value_strides}) {
    (*strides)[0] = std::int64_t{640} * max_length;
    (*strides)[1] = 640;
    (*strides)[2] = 80;
  }
  return arguments;
}

TEST(GqaSplit, KvHeadsTogetherWhereThatIsWorthIt) {
  EXPECT_EQ(split_of(eight_heads(16, 8192)).span, 8);
  EXPECT_EQ(split_of(eight_heads(1, 131072)).span, 8);
  EXPECT_EQ(split_of(eight_heads(1, 8192)).span, 8) << "32 blocks merge the 128 parts of 64 heads";
  auto apart = eight_heads(16, 8192);
  apart.key_strides[2] = 96;
  apart.key_strides[1] = 768;
  EXPECT_EQ(split_of(apart).span, 1) << "their rows do not follow one another";
}

/// Arguments with 8 KV heads whose rows of 256 bytes are contiguous.
cubit_gqa_decode_arguments eight_wide_heads(int batch, int max_length) {
  auto arguments = eight_heads(batch, max_length);
  for (std::int64_t(*strides)[3] : {&arguments.key_strides, &arguments.value_strides}) {
    (*strides)[0] = std::int64_t{1024} * max_length;
    (*strides)[1] = 1024;
    (*strides)[2] = 128;
  }
  return arguments;
}

TEST(GqaSplit, RowsOfWholePartsNeedNoSpan) {
  const Plan plan = plan_of("gqa_decode:heads_per_kv=4,family=sm90");
  for (const int batch : {1, 16}) {
    const Split split = choose_split(plan, eight_wide_heads(batch, 8192), h200());
    EXPECT_EQ(split.span, 1) << batch;
    EXPECT_EQ(split.boxes.count, 8) << batch;
  }
}

TEST(GqaSplit, BoxesWhereRowsFollowOneAnother) {
  const auto boxes = [](const char* text, const cubit_gqa_decode_arguments& arguments) {
    return choose_split(plan_of(text), arguments, h200()).boxes.count;
  };
  const char* const wide = "gqa_decode:heads_per_kv=4,family=sm90";
  EXPECT_EQ(split_of(eight_heads(16, 8192)).boxes.count, 1) << "all warps' rows";
  auto three = eight_heads(16, 8192);
  three.kv_heads = 3;
  three.key_strides[1] = three.value_strides[1] = 240;
  EXPECT_EQ(split_of(three).boxes.count, 0) << "one head's are 80 bytes, no whole parts of 128";
  auto one = eight_wide_heads(16, 8192);
  one.kv_heads = 1;
  EXPECT_EQ(boxes(wide, one), 8) << "tokens lie apart";
  one.key_strides[1] = one.value_strides[1] = 128;
  EXPECT_EQ(boxes(wide, one), 1) << "tokens follow one another";
  one.value_strides[1] = 256;
  EXPECT_EQ(boxes(wide, one), 8) << "tokens of keys are contiguous, tokens of values are not";
  one.value_strides[1] = 0;
  EXPECT_EQ(boxes(wide, one), 0) << "a tensor map has no stride of 0";
  EXPECT_EQ(boxes(wide, eight_wide_heads(1, 10)), 0) << "no stage is full";
}

TEST(GqaSplit, UnalignedRowsThatFollowOneAnother) {
  const Plan plan = plan_of("gqa_decode:heads_per_kv=8,kv=int4_rows,family=sm90");
  constexpr std::int64_t kRow = 68;
  const auto of_heads = [](int kv_heads) {
    auto arguments = bounds(16, 8192);
    arguments.kv_heads = kv_heads;
    for (std::int64_t(*strides)[3] : {&arguments.key_strides, &arguments.value_strides}) {
      (*strides)[0] = kRow * kv_heads * 8192;
      (*strides)[1] = kRow * kv_heads;
      (*strides)[2] = kRow;
    }
    return arguments;
  };
  const auto boxes = [&](const cubit_gqa_decode_arguments& arguments) {
    return choose_split(plan, arguments, h200()).boxes.count;
  };
  for (const int kv_heads : {1, 2, 4, 8, 12}) EXPECT_EQ(boxes(of_heads(kv_heads)), 2) << kv_heads;
  for (const int kv_heads : {3, 6})
    EXPECT_EQ(boxes(of_heads(kv_heads)), 0) << kv_heads << ": tokens are between 16 bytes";
  EXPECT_EQ(choose_split(plan, of_heads(8), h200()).span, 4) << "the interleaved warps";
  auto one = of_heads(1);
  one.value_strides[1] = 80;
  EXPECT_EQ(boxes(one), 0) << "tokens lie apart";
  one = of_heads(1);
  one.key = tests::address(0x1004);
  EXPECT_EQ(boxes(one), 0) << "the first row is between 16 bytes";
  one = of_heads(1);
  one.value_strides[0] += 4;
  EXPECT_EQ(boxes(one), 0) << "the first row of a sequence is between 16 bytes";
  one.batch = 1;
  EXPECT_EQ(boxes(one), 2) << "there is no other sequence";
  auto apart = of_heads(4);
  apart.key_strides[1] = 288;
  EXPECT_EQ(boxes(apart), 2) << "rows of four heads are 16 bytes' multiple";
  EXPECT_EQ(boxes([&] {
              auto few = of_heads(1);
              few.max_length = 255;
              return few;
            }()),
            0)
      << "no stage is full";
}

/// Arguments with pages [pages, page_size, KV heads, row], or with `heads_outside` [pages, KV heads, page_size, row].
cubit_gqa_decode_arguments in_pages(int kv_heads, int row, int page_size, bool heads_outside) {
  auto arguments = bounds(16, 8192);
  arguments.kv_heads = kv_heads;
  arguments.page_size = page_size;
  for (std::int64_t(*strides)[3] : {&arguments.key_strides, &arguments.value_strides}) {
    (*strides)[0] = std::int64_t{row} * kv_heads * page_size;
    (*strides)[1] = heads_outside ? row : row * kv_heads;
    (*strides)[2] = heads_outside ? row * page_size : row;
  }
  return arguments;
}

TEST(GqaSplit, BoxesOfPagesHaveRowsOfOnePage) {
  struct Case {
    const char* text;
    cubit_gqa_decode_arguments arguments;
    int boxes;
    int rows;
    const char* why;
  };
  const char* const packed = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,cache=paged,family=sm90";
  const char* const wide = "gqa_decode:heads_per_kv=8,cache=paged,family=sm90";
  for (const Case& one : {Case{packed, in_pages(1, 80, 16, false), 1, 2, "8 warps take 16 tokens in two rows"},
                          Case{packed, in_pages(1, 80, 256, false), 1, 32, "a page is a stage"},
                          Case{packed, in_pages(1, 80, 24, false), 1, 1, "3 rows are no part of 32"},
                          Case{packed, in_pages(1, 80, 4, false), 0, 0, "a row is 8 tokens"},
                          Case{packed, in_pages(8, 80, 16, false), 1, 16, "the 8 heads of a token are a row"},
                          Case{packed, in_pages(8, 80, 16, true), 1, 2, "tokens of one head"},
                          Case{packed, in_pages(3, 80, 16, false), 0, 0, "no span of 8 rows that follow one another"},
                          Case{wide, in_pages(1, 128, 16, false), 8, 16, "each warp has tokens of its own"},
                          Case{wide, in_pages(3, 128, 48, true), 8, 16, "the same whatever lies between the rows"},
                          Case{wide, in_pages(1, 128, 2, false), 0, 0, "more than 32 boxes one behind the other"}}) {
    const Split split = choose_split(plan_of(one.text), one.arguments, h200());
    EXPECT_EQ(split.boxes.count, one.boxes) << one.why;
    EXPECT_EQ(split.boxes.rows, one.rows) << one.why;
  }
  auto apart = in_pages(1, 80, 16, false);
  apart.key_strides[0] = 0;
  EXPECT_EQ(choose_split(plan_of(packed), apart, h200()).boxes.count, 0) << "a tensor map has no stride of 0";
}

TEST(GqaSplit, WorkspaceIsEnoughForAnyStrides) {
  const Plan plan = plan_of(kSm90);
  for (const int batch : {1, 16}) {
    auto arguments = eight_heads(batch, 8192);
    const std::int64_t needed = choose_split(plan, arguments, h200()).partial_rows(plan);
    for (std::int64_t& stride : arguments.key_strides) stride = 0;
    EXPECT_GE(most_partial_rows(plan, arguments, h200()), needed) << batch;
  }
}

TEST(GqaSplit, WhatIsAskedForIsDone) {
  const std::int32_t lengths[] = {0};
  for (const int splits : {1, 2, 5, 16, 33, 256}) {
    auto arguments = bounds(4, 8192, splits);
    for (const std::int32_t* of : {static_cast<const std::int32_t*>(nullptr), lengths}) {
      arguments.lengths = of;
      const Split split = split_of(arguments);
      EXPECT_EQ(split.division.parts, splits);
      const int rounds = (4 * splits + kProcessors - 1) / kProcessors;
      EXPECT_EQ(split.blocks, (4 * splits + rounds - 1) / rounds);
    }
  }
  EXPECT_EQ(choose_split(tests::sm80_plan_of(kSm80, "sm_90a"), bounds(4, 8192, 5), h200()).splits, 5);
}

TEST(GqaSplit, TwoBlocksWithASequenceOfTheirOwnAreACluster) {
  const std::int32_t any = 0;
  const auto is_paired = [&](int batch, const std::int32_t* lengths, int splits = 0) {
    auto arguments = bounds(batch, 8192, splits);
    arguments.lengths = lengths;
    return split_of(arguments).is_clustered;
  };
  for (const std::int32_t* const lengths : {static_cast<const std::int32_t*>(nullptr), &any}) {
    EXPECT_FALSE(is_paired(32, lengths)) << "four blocks each";
    EXPECT_TRUE(is_paired(64, lengths));
    EXPECT_TRUE(is_paired(66, lengths));
    EXPECT_FALSE(is_paired(67, lengths)) << "shares that end anywhere, or one block each";
    EXPECT_FALSE(is_paired(128, lengths));
    EXPECT_TRUE(is_paired(3, lengths, 2));
    EXPECT_FALSE(is_paired(3, lengths, 3));
    EXPECT_FALSE(is_paired(100, lengths, 2)) << "two halves of one sequence, or of two, are a block's";
  }
  // A stage has 24 KB, but the blocks of a cluster would store 25.5 KB of partial results, 192 rows, in each other.
  const Plan many_columns = plan_of(
      "gqa_decode:head_dim=64,heads_per_kv=64,kv=int8_split,query=fp16,cache=paged,query_tokens=16,window=true,family="
      "sm90");
  EXPECT_FALSE(many_columns.merges_in_cluster());
  EXPECT_FALSE(choose_split(many_columns, bounds(3, 8192, 2), h200()).is_clustered);
  runtime::DeviceFacts odd = h200();
  odd.multiprocessors = 131;
  auto ragged = bounds(65, 8192);
  ragged.lengths = &any;
  EXPECT_FALSE(choose_split(plan_of(kSm90), ragged, odd).is_clustered) << "the grid is no whole number of clusters";
}

TEST(GqaSplit, UnitsOfOneLengthAreItsStages) {
  for (const int batch : {1, 7, 32, 64, 100, 128, 300}) {
    for (const int length : {0, 1, 300, 2049, 8192}) {
      const Split split = split_of(bounds(batch, length));
      const int stages = stages_of(length, std::countr_zero(static_cast<unsigned>(plan_of(kSm90).chunk_tokens())));
      EXPECT_EQ(split.units * split.unit_stages + split.larger_units, stages) << batch << " of " << length;
      EXPECT_LT(split.larger_units, split.units);
    }
  }
}

TEST(GqaSplit, WhatCannotBeIsRefused) {
  struct Refused {
    const char* text;
    cubit_gqa_decode_arguments arguments;
    const char* why;
  };
  for (const Refused& refused :
       {Refused{kSm90, bounds(1, 100, -1), "splits = -1: it must be from 0 to 256"},
        Refused{kSm90, bounds(1, 100, 257), "splits = 257: it must be from 0 to 256"},
        Refused{kSm80, bounds(5000, 100, 2), "splits = 2 of 5000 sequences"},
        Refused{kSm90, bounds(1000, 2147479551),
                "max_length = 2147479551: family sm90 counts a launch's stages in 31 bits: here of 256 tokens, and "},
        Refused{"gqa_decode:heads_per_kv=64,kv=int4_rows,groups=4,family=sm90", bounds(8192, 16711680),
                " more for each sequence, all 2 times; a smaller bound on the length, fewer sequences"}}) {
    cubit_gqa_decode_arguments arguments = refused.arguments;
    arguments.size = sizeof arguments;
    tests::expect_refused_with(
        [&] { tests::gqa_kernel_of(refused.text, "sm_90a")->workspace_bytes(&arguments, h200()); }, refused.why);
  }
}

}  // namespace
}  // namespace cubit::ops::gqa_decode::sm90
