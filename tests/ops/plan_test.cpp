// Plans: every decision has a reason, every shared-memory access its proof, and each descriptor a kernel that compiles
// for the architectures it claims without spills.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "codegen/fragments.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "templates/gqa_decode_lanes.h"
#include "tests/support/compiled.hpp"
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

std::string value_of(const gqa_decode::Plan& plan, std::string_view decision) {
  for (const Decision& one : plan.report.decisions) {
    if (one.name == decision) return one.value;
  }
  return "";
}

TEST(GqaPlan, IsFreeOfBankConflictsButForCopiesThatCannotBe) {
  for (const GqaDecode& descriptor : tests::pairwise_gqa_descriptors(false)) {
    const auto plan = gqa_decode::make_plan(descriptor, codegen::find_architecture("sm_80"));
    EXPECT_GE(plan.report.proofs.size(), 6u);
    for (const auto& proof : plan.report.proofs) {
      // A narrow copy of headers takes one piece of many rows, which start at every fourth bank.
      const bool narrow_header =
          proof.access == "cp.async of rows" && plan.copy_bytes < 16 && plan.formats().key.header_bytes() > 0;
      // Eight lanes take 16 bytes each of heads whose channels are no multiple of as many.
      const bool meets_next_head = proof.access == "loads of warps' outputs" && descriptor.head_dim % 32 != 0;
      EXPECT_LE(proof.degree, narrow_header     ? 16 / plan.copy_bytes
                              : meets_next_head ? 2
                                                : 1)
          << descriptor.text() << ": " << proof.access;
      if (narrow_header) {
        EXPECT_LE(proof.wavefronts, proof.ideal + 3 * plan.formats().key.header_bytes() / 4) << descriptor.text();
      }
      if (proof.degree > 1) {
        EXPECT_NE(reason_of(plan, "bank conflicts"), "") << descriptor.text();
      }
    }
  }
}

/// The search stated plainly: every layout in the order of preference, each proved whole.
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
  std::map<std::string, codegen::TileLayout> known;  // heads and element types do not matter to a stage
  for (const GqaDecode& descriptor : tests::pairwise_gqa_descriptors(false)) {
    const auto plan = gqa_decode::make_plan(descriptor, codegen::find_architecture("sm_80"));
    const auto accesses = gqa_decode::stage_accesses(plan);
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

// Every byte of 16 rows of keys and 16 of values, once; and a copy lies in a row's header or in its words.
TEST(GqaLanes, CopiesTakeEveryByteOnce) {
  for (const GqaDecode& descriptor : tests::pairwise_gqa_descriptors(false)) {
    const auto plan = gqa_decode::make_plan(descriptor, codegen::find_architecture("sm_80"));
    const int header = plan.formats().key.header_bytes();
    const int row_bytes = descriptor.row_bytes();
    std::vector<int> taken(static_cast<std::size_t>(2 * lanes::kTileRows * row_bytes / plan.copy_bytes));
    for (int i = 0; i < row_bytes / plan.copy_bytes; ++i) {
      for (int lane = 0; lane < lanes::kWarpSize; ++lane) {
        const auto [row, byte] = lanes::copied_piece(i, lane, header, row_bytes, plan.copy_bytes, 32);
        ASSERT_TRUE(row >= 0 && row < 2 * lanes::kTileRows && byte >= 0 && byte + plan.copy_bytes <= row_bytes);
        ASSERT_EQ(byte % plan.copy_bytes, 0);
        ASSERT_TRUE(byte >= header || byte + plan.copy_bytes <= header);
        ++taken[static_cast<std::size_t>((row * row_bytes + byte) / plan.copy_bytes)];
      }
    }
    EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), std::ssize(taken)) << descriptor.text();
  }
}

