// Plans: every decision has a reason, every shared-memory access its proof, and each descriptor a kernel that compiles
// for the architectures it claims without spills.
#include <gtest/gtest.h>

#include <atomic>

#include "base/error.hpp"
#include "codegen/fragments.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/parallel.hpp"
#include "runtime/nvrtc.hpp"
#include "runtime/settings.hpp"
#include "templates/gqa_decode_lanes.h"
#include "tests/support/gqa_descriptors.hpp"

namespace cubit::ops {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"};

std::string reason_of(const gqa_decode::Plan& plan, std::string_view decision) {
  for (const Decision& one : plan.report.decisions) {
    if (one.name == decision) return one.why;
  }
  return "";
}

TEST(GqaPlan, IsFreeOfBankConflictsButForCopiesThatCannotBe) {
  for (const GqaDecode& descriptor : tests::pairwise_gqa_descriptors(false)) {
    const auto plan = gqa_decode::make_plan(descriptor, codegen::find_architecture("sm_80"));
    EXPECT_GE(plan.report.proofs.size(), 6u);
    for (const auto& proof : plan.report.proofs) {
      // Where a row's header is padded, 32 narrow copies span more than 32 banks' worth of a stage.
      const bool padded = plan.row_header_bytes() % 16 != 0;
      const bool narrow_copy = proof.access == "cp.async of rows" && plan.copy_bytes < 16;
      EXPECT_EQ(proof.degree, padded && narrow_copy ? 2 : 1) << descriptor.text() << ": " << proof.access;
      if (proof.degree > 1) {
        EXPECT_NE(reason_of(plan, "bank conflicts"), "") << descriptor.text();
      }
    }
  }
}

TEST(GqaPlan, GivesAReasonForEveryDecision) {
  for (const char* name : kArchitectures) {
    const auto plan =
        gqa_decode::make_plan(gqa_decode::parse("gqa_decode:heads_per_kv=8"), codegen::find_architecture(name));
    for (const char* expected :
         {"tile", "operands", "warps", "copy", "copy offsets", "stage", "stages", "blocks_per_sm"}) {
      EXPECT_NE(reason_of(plan, expected), "") << expected;
    }
    for (const Decision& decision : plan.report.decisions) {
      EXPECT_FALSE(decision.name.empty() || decision.value.empty() || decision.why.empty()) << decision.name;
    }
    EXPECT_GE(plan.stages, 3);
    EXPECT_GE(plan.blocks_per_sm, 1);
    EXPECT_LE(plan.shared_memory, codegen::find_architecture(name).shared_memory_per_block);
  }
}

/// Where shared memory is largest, and where it is smallest.
TEST(GqaPlan, EveryDescriptorHasOne) {
  const std::vector<GqaDecode> descriptors = tests::all_gqa_descriptors();
  for (const char* name : {"sm_80", "sm_86"}) {
    const auto& architecture = codegen::find_architecture(name);
    std::vector<std::string> troubles(descriptors.size());
    parallel_for(static_cast<std::int64_t>(descriptors.size()), [&](std::int64_t i) {
      try {
        gqa_decode::make_plan(descriptors[i], architecture);
      } catch (const Failure& failure) {
        troubles[i] = failure.what();
      }
    });
    for (const std::string& trouble : troubles) EXPECT_EQ(trouble, "");
  }
}

TEST(GqaPlan, RefusesAnArchitectureWithoutItsInstructions) {
  try {
    find_operator("gqa_decode").specialise("gqa_decode", codegen::find_architecture("sm_75"));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::unsupported);
    EXPECT_STREQ(
        failure.what(),
        "gqa_decode for sm_75: no kernel family runs there (sm90_gqa_decode: it needs cp.async.bulk, which sm_90 "
        "brought; sm80_gqa_decode: it needs cp.async, which sm_80 brought; sm75_gqa_decode: this version of cubit "
        "has no kernel of it yet); accepted: sm_80 and later");
  }
}

TEST(GqaPlan, SaysWhyOtherFamiliesWereNotChosen) {
  for (const char* name : kArchitectures) {
    const auto plan = gqa_decode::make_plan(GqaDecode{}, codegen::find_architecture(name));
    EXPECT_EQ(plan.report.family, "sm80_gqa_decode");
    ASSERT_EQ(plan.report.rejections.size(), 2u);
    for (const Rejection& rejection : plan.report.rejections) {
      EXPECT_NE(rejection.family, plan.report.family);
      EXPECT_FALSE(rejection.why.empty());
    }
  }
}

