// Shared-memory layouts of the pipeline stages of gqa_decode: the layout search finds the best layout, and the accesses
// have the bank conflicts that the plan states.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "codegen/tile_layout.hpp"
#include "tests/support/gqa_descriptors.hpp"
#include "tests/support/gqa_plans.hpp"

namespace cubit::ops {
namespace {

TEST(GqaPlan, IsFreeOfBankConflictsButForCopiesThatCannotBe) {
  for (const GqaDecode& descriptor : tests::pairwise_gqa_descriptors(false)) {
    const auto plan = gqa_decode::sm80::make_plan(descriptor, codegen::find_architecture("sm_80"));
    EXPECT_GE(plan.report.proofs.size(), 6u);
    for (const auto& proof : plan.report.proofs) {
      // A narrow copy of headers takes one vector of each of many rows, and rows start at every fourth bank.
      const bool narrow_header =
          proof.access == "cp.async of rows" && plan.copy_bytes < 16 && plan.formats().key.header_bytes() > 0;
      // Eight lanes take 16 bytes each, which is 32 channels of float together; heads of other multiples conflict.
      const bool meets_next_head = proof.access == "loads of warps' outputs" && descriptor.head_dim % 32 != 0;
      EXPECT_LE(proof.degree, narrow_header     ? 16 / plan.copy_bytes
                              : meets_next_head ? 2
                                                : 1)
          << descriptor.text() << ": " << proof.access;
      if (narrow_header) {
        EXPECT_LE(proof.wavefronts, proof.ideal + 3 * plan.formats().key.header_bytes() / 4) << descriptor.text();
      }
      if (proof.degree > 1) {
        EXPECT_NE(tests::reason_of(plan, "bank conflicts"), "") << descriptor.text();
      }
    }
  }
}

/// The layout search without shortcuts: tries every layout in the order of preference and proves all its accesses.
codegen::TileLayout exhaustive_search(int rows, int row_bytes, std::span<const codegen::TileAccess> accesses) {
  constexpr int kUnit = 16;
  std::vector<codegen::TileLayout> groups[4];  // plain, swizzled, padded, both
  for (int pitch = row_bytes; pitch < row_bytes + 128; pitch += kUnit) {
    const codegen::TileLayout plain{.rows = rows, .row_bytes = row_bytes, .pitch = pitch, .swizzle = {}};
    const bool padded = pitch > row_bytes;
    groups[padded ? 2 : 0].push_back(plain);
    for (int bits = 1; bits <= 3; ++bits) {
      for (int shift = 4 + bits; 1 << shift <= rows * pitch - 1; ++shift) {
        groups[padded ? 3 : 1].push_back(plain);
        groups[padded ? 3 : 1].back().swizzle = {.bits = bits, .base = 4, .shift_from = shift};
      }
    }
  }
  codegen::TileLayout best;
  int fewest = std::numeric_limits<int>::max();
  for (auto& group : groups) {
    std::stable_sort(group.begin(), group.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    for (const codegen::TileLayout& layout : group) {
      int wavefronts = 0;
      for (const auto& proof : codegen::prove(layout, accesses)) wavefronts += proof.wavefronts;
      if (wavefronts >= fewest) continue;
      fewest = wavefronts;
      best = layout;
    }
  }
  return best;
}

TEST(GqaPlan, LayoutsAreWhatAnExhaustiveSearchFinds) {
  std::map<std::string, codegen::TileLayout> known;  // a stage's layout does not depend on heads and query types
  for (const GqaDecode& descriptor : tests::pairwise_gqa_descriptors(false)) {
    const auto plan = gqa_decode::sm80::make_plan(descriptor, codegen::find_architecture("sm_80"));
    const auto accesses = stage_accesses(plan, gqa_decode::sm80::kCopies);
    const kv_cache::RowFormat format = plan.formats().key;
    const std::string key = fmt::format("{} {} {} {}", format.element_bytes(), format.header_bytes(),
                                        gqa_decode::stage_row_bytes(format), plan.copy_bytes);
    if (!known.contains(key)) {
      known[key] = exhaustive_search(32, gqa_decode::stage_row_bytes(format), accesses);
    }
    EXPECT_EQ(plan.stage, known[key]) << descriptor.text();
  }
  EXPECT_GE(known.size(), 15u);
}

/// A stage has a tile of keys, followed by a tile of values. Each tile has the layout that an exhaustive search finds.
TEST(GqaPlan, TwoFormatsHaveALayoutEach) {
  std::map<std::string, codegen::TileLayout> known;
  for (const GqaDecode& descriptor : tests::mixed_gqa_descriptors(false)) {
    const auto plan = gqa_decode::sm80::make_plan(descriptor, codegen::find_architecture("sm_80"));
    for (const std::size_t which : {0, 1}) {
      const kv_cache::RowFormat format = plan.formats()[which];
      const std::string key = fmt::format("{} {} {} {} {}", which, format.element_bytes(), format.header_bytes(),
                                          gqa_decode::stage_row_bytes(format), plan.copy_bytes);
      const char* const copies = gqa_decode::sm80::kCopies;
      const auto accesses = which == 0 ? stage_accesses(plan, copies) : value_stage_accesses(plan, copies);
      if (!known.contains(key)) known[key] = exhaustive_search(16, gqa_decode::stage_row_bytes(format), accesses);
      EXPECT_EQ(which == 0 ? plan.stage : plan.value_stage, known[key]) << descriptor.text();
    }
    EXPECT_EQ(tests::gqa_kernel_of(descriptor, codegen::find_architecture("sm_80"))->report().family,
              "sm80_gqa_decode");
    EXPECT_EQ(plan.stage_bytes(), plan.stage.size() + plan.value_stage.size());
    EXPECT_EQ(plan.stage.size() % 16, 0) << "values begin where a copy and a matrix row may";
    EXPECT_NE(tests::reason_of(plan, "operands of keys"), "");
    EXPECT_NE(tests::reason_of(plan, "operands of values"), "");
    std::set<std::string> accesses;
    for (const auto& proof : plan.report.proofs) {
      EXPECT_TRUE(accesses.insert(proof.access).second) << descriptor.text() << ": two proofs of " << proof.access;
      if (proof.degree > 1) {
        EXPECT_NE(tests::reason_of(plan, "bank conflicts"), "") << descriptor.text();
      }
    }
  }
}

/// For every pair of field values no access has a bank conflict, neither in the loop nor at the end of a sequence.
TEST(GqaPlan, FamilySm90IsFreeOfBankConflicts) {
  std::size_t plans = 0;
  for (const auto& descriptors :
       {tests::sm90_gqa_descriptors(), tests::sm90_byte_descriptors(), tests::sm90_unaligned_row_descriptors()}) {
    for (const GqaDecode& descriptor : descriptors) {
      for (const char* const architecture : {"sm_90a", "sm_100a", "sm_120"}) {
        const auto plan = gqa_decode::sm90::make_plan(descriptor, codegen::find_architecture(architecture));
        ++plans;
        EXPECT_GE(plan.report.proofs.size(), plan.heads_are_m ? 1u : 6u) << descriptor.text();
        for (const auto& proof : plan.report.proofs)
          EXPECT_EQ(proof.degree, 1) << descriptor.text() << " for " << architecture << ": " << proof.access;
      }
    }
  }
  EXPECT_GT(plans, 500u);
}

// A plan of family sm90 proves the accesses of its first and its last warp. This test proves the accesses of all warps.
TEST(GqaPlan, NoWarpsRowsMeetInABank) {
  for (const char* text :
       {"gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90", "gqa_decode:family=sm90",
        "gqa_decode:kv=int4_rows,groups=8,family=sm90", "gqa_decode:head_dim=64,kv=int4_rows,groups=4,family=sm90",
        "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,family=sm90", "gqa_decode:head_dim=96,kv=int8_split,family=sm90"}) {
    const auto plan = tests::sm90_plan_of(text, "sm_90a");
    auto accesses = gqa_decode::sm90::stage_accesses(plan);
    accesses.erase(accesses.begin());  // copies do not depend on the warp
    for (int warp = 0; warp < plan.warps; ++warp) {
      for (codegen::TileAccess access : accesses) {
        access.instances /= 2;  // keep the first warp's instances
        access.at = [first = access.at, by = warp * plan.descriptor.row_bytes()](int instance, int lane) {
          auto byte = first(instance, lane);
          if (byte) byte->byte += by;
          return byte;
        };
        EXPECT_EQ(codegen::prove(plan.stage, access).degree, 1) << text << ", warp " << warp << ": " << access.name;
      }
    }
  }
}

// Unaligned rows: lanes of the interleaved warps touch only their own rows and the neighbouring rows in the same 16
// bytes, without bank conflicts.
TEST(GqaPlan, UnalignedRowsOfAWarpMeetInNoBank) {
  for (const char* fields : {"", ",groups=2", ",head_dim=64", ",head_dim=96,groups=2", ",head_dim=192", ",head_dim=256",
                             ",head_dim=256,groups=2,query_tokens=3"}) {
    const std::string text = fmt::format("gqa_decode:heads_per_kv=4,kv=int4_rows,family=sm90{}", fields);
    const auto plan = tests::sm90_plan_of(text, "sm_90a");
    EXPECT_EQ(plan.interleaved_warps() * plan.descriptor.row_bytes(), plan.stage.row_bytes) << text;
    EXPECT_EQ(plan.stage.row_bytes / 16 % 2, 1) << text;
    EXPECT_EQ(plan.stage.rows * plan.interleaved_warps(), plan.chunk_tokens()) << text;
    for (const auto& proof : plan.report.proofs) EXPECT_EQ(proof.degree, 1) << text << ": " << proof.access;
  }
}

// The rows and bytes that the report states for a stage of family sm90 agree: keys, and as many bytes of values.
TEST(GqaPlan, SaysHowManyRowsAStageHas) {
  for (const char* fields : {"kv=int4_rows", "kv=int4_rows,groups=2", "kv=int4_rows,groups=4", "kv=bf16", "kv=fp8_e4m3",
                             "heads_per_kv=20"}) {
    const std::string text = fmt::format("gqa_decode:family=sm90,{}", fields);
    const auto plan = tests::sm90_plan_of(text, "sm_90a");
    const std::string said = tests::value_of(plan, "stage");
    int bytes = 0;
    int rows = 0;
    int pitch = 0;
    ASSERT_EQ(
        std::sscanf(said.c_str(), "%d bytes, %d rows of keys and of values, %d from row to row", &bytes, &rows, &pitch),
        3)
        << text << ": " << said;
    int parts = 1;
    if (const auto at = said.find(", in "); at != std::string::npos) parts = std::stoi(said.substr(at + 5));
    EXPECT_EQ(bytes, plan.stage_bytes()) << text;
    EXPECT_EQ(2 * rows * pitch * parts, bytes) << text << ": " << said;
  }
}

// Tensor cores read rows of 128 bytes with the swizzle of the tensor maps that wrote them: wgmma.cuh.
TEST(GqaPlan, WarpgroupMmaHasRowsInRunsOf128Bytes) {
  const auto& architecture = codegen::find_architecture("sm_90a");
  std::set<int> head_dims;
  for (const GqaDecode& descriptor : tests::all_gqa_descriptors()) {
    if (gqa_decode::sm90::family().why_not(descriptor, architecture)) continue;
    const auto plan = gqa_decode::sm90::make_plan(descriptor, architecture);
    if (!plan.heads_are_m) continue;
    head_dims.insert(descriptor.head_dim);
    EXPECT_EQ(plan.stage.part_bytes, 128) << descriptor.text();
    EXPECT_EQ(plan.stage.pitch, 128) << descriptor.text();
    EXPECT_EQ(plan.stage.swizzle, (codegen::Swizzle{.bits = 3, .base = 4, .shift_from = 7})) << descriptor.text();
  }
  EXPECT_EQ(head_dims, (std::set{64, 128, 192}));
}

}  // namespace
}  // namespace cubit::ops