// Of keys and values that are stored otherwise each 16 rows are copied by themselves: every byte once, by lanes that
// have something to do.
TEST(GqaLanes, CopiesOfTwoFormatsTakeEveryByteOnce) {
  std::size_t with_idle_lanes = 0;
  for (const GqaDecode& descriptor : tests::mixed_gqa_descriptors(false)) {
    const auto plan = gqa_decode::make_plan(descriptor, codegen::find_architecture("sm_80"));
    for (const std::size_t which : {0, 1}) {
      const kv_cache::RowFormat format = plan.formats()[which];
      const int header = format.header_bytes();
      const int row_bytes = format.row_bytes();
      std::vector<int> taken(static_cast<std::size_t>(lanes::kTileRows * row_bytes / plan.copy_bytes));
      const int copies = lanes::count_copies(header, row_bytes, plan.copy_bytes, lanes::kTileRows);
      for (int i = 0; i < copies; ++i) {
        for (int lane = 0; lane < lanes::kWarpSize; ++lane) {
          const auto [row, byte] = lanes::copied_piece(i, lane, header, row_bytes, plan.copy_bytes, lanes::kTileRows);
          if (row >= lanes::kTileRows) {
            ++with_idle_lanes;
            continue;
          }
          ASSERT_TRUE(row >= 0 && byte >= 0 && byte + plan.copy_bytes <= row_bytes && byte % plan.copy_bytes == 0);
          ASSERT_TRUE(byte >= header || byte + plan.copy_bytes <= header);
          ++taken[static_cast<std::size_t>((row * row_bytes + byte) / plan.copy_bytes)];
        }
      }
      EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), std::ssize(taken)) << descriptor.text();
    }
  }
  EXPECT_GT(with_idle_lanes, 0u);
}

/// Each of the two tiles of a stage is laid out as an exhaustive search would, one behind the other.
TEST(GqaPlan, TwoFormatsHaveALayoutEach) {
  std::map<std::string, codegen::TileLayout> known;
  for (const GqaDecode& descriptor : tests::mixed_gqa_descriptors(false)) {
    const auto plan = gqa_decode::make_plan(descriptor, codegen::find_architecture("sm_80"));
    for (const std::size_t which : {0, 1}) {
      const kv_cache::RowFormat format = plan.formats()[which];
      const std::string key = fmt::format("{} {} {} {} {}", which, format.element_bytes(), format.header_bytes(),
                                          gqa_decode::stage_row_bytes(format), plan.copy_bytes);
      const auto accesses = which == 0 ? gqa_decode::stage_accesses(plan) : gqa_decode::value_stage_accesses(plan);
      if (!known.contains(key)) known[key] = exhaustive_search(16, gqa_decode::stage_row_bytes(format), accesses);
      EXPECT_EQ(which == 0 ? plan.stage : plan.value_stage, known[key]) << descriptor.text();
    }
    EXPECT_EQ(plan.report.family, "sm80_gqa_decode");
    EXPECT_EQ(plan.stage_bytes(), plan.stage.size() + plan.value_stage.size());
    EXPECT_EQ(plan.stage.size() % 16, 0) << "values begin where a copy and a matrix row may";
    EXPECT_NE(reason_of(plan, "operands of keys"), "");
    EXPECT_NE(reason_of(plan, "operands of values"), "");
    std::set<std::string> accesses;
    for (const auto& proof : plan.report.proofs) {
      EXPECT_TRUE(accesses.insert(proof.access).second) << descriptor.text() << ": two proofs of " << proof.access;
      if (proof.degree > 1) {
        EXPECT_NE(reason_of(plan, "bank conflicts"), "") << descriptor.text();
      }
    }
  }
}

TEST(GqaPlan, OneFormatOnlyIsWhyFamilySm90RefusesTwo) {
  const auto plan =
      gqa_decode::make_plan(gqa_decode::parse("gqa_decode:value=int4_rows"), codegen::find_architecture("sm_90a"));
  ASSERT_EQ(plan.report.rejections.size(), 2u);
  EXPECT_EQ(plan.report.rejections[0].family, "sm90_gqa_decode");
  EXPECT_EQ(plan.report.rejections[0].why, "its keys and values have one format and one head_dim");
  EXPECT_EQ(plan.report.rejections[1].why, "the query is bf16");
}

