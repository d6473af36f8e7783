// Plans of gqa_decode: every decision has a reason, and every descriptor a plan that fits its architecture.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "tests/support/gqa_descriptors.hpp"
#include "tests/support/gqa_launches.hpp"
#include "tests/support/gqa_plans.hpp"
#include "tests/support/register_pool.hpp"

namespace cubit::ops {
namespace {

// Query rows may not fit one block: unaligned rows need warps with rows of their own, other rows need registers.
TEST(GqaPlan, SaysWhyUnalignedRowsHaveHeadGroups) {
  for (const auto& [fields, needs_warps] : {std::pair{"heads_per_kv=16", true}, {"heads_per_kv=64,groups=4", false}}) {
    const std::string text = fmt::format("gqa_decode:kv=int4_rows,family=sm90,{}", fields);
    const auto plan = tests::sm90_plan_of(text, "sm_90a");
    ASSERT_GT(plan.head_groups, 1) << text;
    EXPECT_EQ(tests::reason_of(plan, "head_groups").find("registers hold no more") == std::string::npos, needs_warps)
        << text;
  }
}

// The report of kernels that stay below four fifths of a plain read says why. These are the kernels of the shortest
// rows.
TEST(GqaPlan, ShortRowsSayThatArithmeticIsTheirLimit) {
  const auto reason = [](std::string_view fields) {
    return tests::reason_of(
        tests::gqa_kernel_of(fmt::format("gqa_decode:heads_per_kv=8,kv=int4_rows,{}", fields), "sm_90a"), "limit");
  };
  for (const char* fields :
       {"head_dim=64", "head_dim=64,groups=2", "head_dim=96,groups=2", "head_dim=64,groups=4", "groups=8"})
    EXPECT_NE(reason(fields), "") << fields;
  for (const char* fields :
       {"head_dim=96,groups=2,alignment=16", "groups=1", "groups=2", "groups=4", "head_dim=256,groups=8"})
    EXPECT_EQ(reason(fields), "") << fields;
}

// Outputs of fp16 show the rounding of weights that are multiplied with nibbles, so those kernels centre the nibbles.
TEST(GqaPlan, CentresNibblesForOutputsOfFp16) {
  const auto centres = [](std::string_view fields) {
    const auto kernel = tests::gqa_kernel_of(fmt::format("gqa_decode:query=fp16,{}", fields), "sm_90a");
    const codegen::KernelSource& source = kernel->source();
    const auto header = std::find_if(source.headers.begin(), source.headers.end(),
                                     [](const codegen::Header& one) { return one.name == "plan.cuh"; });
    const bool is_said = !tests::reason_of(kernel, "centre of nibbles").empty();
    EXPECT_EQ(header->text.find("nullptr, true>") != std::string::npos, is_said) << fields;
    return is_said;
  };
  for (const char* fields : {"kv=int4_rows,groups=4", "kv=fp8_e4m3,value=int4_rows,value_groups=4"})
    EXPECT_TRUE(centres(fields)) << fields;
  for (const char* fields : {"kv=int4_rows,groups=4,output=bf16", "kv=int4_rows,groups=4,value=fp8_e4m3", "kv=fp16"})
    EXPECT_FALSE(centres(fields)) << fields;
}

TEST(GqaPlan, GivesAReasonForEveryDecision) {
  for (const char* name : tests::kGqaArchitectures) {
    const auto plan = tests::sm80_plan_of("gqa_decode:heads_per_kv=8", name);
    for (const char* expected :
         {"tile", "operands", "warps", "copy", "copy offsets", "stage", "stages", "blocks_per_sm"}) {
      EXPECT_NE(tests::reason_of(plan, expected), "") << expected;
    }
    for (const Decision& decision : plan.report.decisions) {
      EXPECT_FALSE(decision.name.empty() || decision.value.empty() || decision.why.empty()) << decision.name;
    }
    EXPECT_GE(plan.stages, 3);
    EXPECT_GE(plan.blocks_per_sm, 1);
    EXPECT_LE(plan.shared_memory, codegen::find_architecture(name).shared_memory_per_block);
  }
}

/// sm_80 has the largest shared memory, and sm_86 the smallest.
TEST(GqaPlan, EveryDescriptorHasOne) {
  const std::vector<GqaDecode> descriptors = tests::all_gqa_descriptors();
  for (const char* name : {"sm_80", "sm_86"}) {
    const auto& architecture = codegen::find_architecture(name);
    std::vector<std::string> troubles(descriptors.size());
    parallel_for(static_cast<std::int64_t>(descriptors.size()), [&](std::int64_t i) {
      try {
        gqa_decode::sm80::make_plan(descriptors[i], architecture);
      } catch (const Failure& failure) {
        troubles[i] = failure.what();
      }
    });
    for (const std::string& trouble : troubles) EXPECT_EQ(trouble, "");
  }
}

/// Consumer and producer warps together have just the registers that a block begins with. Plain scores of one token
/// leave more of them to consumer warps, so each descriptor is planned with its other fields and without them.
TEST(GqaPlan, RegistersThatChangeHandsAreTheBlocksOwn) {
  std::set<int> taken;
  for (const auto& descriptors :
       {tests::sm90_gqa_descriptors(), tests::sm90_unaligned_row_descriptors(), tests::sm90_byte_descriptors()}) {
    for (const GqaDecode& descriptor : descriptors) {
      GqaDecode plain{.head_dim = descriptor.head_dim, .heads_per_kv = descriptor.heads_per_kv, .kv = descriptor.kv};
      plain.groups = descriptor.groups;
      plain.alignment = descriptor.alignment;
      plain.family = descriptor.family;
      for (const GqaDecode& either : {descriptor, plain}) {
        for (const char* name : {"sm_90a", "sm_100a", "sm_120"}) {
          const auto& architecture = codegen::find_architecture(name);
          const auto plan = gqa_decode::sm90::make_plan(either, architecture);
          if (plan.consumer_registers == 0) continue;
          EXPECT_TRUE(architecture.register_transfer);
          tests::expect_block_has_registers(architecture, plan.warps, plan.consumer_registers, plan.producer_warps,
                                            plan.producer_registers, either.text() + " for " + name);
          taken.insert(plan.consumer_registers);
        }
      }
    }
  }
  EXPECT_GE(taken.size(), 2u) << "all ways to divide them";
}

/// Every query row belongs to a block, no block is empty, and one more tile of query rows would not fit.
TEST(GqaPlan, HeadGroupsShareTheHeadsEvenly) {
  const auto& architecture = codegen::find_architecture("sm_86");
  for (const int head_dim : {64, 96, 128, 192, 256}) {
    for (int heads = 1; heads <= 64; ++heads) {
      const auto plan = gqa_decode::sm80::make_plan({.head_dim = head_dim, .heads_per_kv = heads}, architecture);
      const int before_last = (plan.head_groups - 1) * plan.heads_per_block;
      EXPECT_TRUE(before_last < heads && heads <= before_last + plan.heads_per_block) << head_dim << ' ' << heads;
      const int tiles = (heads + 7) / 8;
      const int most = head_dim == 64 ? 4 : head_dim == 96 ? 3 : head_dim == 128 ? 2 : 1;
      EXPECT_EQ(plan.head_groups, (tiles + most - 1) / most) << head_dim << ' ' << heads;
      EXPECT_NE(tests::reason_of(plan, "head_groups"), "");
    }
  }
}

TEST(GqaPlan, TakesFewerWarpsWhereTheirStagesDoNotFit) {
  const auto warps = [](const GqaDecode& descriptor, const char* architecture) {
    const auto plan = gqa_decode::sm80::make_plan(descriptor, codegen::find_architecture(architecture));
    EXPECT_LE(plan.shared_memory, codegen::find_architecture(architecture).shared_memory_per_block);
    EXPECT_EQ(tests::reason_of(plan, "warps").find("do not fit") != std::string::npos, plan.warps < 4);
    return plan.warps;
  };
  const GqaDecode wide{.head_dim = 256};
  const GqaDecode packed{.head_dim = 256, .kv = KvFormat::int4_rows, .groups = 8};
  EXPECT_EQ(warps(wide, "sm_90a"), 4);
  EXPECT_EQ(warps(wide, "sm_80"), 2);
  EXPECT_EQ(warps(wide, "sm_120"), 2);
  EXPECT_EQ(warps(packed, "sm_120"), 4);
  EXPECT_EQ(gqa_decode::sm90::make_plan(wide, codegen::find_architecture("sm_90a")).warps, 4);
}

/// Registers hold the next tile, or as much of the tile as they have room for.
TEST(GqaPlan, FamilySm75HasAPlanForEveryDescriptorThatItTakes) {
  for (const char* name : {"sm_75", "sm_86"}) {
    const auto& architecture = codegen::find_architecture(name);
    for (const GqaDecode& descriptor : tests::sm75_gqa_descriptors()) {
      const auto plan = gqa_decode::sm75::make_plan(descriptor, architecture);
      const int vectors = count_copies(plan);
      EXPECT_TRUE(1 <= plan.held_vectors && plan.held_vectors <= vectors) << descriptor.text();
      EXPECT_EQ(tests::reason_of(plan, "copies in registers").find("the rest") != std::string::npos,
                plan.held_vectors < vectors)
          << descriptor.text();
      EXPECT_LE(plan.counted_registers, architecture.registers_per_thread) << descriptor.text();
      EXPECT_LE(plan.shared_memory, architecture.shared_memory_per_block) << descriptor.text();
      EXPECT_EQ(plan.stages, 2);
      EXPECT_EQ(tests::reason_of(plan, "copy offsets"), "");
    }
  }
}

TEST(GqaPlan, PackedWordsOfAContiguousCachePaceTheirCopies) {
  const std::string packed = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
  const auto plan = tests::sm90_plan_of(packed, "sm_90a");
  EXPECT_TRUE(plan.paces_copies());
  EXPECT_EQ(plan.stages, 4) << "there is room to copy ahead";
  EXPECT_EQ(plan.initial_stages(), 2);
  EXPECT_EQ(tests::sm90_plan_of(packed + ",head_dim=64", "sm_90a").initial_stages(), 3);
  EXPECT_FALSE(tests::sm90_plan_of(packed + ",cache=paged", "sm_90a").paces_copies());
  EXPECT_EQ(tests::reason_of(tests::gqa_kernel_of(packed + ",family=sm80", "sm_90a"), "copy pacing"), "");
  EXPECT_NE(tests::reason_of(plan, "copy pacing"), "");
  EXPECT_FALSE(
      tests::sm90_plan_of("gqa_decode:heads_per_kv=16,kv=int4_rows,groups=4,family=sm90", "sm_90a").paces_copies())
      << "nobody has timed several groups of columns";
  EXPECT_FALSE(tests::sm90_plan_of("gqa_decode:heads_per_kv=8,kv=fp8_e4m3", "sm_90a").paces_copies());
}

TEST(GqaPlan, PlainScoresOfAContiguousCacheMayBeginInTheMiddle) {
  for (const char* const other : {"", ",kv=fp8_e4m3", ",kv=int8_split"})
    EXPECT_FALSE(tests::sm90_plan_of(std::string("gqa_decode:heads_per_kv=8") + other, "sm_90a").offsets_start())
        << other;
  const std::string rows = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
  EXPECT_TRUE(tests::sm90_plan_of(rows, "sm_90a").offsets_start());
  EXPECT_EQ(tests::reason_of(tests::gqa_kernel_of(rows + ",family=sm80", "sm_90a"), "start offset"), "");
  EXPECT_NE(tests::reason_of(tests::gqa_kernel_of(rows, "sm_90a"), "start offset"), "");
  for (const char* const more : {",cache=paged", ",query_tokens=4", ",alibi=true", ",window=true", ",soft_cap=true"})
    EXPECT_FALSE(tests::sm90_plan_of(rows + more, "sm_90a").offsets_start()) << more;
}

TEST(GqaPlan, TheL2EvictsFirstWhatIsReadOnce) {
  const std::string rows = "gqa_decode:heads_per_kv=8";
  EXPECT_TRUE(tests::sm90_plan_of(rows, "sm_90a").evicts_first());
  EXPECT_TRUE(tests::sm90_plan_of(rows + ",kv=fp8_e4m3,scales=tensor", "sm_90a").evicts_first());
  EXPECT_FALSE(tests::sm90_plan_of(rows + ",kv=fp8_e4m3", "sm_90a").evicts_first())
      << "scales are a tensor of their own";
  EXPECT_TRUE(tests::sm90_plan_of(rows + ",cache=paged", "sm_90a").evicts_first());
  EXPECT_FALSE(tests::sm90_plan_of("gqa_decode:heads_per_kv=64,query_tokens=4", "sm_90a").evicts_first())
      << "four blocks read it";
  EXPECT_EQ(tests::reason_of(tests::gqa_kernel_of(rows, "sm_80"), "cache eviction"), "");
  EXPECT_NE(tests::reason_of(tests::gqa_kernel_of(rows, "sm_90a"), "cache eviction"), "");
}

TEST(GqaPlan, FamilySm90SaysWhoLoadsScales) {
  const auto& architecture = codegen::find_architecture("sm_90a");
  const auto decision = [&](const char* text) {
    return tests::reason_of(gqa_decode::sm90::make_plan(gqa_decode::parse(text), architecture), "scales");
  };
  EXPECT_NE(decision("gqa_decode:kv=fp8_e4m3,family=sm90"), "");
  EXPECT_EQ(decision("gqa_decode:kv=fp8_e4m3,scales=tensor,family=sm90"), "");
  EXPECT_EQ(decision("gqa_decode:kv=int4_rows,groups=4,family=sm90"), "");
}

TEST(GqaPlan, TheSameDescriptorGivesTheSameSource) {
  const auto& architecture = codegen::find_architecture("sm_90a");
  const std::string text = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
  const auto first = find_operator(text).specialise(text, architecture);
  const auto second = find_operator(text).specialise(text, architecture);
  EXPECT_EQ(first->source().headers, second->source().headers);
  EXPECT_EQ(first->source().template_text, second->source().template_text);
}

}  // namespace
}  // namespace cubit::ops