TEST(GqaLanes, AgreeWithTheFragmentsOfTheIsa) {
  const auto& a = codegen::find_fragment("mma.m16n8k16 A, 16-bit");
  const auto& c = codegen::find_fragment("mma.m16n8k16 C, 32-bit");
  for (int lane = 0; lane < 32; ++lane) {
    // Lanes 8i … 8i+7 address the rows of the matrix that lands in register i, which starts at element (0, 2i) of lane 0.
    const auto matrix = a.at(0, lane / 8 * 2);
    for (const int step : {0, 1, 5}) {
      const auto key = lanes::rows16_keys(lane, step);
      EXPECT_EQ(key.row, matrix.row + lane % 8);
      EXPECT_EQ(key.byte, 2 * (16 * step + matrix.column));
      const auto value = lanes::rows16_values(lane, step);  // transposed: rows of the operand are channels
      EXPECT_EQ(value.row, lanes::kTileRows + matrix.column + lane % 8);
      EXPECT_EQ(value.byte, 2 * (16 * step + matrix.row));
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(lanes::accumulator_head(lane, 3, i), 24 + c.at(lane, i).column);
      EXPECT_EQ(lanes::rows16_channel(lane, 2, i), 32 + c.at(lane, i).row);
    }
    // Packed words: 16 units of 4 channels per two matrices of 32; a lane's accumulator row is its unit.
    EXPECT_EQ(lanes::int4_channel(lane, 1), 32 + 4 * c.at(lane, 0).row);
  }
}

TEST(GqaPlan, TheSameDescriptorGivesTheSameSource) {
  const auto& architecture = codegen::find_architecture("sm_90a");
  const std::string text = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
  const auto first = find_operator(text).specialise(text, architecture);
  const auto second = find_operator(text).specialise(text, architecture);
  EXPECT_EQ(first->source().headers, second->source().headers);
  EXPECT_EQ(first->source().template_text, second->source().template_text);
}

TEST(GqaPlan, EveryPairOfFieldValuesCompilesWithoutSpills) {
  std::shared_ptr<const runtime::Compiler> compiler;
  try {
    const auto settings = runtime::Settings::from_environment();
    compiler = runtime::load_nvrtc(settings.nvrtc_path, 0, settings.nvrtc_folders);
  } catch (const Failure& failure) {
    GTEST_SKIP() << "no compiler: " << failure.what();
  }
  struct Item {
    std::string text;
    const char* architecture;
    std::string trouble;
  };
  std::vector<Item> items;
  for (const char* architecture : kArchitectures) {
    for (const GqaDecode& descriptor : tests::pairwise_gqa_descriptors(false)) {
      items.push_back({descriptor.text(), architecture, ""});
    }
    for (const char* blocks : {"stream_read", "stream_read:blocks_per_sm=2"})
      items.push_back({blocks, architecture, ""});
  }
  parallel_for(static_cast<std::int64_t>(items.size()), [&](std::int64_t i) {
    Item& item = items[i];
    try {
      const auto specialisation =
          find_operator(item.text).specialise(item.text, codegen::find_architecture(item.architecture));
      const auto compiled = compiler->compile(specialisation->source());
      // Plans count blocks per SM by their dynamic shared memory alone.
      if (item.text.starts_with("gqa_decode") && compiled.resources.static_shared_memory != 0) {
        item.trouble = "static shared memory, which the plan does not count";
      }
      const int spills = compiled.resources.spill_load_bytes + compiled.resources.spill_store_bytes;
      if (spills > 0 && specialisation->report().spills_allowed_because.empty()) {
        item.trouble = std::to_string(spills) + " bytes of spills at " + std::to_string(compiled.resources.registers) +
                       " registers";
      }
    } catch (const Failure& failure) {
      item.trouble = failure.what();
    }
  });
  for (const Item& item : items) EXPECT_EQ(item.trouble, "") << item.text << " for " << item.architecture;
}

}  // namespace
}  // namespace cubit::ops