// A plan of family sm90 proves the accesses of its first and last warp; here are those of all.
TEST(GqaPlan, NoWarpsRowsMeetInABank) {
  for (const char* text :
       {"gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90", "gqa_decode:family=sm90",
        "gqa_decode:kv=int4_rows,groups=8,family=sm90", "gqa_decode:head_dim=64,kv=int4_rows,groups=4,family=sm90",
        "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,family=sm90", "gqa_decode:head_dim=96,kv=int8_split,family=sm90"}) {
    const auto plan = gqa_decode::make_plan(gqa_decode::parse(text), codegen::find_architecture("sm_90a"));
    auto accesses = gqa_decode::stage_accesses(plan);
    accesses.erase(accesses.begin());  // copies have no warp's place
    for (int warp = 0; warp < plan.warps; ++warp) {
      for (codegen::TileAccess access : accesses) {
        access.instances /= 2;  // the first warp's
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

// Unaligned rows: all that lanes of the warps that are abreast touch lies in their rows, or in those of neighbours that
// make the same 16 bytes; and none meet in a bank.
TEST(GqaPlan, UnalignedRowsOfAWarpMeetInNoBank) {
  for (const char* fields : {"", ",groups=2", ",head_dim=64", ",head_dim=96,groups=2", ",head_dim=192", ",head_dim=256",
                             ",head_dim=256,groups=2,query_tokens=3"}) {
    const std::string text = fmt::format("gqa_decode:heads_per_kv=4,kv=int4_rows,alignment=4,family=sm90{}", fields);
    const auto plan = gqa_decode::make_plan(gqa_decode::parse(text), codegen::find_architecture("sm_90a"));
    EXPECT_EQ(plan.warps_abreast() * plan.descriptor.row_bytes(), plan.stage.row_bytes) << text;
    EXPECT_EQ(plan.stage.row_bytes / 16 % 2, 1) << text;
    EXPECT_EQ(plan.stage.rows * plan.warps_abreast(), plan.chunk_tokens()) << text;
    for (const auto& proof : plan.report.proofs) EXPECT_EQ(proof.degree, 1) << text << ": " << proof.access;
  }
}

// What explain says of a stage of family sm90 makes its bytes: keys, and as much again of values.
TEST(GqaPlan, SaysHowManyRowsAStageHas) {
  for (const char* fields : {"kv=int4_rows,alignment=4", "kv=int4_rows,groups=2,alignment=8", "kv=int4_rows,groups=4",
                             "kv=bf16", "kv=fp8_e4m3", "heads_per_kv=20"}) {
    const std::string text = fmt::format("gqa_decode:family=sm90,{}", fields);
    const auto plan = gqa_decode::make_plan(gqa_decode::parse(text), codegen::find_architecture("sm_90a"));
    const std::string said = value_of(plan, "stage");
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

// Heads that one block does not take: of unaligned rows not for want of registers.
TEST(GqaPlan, SaysWhyUnalignedRowsHaveHeadGroups) {
  for (const auto& [fields, needs_warps] :
       {std::pair{"heads_per_kv=16,alignment=4", true}, {"heads_per_kv=64,groups=4", false}}) {
    const std::string text = fmt::format("gqa_decode:kv=int4_rows,family=sm90,{}", fields);
    const auto plan = gqa_decode::make_plan(gqa_decode::parse(text), codegen::find_architecture("sm_90a"));
    ASSERT_GT(plan.head_groups, 1) << text;
    EXPECT_EQ(reason_of(plan, "head_groups").find("registers hold no more") == std::string::npos, needs_warps) << text;
  }
}

TEST(GqaPlan, GivesAReasonForEveryDecision) {
  for (const char* name : kArchitectures) {
    const auto plan = gqa_decode::make_plan(gqa_decode::parse("gqa_decode:heads_per_kv=8,family=sm80"),
                                            codegen::find_architecture(name));
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

/// Every head is some block's, no block is empty, and one more tile of heads would not fit.
TEST(GqaPlan, HeadGroupsShareTheHeadsEvenly) {
  const auto& architecture = codegen::find_architecture("sm_86");
  for (const int head_dim : {64, 96, 128, 192, 256}) {
    for (int heads = 1; heads <= 64; ++heads) {
      const auto plan = gqa_decode::make_plan({.head_dim = head_dim, .heads_per_kv = heads}, architecture);
      const int before_last = (plan.head_groups - 1) * plan.heads_per_block;
      EXPECT_TRUE(before_last < heads && heads <= before_last + plan.heads_per_block) << head_dim << ' ' << heads;
      const int tiles = (heads + 7) / 8;
      const int most = head_dim == 64 ? 4 : head_dim == 96 ? 3 : head_dim == 128 ? 2 : 1;
      EXPECT_EQ(plan.head_groups, (tiles + most - 1) / most) << head_dim << ' ' << heads;
      EXPECT_NE(reason_of(plan, "head_groups"), "");
    }
  }
}

TEST(GqaPlan, TakesFewerWarpsWhereTheirStagesDoNotFit) {
  const auto warps = [](const GqaDecode& descriptor, const char* architecture) {
    const auto plan = gqa_decode::make_plan(descriptor, codegen::find_architecture(architecture));
    EXPECT_LE(plan.shared_memory, codegen::find_architecture(architecture).shared_memory_per_block);
    EXPECT_EQ(reason_of(plan, "warps").find("do not fit") != std::string::npos, plan.warps < 4);
    return plan.warps;
  };
  const GqaDecode wide{.head_dim = 256};
  const GqaDecode packed{.head_dim = 256, .kv = KvFormat::int4_rows, .groups = 8};
  EXPECT_EQ(warps(wide, "sm_90a"), 4);
  EXPECT_EQ(warps(wide, "sm_80"), 2);
  EXPECT_EQ(warps(wide, "sm_120"), 2);
  EXPECT_EQ(warps(packed, "sm_120"), 4);
}

TEST(GqaPlan, RefusesAnArchitectureWithoutItsInstructions) {
  try {
    find_operator("gqa_decode").specialise("gqa_decode", codegen::find_architecture("sm_75"));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::unsupported);
    EXPECT_STREQ(failure.what(),
                 "gqa_decode for sm_75: no kernel family runs there (sm80_gqa_decode: it needs cp.async, which sm_80 "
                 "brought; sm90_gqa_decode: it needs cp.async.bulk.tensor, which sm_90 brought; sm75_gqa_decode: the "
                 "query is bf16); accepted: sm_80 and later; sm_75 with query=fp16, output=fp16 and a cache without "
                 "bf16");
  }
}

TEST(GqaPlan, FamilySm75RunsEverywhereAndIsChosenWhereNoOtherDoes) {
  const GqaDecode fp16{.kv = KvFormat::fp16, .query = Element::fp16, .output = Element::fp16};
  GqaDecode named = fp16;
  named.family = Family::sm75;
  for (const codegen::Architecture& architecture : codegen::architectures()) {
    EXPECT_EQ(gqa_decode::make_plan(named, architecture).report.family, "sm75_gqa_decode") << architecture.name;
    EXPECT_EQ(gqa_decode::make_plan(fp16, architecture).family == Family::sm75, architecture.name == "sm_75")
        << architecture.name;
  }
}

/// Registers hold the next tile, or as much of it as they can.
TEST(GqaPlan, FamilySm75HasAPlanForEveryDescriptorThatItTakes) {
  for (const char* name : {"sm_75", "sm_86"}) {
    const auto& architecture = codegen::find_architecture(name);
    for (const GqaDecode& descriptor : tests::sm75_gqa_descriptors()) {
      const auto plan = gqa_decode::make_plan(descriptor, architecture);
      const int pieces = gqa_decode::count_copies(plan);
      EXPECT_TRUE(1 <= plan.held_pieces && plan.held_pieces <= pieces) << descriptor.text();
      EXPECT_EQ(reason_of(plan, "copies in registers").find("the rest") != std::string::npos, plan.held_pieces < pieces)
          << descriptor.text();
      EXPECT_LE(plan.counted_registers, architecture.registers_per_thread) << descriptor.text();
      EXPECT_LE(plan.shared_memory, architecture.shared_memory_per_block) << descriptor.text();
      EXPECT_EQ(plan.stages, 2);
      EXPECT_EQ(reason_of(plan, "copy offsets"), "");
    }
  }
}

/// Bytes: what was timed, docs/performance/gqa_decode.md.
TEST(GqaPlan, FamilySm90IsChosenWhereItWasFaster) {
  const auto family_of = [](const char* text, const char* architecture) {
    return gqa_decode::make_plan(gqa_decode::parse(text), codegen::find_architecture(architecture)).family;
  };
  for (const char* text :
       {"gqa_decode:heads_per_kv=8,kv=fp8_e4m3", "gqa_decode:kv=int8_split,scales=token,scale_type=fp16",
        "gqa_decode:kv=fp8_e5m2,scales=tensor", "gqa_decode:heads_per_kv=4,kv=int8_split,cache=paged"}) {
    EXPECT_EQ(family_of(text, "sm_90a"), Family::sm90) << text;
    EXPECT_EQ(family_of(text, "sm_100a"), Family::sm80) << text;
  }
  for (const char* text : {"gqa_decode:heads_per_kv=9,kv=fp8_e4m3", "gqa_decode:head_dim=256,kv=int8_split",
                           "gqa_decode:kv=int8_split,groups=2,scales=group", "gqa_decode:kv=fp8_e4m3,alignment=8"}) {
    EXPECT_EQ(family_of(text, "sm_90a"), Family::sm80) << text;
  }
}

TEST(GqaPlan, FamilySm90IsChosenForRowsThatFollowOneAnother) {
  const auto family_of = [](const char* text, const char* architecture) {
    return gqa_decode::make_plan(gqa_decode::parse(text), codegen::find_architecture(architecture)).family;
  };
  for (const char* text : {"gqa_decode:heads_per_kv=8,kv=int4_rows,alignment=4",
                           "gqa_decode:heads_per_kv=4,kv=int4_rows,groups=2,alignment=8"}) {
    EXPECT_EQ(family_of(text, "sm_90a"), Family::sm90) << text;
    EXPECT_EQ(family_of(text, "sm_100a"), Family::sm80) << text;
  }
  for (const char* text :
       {"gqa_decode:kv=int4_rows", "gqa_decode:kv=int4_rows,cache=paged,alignment=4",
        "gqa_decode:heads_per_kv=9,kv=int4_rows,alignment=4", "gqa_decode:kv=int4_rows,groups=4,alignment=4"}) {
    EXPECT_EQ(family_of(text, "sm_90a"), Family::sm80) << text;
  }
}

TEST(GqaPlan, FamilySm90SaysWhoLoadsScales) {
  const auto& architecture = codegen::find_architecture("sm_90a");
  const auto decision = [&](const char* text) {
    return reason_of(gqa_decode::make_plan(gqa_decode::parse(text), architecture), "scales");
  };
  EXPECT_NE(decision("gqa_decode:kv=fp8_e4m3,family=sm90"), "");
  EXPECT_EQ(decision("gqa_decode:kv=fp8_e4m3,scales=tensor,family=sm90"), "");
  EXPECT_EQ(decision("gqa_decode:kv=int4_rows,groups=4,family=sm90"), "");
}

TEST(GqaPlan, SaysWhyOtherFamiliesWereNotChosen) {
  for (const char* name : kArchitectures) {
    const auto plan = gqa_decode::make_plan(GqaDecode{}, codegen::find_architecture(name));
    EXPECT_EQ(plan.report.family, name == std::string_view("sm_90a") ? "sm90_gqa_decode" : "sm80_gqa_decode");
    ASSERT_EQ(plan.report.rejections.size(), 2u);
    for (const Rejection& rejection : plan.report.rejections) {
      EXPECT_NE(rejection.family, plan.report.family);
      EXPECT_FALSE(rejection.why.empty());
    }
  }
}

TEST(GqaLanes, AgreeWithTheFragmentsOfTheIsa) {
  const auto& a = codegen::find_fragment("mma.m16n8k16 A, 16-bit");
  const auto& b = codegen::find_fragment("mma.m16n8k16 B, 16-bit");
  const auto& c = codegen::find_fragment("mma.m16n8k16 C, 32-bit");
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {  // tokens are the k of weights
      EXPECT_EQ(lanes::int4_token_pairs(lane, i, 2, lanes::kTileRows).row, lanes::kTileRows + b.at(lane, i).row);
      EXPECT_EQ(lanes::int4_token_pairs(lane, i, 2, lanes::kTileRows).byte, 8);
    }
    // Lanes 8i … 8i+7 address the rows of the matrix that lands in register i, which starts at element (0, 2i) of lane
    // 0.
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
    // Bytes: an operand's rows r and r + 8 are channels 2r and 2r + 1.
    EXPECT_EQ(lanes::byte_channel(lane, 3), 48 + 2 * c.at(lane, 0).row);
    EXPECT_EQ(lanes::byte_words(lane, 1, 16).row, 16 + lane % 16);
    EXPECT_EQ(lanes::byte_words(lane, 1, 16).byte, 32 + 16 * (lane / 16));
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
  std::vector<tests::KernelFor> kernels;
  for (const char* architecture : kArchitectures) {
    for (const GqaDecode& descriptor : tests::pairwise_gqa_descriptors(false))
      kernels.push_back({descriptor.text(), architecture});
    for (const char* blocks : {"stream_read", "stream_read:blocks_per_sm=2"}) kernels.push_back({blocks, architecture});
  }
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, TwoFormatsCompileWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  const std::vector<GqaDecode> descriptors = tests::mixed_gqa_descriptors(false);
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    kernels.push_back({descriptors[i].text(), "sm_80"});
    // The others in turn.
    kernels.push_back({descriptors[i].text(), kArchitectures[1 + i % (std::size(kArchitectures) - 1)]});
  }
  tests::expect_no_spills(kernels);
}

/// With and without registers that change hands; in turn, where a list has them beside sm_90a.
constexpr const char* kLaterThanSm90[] = {"sm_100a", "sm_120", "sm_120a"};

TEST(GqaPlan, FamilySm90TakesBytesWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  for (const GqaDecode& descriptor : tests::sm90_byte_descriptors()) {
    kernels.push_back({descriptor.text(), "sm_90a"});
    kernels.push_back({descriptor.text(), kLaterThanSm90[kernels.size() / 2 % std::size(kLaterThanSm90)]});
  }
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, FamilySm90TakesUnalignedRowsWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  for (const GqaDecode& descriptor : tests::sm90_unaligned_row_descriptors()) {
    if (kernels.size() % 5 == 0) kernels.push_back({descriptor.text(), kernels.size() % 2 == 0 ? "sm_100a" : "sm_120"});
    kernels.push_back({descriptor.text(), "sm_90a"});
  }
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, FamilySm75CompilesWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  constexpr std::size_t kOfLater = 6;  // a later architecture has more registers for the same loop: every sixth
  for (const GqaDecode& descriptor : tests::sm75_gqa_descriptors()) {
    if (kernels.size() % (kOfLater + 1) == 0) kernels.push_back({descriptor.text(), "sm_90a"});
    kernels.push_back({descriptor.text(), "sm_75"});
  }
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, FamilySm90CompilesWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  constexpr std::size_t kOfLater = 4;  // of a later architecture: every fourth
  for (const GqaDecode& descriptor : tests::sm90_gqa_descriptors()) {
    if (kernels.size() % (kOfLater + 1) == 0) {
      const std::size_t turn = kernels.size() / (kOfLater + 1);
      kernels.push_back({descriptor.text(), kLaterThanSm90[turn % std::size(kLaterThanSm90)]});
    }
    kernels.push_back({descriptor.text(), "sm_90a"});
  }
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, ProductsByHeadsCompileWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  for (const int head_dim : {64, 128, 192}) {
    for (const char* types : {"query=bf16,kv=bf16", "query=fp16,kv=fp16", "query=fp16,kv=bf16"}) {
      for (const char* heads : {"heads_per_kv=17", "heads_per_kv=24,cache=paged", "heads_per_kv=32,window=true",
                                "heads_per_kv=33", "heads_per_kv=48,alibi=true", "heads_per_kv=8,query_tokens=8"}) {
        const GqaDecode descriptor =
            gqa_decode::parse(fmt::format("gqa_decode:head_dim={},{},{}", head_dim, types, heads));
        if (!gqa_decode::makes_products_by_heads(descriptor, codegen::find_architecture("sm_90a"))) continue;
        kernels.push_back({descriptor.text(), "sm_90a"});
      }
    }
  }
  EXPECT_EQ(kernels.size(), 6 * (3 + 3 + 1));
  tests::expect_no_spills(kernels);
}

}  // namespace
}  // namespace cubit::ops
