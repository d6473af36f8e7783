// Tests of w4a16_gemm without a device: descriptor texts parse back, plans are free of bank conflicts, and kernels
// compile without spills.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "codegen/fragments.hpp"
#include "ops/gemm/sm75/sm75.hpp"
#include "ops/gemm/sm80/sm80.hpp"
#include "ops/gemm/sm90/sm90.hpp"
#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "tests/support/gemm_descriptors.hpp"
#include "tests/support/gemm_launches.hpp"
#include "tests/support/machine_nvrtc.hpp"
#include "tests/support/refusals.hpp"
#include "tests/support/register_pool.hpp"
#include "tests/support/sample.hpp"

namespace cubit::ops {
namespace {

constexpr const char* kTargets[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"};

using tests::plan_if_any;
using tests::plan_of;

TEST(GemmDescriptor, EveryValueHasOneTextThatParsesBackToIt) {
  std::set<std::string> texts;
  for (const W4a16Gemm& descriptor : tests::all_gemm_descriptors()) {
    const std::string text = descriptor.text();
    EXPECT_TRUE(texts.insert(text).second) << text << " stands for two values";
    EXPECT_EQ(w4a16_gemm::parse(text), descriptor) << text;
  }
  const unsigned by_k = 3 * (4 * 2 + 1);                      // formats, groups with activation order or without
  const unsigned awq = 5 * 2;                                 // groups, alignments
  const unsigned tiles_of_all = 4 * (by_k + awq) + 3 * by_k;  // 4 bits, and 8 bits
  const unsigned epilogues = 6 * 2 * 2;
  const unsigned of_each_type = tiles_of_all * epilogues * 3;    // batch invariance, or atomic sums
  const unsigned of_sm90 = 4 * (3 * 4 + 4) * 2 * epilogues * 2;  // tiles, groups but 16, types, atomic sums
  const unsigned of_8_and_16_rows = 2 * (2 * by_k + awq);        // 4 bits, and 8 bits
  const unsigned of_few_columns =
      of_8_and_16_rows * (epilogues + epilogues * 5 / 6) * 2 * 2;  // 64 columns, and 32 if not gated
  // Named sm90: 64 and 32 columns if not gated. Named sm90 and unnamed: 128 columns, and 96, 160 and 224 columns if not
  // gated. 16 rows of 224 columns exist in one type, two formats and two group sizes. AWQ has no 32 columns.
  const unsigned of_boxes = 3 * 4 * 2 * 2 * (2 * epilogues * 5 / 6 + 2 * epilogues) +
                            4 * 2 * 2 * (epilogues * 5 / 6 + 2 * epilogues) +
                            2 * 4 * 4 * 2 * 2 * 2 * (epilogues * 5 / 6) + (4 * 4 * 2 + 2 * 2) * 2 * (epilogues * 5 / 6);
  // Unnamed 80, 128, 144, 192 and 256 rows, and 64 rows too if the family is named.
  const unsigned of_persistent = (5 + 6) * (3 * 4 + 4) * 2 * epilogues;
  const unsigned of_dense = 2 * 8 * 2 * epilogues;  // 16 to 256 rows, named and unnamed
  // Formats by k, groups, types, and tiles: 64 rows by name, and 5 sizes of more rows named and unnamed.
  const unsigned of_ordered = 3 * 4 * 2 * (1 + 2 * 5) * epilogues;
  EXPECT_EQ(texts.size(), 2 * 2 * of_each_type + of_each_type + of_sm90 + of_few_columns + of_boxes + of_persistent +
                              of_ordered + of_dense)
      << "families auto and sm80, sm75, sm90, narrow blocks, sm90_persistent, and dense weights";
  EXPECT_EQ(find_operator("w4a16_gemm").canonical("w4a16_gemm:format=gptq,group_size=128,element=fp16"), "w4a16_gemm");
  EXPECT_EQ(find_operator("w4a16_gemm").canonical("w4a16_gemm:group_size=all,format=awq"),
            "w4a16_gemm:format=awq,group_size=all");
  EXPECT_EQ(find_operator("w4a16_gemm").canonical("w4a16_gemm:batch_invariant=1,bias=0,residual=false"),
            "w4a16_gemm:batch_invariant=true")
      << "numbers of flags are understood, and written as words";
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
  EXPECT_EQ(
      sentence("w4a16_gemm:group_size=256"),
      "descriptor \"w4a16_gemm:group_size=256\": 256 is not a value of group_size; accepted: 16, 32, 64, 128, all");
  EXPECT_EQ(sentence("w4a16_gemm:format=marlin"),
            "descriptor \"w4a16_gemm:format=marlin\": marlin is not a value of format; accepted: gptq, gptq_v2, awq, "
            "symmetric, dense");
  EXPECT_EQ(sentence("w4a16_gemm:alignment=16"),
            "descriptor \"w4a16_gemm:alignment=16\": the field alignment applies to format=awq only; leave alignment "
            "out or ask for format=awq");
  EXPECT_EQ(sentence("w4a16_gemm:group_size=all,activation_order=true"),
            "descriptor \"w4a16_gemm:group_size=all,activation_order=true\": activation_order=true needs groups that "
            "are not all of k, in a format other than awq, which has none; leave activation_order out, or ask for "
            "format=gptq, gptq_v2 or symmetric and group_size=16, 32, 64 or 128");
  EXPECT_EQ(sentence("w4a16_gemm:bits=8,format=awq"),
            "descriptor \"w4a16_gemm:bits=8,format=awq\": format=awq has weights of 4 bits; leave bits out, or ask for "
            "format=gptq, gptq_v2 or symmetric");
  EXPECT_EQ(sentence("w4a16_gemm:bits=3"),
            "descriptor \"w4a16_gemm:bits=3\": 3 is not a value of bits; accepted: 4, 8");
  EXPECT_EQ(sentence("w4a16_gemm:bits=8,tile_m=64"),
            "descriptor \"w4a16_gemm:bits=8,tile_m=64\": two stages of 64 rows and of weights of 8 bits do not fit the "
            "shared memory of every architecture; ask for tile_m=8, 16 or 32, which compute any number of rows");
  EXPECT_EQ(sentence("w4a16_gemm:tile_m=32,activation_order=true,family=sm90"),
            "descriptor \"w4a16_gemm:tile_m=32,activation_order=true,family=sm90\": family=sm90: with "
            "activation_order=true neighbours along k share no group; ask for family=sm80, or leave family out");
  EXPECT_EQ(sentence("w4a16_gemm:group_size=16,tile_m=32,family=sm90"),
            "descriptor \"w4a16_gemm:group_size=16,tile_m=32,family=sm90\": family=sm90: groups of 16 are half of a "
            "step of 32 values along k; ask for family=sm80, or leave family out");
  EXPECT_EQ(sentence("w4a16_gemm:group_size=16,tile_m=64,family=sm90_persistent"),
            "descriptor \"w4a16_gemm:group_size=16,tile_m=64,family=sm90_persistent\": family=sm90_persistent: groups "
            "of 16 would change the unit of the sums at every product; ask for tile_m=8, 16, 32 or 64, which compute "
            "any number of rows, and leave family out");
  EXPECT_EQ(
      sentence("w4a16_gemm:tile_m=256,family=sm80"),
      "descriptor \"w4a16_gemm:tile_m=256,family=sm80\": family=sm80: its tiles have at most 64 rows, not 256; ask "
      "for tile_m=8, 16, 32 or 64, which compute any number of rows, or leave family out");
  EXPECT_EQ(sentence("w4a16_gemm:tile_m=32,family=sm90_persistent"),
            "descriptor \"w4a16_gemm:tile_m=32,family=sm90_persistent\": family=sm90_persistent: its tiles have 64 to "
            "256 rows; ask for tile_m=64, 80, 128, 144, 192 or 256, or leave family out");
  EXPECT_EQ(sentence("w4a16_gemm:tile_m=128,batch_invariant=true"),
            "descriptor \"w4a16_gemm:tile_m=128,batch_invariant=true\": tile_m=128: no kernel family serves it (sm80: "
            "its tiles have at most 64 rows, not 128; sm90: its tiles have at most 64 rows, not 128; sm90_persistent: "
            "batch_invariant=true needs the same order of k in every tile; sm75: its tiles have at most 64 rows, not "
            "128); ask for tile_m=8, 16, 32 or 64, which compute any number of rows");
  EXPECT_EQ(sentence("w4a16_gemm:element=bf16,family=sm75"),
            "descriptor \"w4a16_gemm:element=bf16,family=sm75\": family=sm75: it multiplies fp16 alone, as the tensor "
            "cores of sm_75 do; ask for element=fp16, or leave family out");
  EXPECT_EQ(sentence("w4a16_gemm:tile_m=32,tile_n=64"),
            "descriptor \"w4a16_gemm:tile_m=32,tile_n=64\": tile_n=64: a block reads all activations of its rows, too "
            "many for so few columns; ask for tile_m=8 or 16");
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=64,batch_invariant=true"),
            "descriptor \"w4a16_gemm:tile_n=64,batch_invariant=true\": tile_n=64: into how many parts a block's warps "
            "divide k depends on the rows of a tile; leave tile_n or batch_invariant out");
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=64,atomic_splits=true"),
            "descriptor \"w4a16_gemm:tile_n=64,atomic_splits=true\": tile_n=64: a block adds up its warps' sums in "
            "shared memory first, for which there is no atomic kernel; leave tile_n or atomic_splits out");
  EXPECT_EQ(sentence("w4a16_gemm:batch_invariant=true,atomic_splits=true"),
            "descriptor \"w4a16_gemm:batch_invariant=true,atomic_splits=true\": batch_invariant=true needs sums in one "
            "order, and atomic_splits=true lets sums be added in any order; leave one of the two out");
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=32,function=silu_gate"),
            "descriptor \"w4a16_gemm:tile_n=32,function=silu_gate\": tile_n=32: a strip of 32 columns has no room for "
            "gate columns and up-projection columns; ask for tile_n=64");
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=64,family=sm75"),
            "descriptor \"w4a16_gemm:tile_n=64,family=sm75\": family=sm75: its blocks have 256 columns, not 64; leave "
            "tile_n or family out");
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=128,family=sm80"),
            "descriptor \"w4a16_gemm:tile_n=128,family=sm80\": family=sm80: its blocks have 256, 64 or 32 columns, not "
            "128; ask for tile_n=256, 64 or 32, or leave family out");
  EXPECT_EQ(sentence("w4a16_gemm:format=awq,tile_n=32,family=sm90"),
            "descriptor \"w4a16_gemm:format=awq,tile_n=32,family=sm90\": family=sm90: a row of 32 columns of awq is 16 "
            "bytes, half of what the L2 cache delivers at once; leave family out");
  EXPECT_EQ(
      sentence("w4a16_gemm:format=awq,tile_n=128,alignment=4"),
      "descriptor \"w4a16_gemm:format=awq,tile_n=128,alignment=4\": tile_n=128: no kernel family serves it (sm80: its "
      "blocks have 256, 64 or 32 columns, not 128; sm90: tensor maps need rows that are multiples of 16 bytes, not "
      "alignment=4; sm90_persistent: its tiles have 64 to 256 rows; sm75: its blocks have 256 columns, not 128); ask "
      "for a smaller tile_n or tile_m, or tile_n=256");
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=64,function=silu_gate,family=sm90"),
            "descriptor \"w4a16_gemm:tile_n=64,function=silu_gate,family=sm90\": family=sm90: 32 gate columns and 32 "
            "up-projection columns are too few for TMA boxes; leave family out");
  EXPECT_EQ(sentence("w4a16_gemm:bits=8,tile_n=64,family=sm90"),
            "descriptor \"w4a16_gemm:bits=8,tile_n=64,family=sm90\": family=sm90: there is no kernel of weights of 8 "
            "bits yet; leave family out");
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=224,family=sm80"),
            "descriptor \"w4a16_gemm:tile_n=224,family=sm80\": family=sm80: its blocks have 256, 64 or 32 columns, not "
            "224; ask for tile_n=256, 64 or 32, or leave family out");
  EXPECT_EQ(
      sentence("w4a16_gemm:element=bf16,tile_m=16,tile_n=224"),
      "descriptor \"w4a16_gemm:element=bf16,tile_m=16,tile_n=224\": tile_n=224: no kernel family serves it (sm80: its "
      "blocks have 256, 64 or 32 columns, not 224; sm90: 16 rows of 224 columns fit a warp's registers in fp16 "
      "of gptq and gptq_v2 with group_size=128 or all only; sm90_persistent: its tiles have 64 to 256 rows; sm75: its "
      "blocks have 256 columns, not 224); ask for "
      "a smaller tile_n or tile_m, or tile_n=256");
  EXPECT_EQ(sentence("w4a16_gemm:format=awq,tile_m=16,tile_n=224").substr(0, 164),
            "descriptor \"w4a16_gemm:format=awq,tile_m=16,tile_n=224\": tile_n=224: no kernel family serves it (sm80: "
            "its blocks "
            "have 256, 64 or 32 columns, not 224; sm90: 16 rows");
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=224,function=silu_gate"),
            "descriptor \"w4a16_gemm:tile_n=224,function=silu_gate\": tile_n=224: no kernel family serves it (sm80: "
            "its blocks have 256, 64 or 32 columns, not 224; sm90: half of 224 columns is no number of strips of 32; "
            "sm90_persistent: its tiles have 64 to 256 rows; sm75: its blocks have 256 columns, not 224); ask for a "
            "smaller tile_n or tile_m, or tile_n=256");
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=96,function=silu_gate"),
            "descriptor \"w4a16_gemm:tile_n=96,function=silu_gate\": tile_n=96: no kernel family serves it (sm80: its "
            "blocks have 256, 64 or 32 columns, not 96; sm90: half of 96 columns is no number of strips of 32; "
            "sm90_persistent: its tiles have 64 to 256 rows; sm75: its blocks have 256 columns, not 96); ask for a "
            "smaller tile_n or tile_m, or tile_n=256");
  EXPECT_EQ(
      sentence("w4a16_gemm:tile_n=192"),
      "descriptor \"w4a16_gemm:tile_n=192\": 192 is not a value of tile_n; accepted: auto, 256, 224, 160, 128, 96, 64, "
      "32");
  EXPECT_EQ(sentence("w4a16_gemm:batch_invariant=2"),
            "descriptor \"w4a16_gemm:batch_invariant=2\": 2 is not a value of batch_invariant; accepted: false, true");
  EXPECT_EQ(sentence("w4a16_gemm:speed=1"),
            "descriptor \"w4a16_gemm:speed=1\": w4a16_gemm has no field speed; accepted fields: format, bits, "
            "group_size, element, tile_m, tile_n, activation_order, function, bias, residual, layers, alignment, "
            "batch_invariant, atomic_splits, family");
}

TEST(GemmDescriptor, DenseWeightsHaveNoFieldsOfPackedOnes) {
  const auto sentence = [](const std::string& fields) {
    const std::string text = "w4a16_gemm:format=dense," + fields;
    const std::string whole = tests::refusal_of([&] { find_operator(text).canonical(text); });
    const std::string subject = "descriptor \"" + text + "\": ";
    return whole.starts_with(subject) ? whole.substr(subject.size()) : whole;
  };
  const std::string all_or = ", or ask for format=gptq, gptq_v2, awq or symmetric";
  for (const char* size : {"32", "128", "all"}) {
    EXPECT_EQ(
        sentence("tile_m=64,group_size=" + std::string(size)),
        "the field group_size applies to packed weights only, and format=dense has no groups; leave group_size out" +
            all_or);
  }
  for (const char* bits : {"4", "8"}) {
    EXPECT_EQ(sentence("tile_m=64,bits=" + std::string(bits)),
              "the field bits applies to packed weights only, and format=dense has the 16 bits of element; leave bits "
              "out" +
                  all_or);
  }
  EXPECT_EQ(
      sentence("tile_m=64,activation_order=true"),
      "the field activation_order applies to packed weights only, and format=dense has no groups that g_idx could "
      "name; leave activation_order out" +
          all_or);
  EXPECT_EQ(sentence("tile_m=64,alignment=16"),
            "the field alignment applies to format=awq only; leave alignment out or ask for format=awq");
  EXPECT_EQ(sentence("tile_m=64,family=sm80"),
            "family=sm80: there is no kernel of dense weights yet; leave family out");
  EXPECT_EQ(
      sentence("tile_m=64,batch_invariant=true,family=sm90_persistent"),
      "family=sm90_persistent: batch_invariant=true needs the same order of k in every tile; leave batch_invariant "
      "out");
  EXPECT_EQ(
      sentence("tile_m=8"),
      "format=dense: no kernel family serves it (sm80: there is no kernel of dense weights yet; sm90: there is no "
      "kernel of dense weights yet; sm90_persistent: its tiles of dense weights have 16 to 256 rows; sm75: there is no "
      "kernel of dense weights yet); ask for tile_m=16 to 256, without tile_n, batch_invariant and atomic_splits");
  EXPECT_EQ(find_operator("w4a16_gemm").canonical("w4a16_gemm:element=fp16,format=dense"), "w4a16_gemm:format=dense");
}

/// Registers that the plan counts: family sm90 counts none.
int counted_registers(const W4a16Gemm& descriptor, const codegen::Architecture& architecture, std::string_view family) {
  using namespace w4a16_gemm;
  if (family == "sm75") return sm75::make_plan(descriptor, architecture).counted_registers;
  return family == "sm80" ? sm80::make_plan(descriptor, architecture).counted_registers : 0;
}

TEST(GemmPlan, IsFreeOfBankConflictsAndFitsEveryArchitecture) {
  for (const W4a16Gemm& descriptor : tests::pairwise_gemm_descriptors()) {
    for (const char* name : kTargets) {
      const auto& architecture = codegen::find_architecture(name);
      const auto planned = plan_if_any(descriptor, name);
      if (!planned) continue;
      const tests::PlannedGemm& plan = *planned;
      const bool zeros = descriptor.format != W4Format::symmetric;
      const bool is_90 = plan.block.family == "sm90";
      const bool is_persistent = plan.block.is_persistent;
      // In family sm90 TMA makes all copies except those of zeros. In the wide kernel producer warps put activations in
      // order unless words are by n. In the narrow kernel consumer warps load activations.
      const bool puts_in_order = is_90 && descriptor.format != W4Format::awq;
      const std::size_t of_90 = 2 + (zeros ? 2 : 0) + (plan.block.k_partitions > 1 ? 1 : puts_in_order ? 2 : 0);
      // Words, outputs, and sums that are given and received. wgmma reads dense weights, and no lane does.
      const std::size_t of_persistent = descriptor.is_dense() ? 3 : 4;
      EXPECT_EQ(plan.report().proofs.size(), is_90                         ? of_90
                                             : is_persistent               ? of_persistent
                                             : descriptor.activation_order ? 4u
                                             : zeros                       ? 8u
                                                                           : 6u)
          << descriptor.text();
      for (const auto& proof : plan.report().proofs) {
        // Loads of words, and the narrow kernel's loads of the activations that meet the words.
        const bool is_load_by_k =
            proof.access == "loads of words" || (plan.block.k_partitions > 1 && proof.access == "loads of activations");
        const bool is_of_small_groups = puts_in_order && descriptor.group_size == 32 && is_load_by_k;
        EXPECT_EQ(proof.degree, is_of_small_groups ? 2 : 1) << descriptor.text() << proof.access;
      }
      EXPECT_GE(plan.block.stages, plan.block.family == "sm75" ? 1 : 2);
      EXPECT_LE(counted_registers(descriptor, architecture, plan.block.family), architecture.registers_per_thread);
      EXPECT_GE(plan.block.blocks_per_sm, 1);
      EXPECT_LE(plan.block.shared_memory, architecture.shared_memory_per_block);
      int end = 0;
      for (const MemoryRegion& region : plan.report().memory) {
        if (region.phase != "loop") continue;
        EXPECT_GE(region.offset, end) << region.name;
        end = region.offset + region.bytes;
      }
      EXPECT_LE(end, plan.block.shared_memory);
      EXPECT_GT(end, plan.block.shared_memory - 128) << "regions begin at bank 0";
    }
  }
}

/// Requires a block of family sm90 or sm90_persistent.
gemm::sm90::Producers producers_of(const gemm::BlockPlan& block, const codegen::Architecture& architecture) {
  using namespace w4a16_gemm;
  const W4a16Gemm descriptor = parse(block.descriptor.text);
  if (block.is_persistent)
    return {.registers = gemm::sm90_persistent::kProducerRegisters,
            .consumer_registers = gemm::sm90_persistent::kConsumerRegisters};
  return is_narrow(descriptor) ? sm90::make_narrow_plan(descriptor, architecture).producers
                               : sm90::make_wide_plan(descriptor, architecture).producers;
}

TEST(GemmPlan, RegistersThatChangeHandsAreTheBlocksOwn) {
  int transfers = 0;
  for (const W4a16Gemm& descriptor : tests::pairwise_gemm_descriptors()) {
    for (const char* name : kTargets) {
      const auto& architecture = codegen::find_architecture(name);
      const auto plan = plan_if_any(descriptor, name);
      if (!plan || (plan->block.family != "sm90" && !plan->block.is_persistent)) continue;
      const auto producers = producers_of(plan->block, architecture);
      const int consumers = plan->block.k_partitions * plan->block.warps;
      tests::expect_block_has_registers(architecture, consumers, producers.consumer_registers,
                                        plan->block.threads / 32 - consumers, producers.registers,
                                        descriptor.text() + " for " + name);
      ++transfers;
    }
  }
  EXPECT_GT(transfers, 0);
}

std::string family_of(std::string_view text, const char* architecture) {
  return plan_of(text, architecture).report().family;
}

TEST(GemmPlan, FamilySm90IsChosenWhereItIsFasterAndByName) {
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=16,tile_n=256", "sm_90a"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=32,tile_n=256", "sm_90a"), "sm90_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=64,tile_n=256", "sm_90"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=64,tile_n=256", "sm_120"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=8,tile_n=256,family=sm90", "sm_90a"), "sm90_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=64,tile_n=256,family=sm80", "sm_90a"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=64,tile_n=256,batch_invariant=true", "sm_90a"), "sm80_w4a16_gemm")
      << "every tile gives the same bits";
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=32,bits=8,tile_n=256", "sm_90a"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=32,tile_n=256,activation_order=true", "sm_90a"), "sm80_w4a16_gemm");
  EXPECT_EQ(family_of("w4a16_gemm:tile_m=64,tile_n=256,activation_order=true", "sm_90a"), "sm90_persistent_w4a16_gemm");
  try {
    plan_of("w4a16_gemm:family=sm90", "sm_100a");
    FAIL() << "sm_100a has no wgmma";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "w4a16_gemm:family=sm90 for sm_100a: family=sm90: it needs wgmma, which sm_90a alone has; accepted: "
                 "sm_90a, or leave family out");
  }
}

TEST(GemmPlan, FamilySm75RunsEverywhereAndIsChosenWhereNoOtherDoes) {
  for (const codegen::Architecture& architecture : codegen::architectures()) {
    const bool is_75 = architecture.name == "sm_75";
    for (const char* tile : {"8", "16", "32", "64"}) {
      const std::string text = std::string("w4a16_gemm:tile_n=256,tile_m=") + tile;
      EXPECT_EQ(family_of(text + ",family=sm75", architecture.name.data()), "sm75_w4a16_gemm") << architecture.name;
      EXPECT_EQ(family_of(text, architecture.name.data()) == "sm75_w4a16_gemm", is_75) << architecture.name;
    }
  }
}

std::string refusal_of(std::string_view text, const char* architecture) {
  try {
    plan_of(text, architecture);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::unsupported);
    return failure.what();
  }
  return "accepted";
}

TEST(GemmPlan, RefusesAnArchitectureWithoutItsInstructions) {
  EXPECT_EQ(refusal_of("w4a16_gemm:element=bf16", "sm_75"),
            "w4a16_gemm:element=bf16 for sm_75: no kernel family runs there (sm80_w4a16_gemm: it needs cp.async, which "
            "sm_80 brought; sm90_w4a16_gemm: it needs wgmma, which sm_90a alone has; "
            "sm90_persistent_w4a16_gemm: it needs wgmma, which sm_90a alone has; sm75_w4a16_gemm: it multiplies fp16 "
            "alone, as the tensor cores of sm_75 do); accepted: sm_80 and later; tile_n=96 to 224, tile_m=80 to 256 "
            "and format=dense on sm_90a; sm_75 with element=fp16 and without tile_n");
  EXPECT_EQ(
      refusal_of("w4a16_gemm:family=sm80", "sm_75"),
      "w4a16_gemm:family=sm80 for sm_75: family=sm80: it needs cp.async, which sm_80 brought; accepted: sm_80 and "
      "later, or leave family out");
}

/// The registers hold a block's next stage, including the scales and zeros of the stage's groups.
TEST(GemmPlan, FamilySm75HoldsTheNextStageInRegisters) {
  for (const W4a16Gemm& descriptor : tests::pairwise_gemm_descriptors_of("sm75")) {
    const auto plan = plan_of(descriptor.text(), "sm_75");
    const auto& tiles = plan.block.tiles;
    const int held = w4a16_gemm::sm75::make_plan(descriptor, codegen::find_architecture("sm_75")).held_registers;
    const int bytes = tiles.words.size() + tiles.activations.rows * tiles.activations.row_bytes;
    EXPECT_GE(4 * held * plan.block.threads, bytes) << descriptor.text();
    EXPECT_LE(4 * held * plan.block.threads, bytes + 4 * 8 * plan.block.threads) << descriptor.text();
    EXPECT_EQ(plan.block.stages, 1);
    EXPECT_EQ(plan.report().decisions.back().name, "copies in registers");
  }
  EXPECT_NE(plan_of("w4a16_gemm:tile_m=16,tile_n=256,family=sm80").report().decisions.back().name,
            "copies in registers");
}

TEST(GemmPlan, SaysWhyOtherFamiliesWereNotChosen) {
  for (const char* name : kTargets) {
    for (const char* text : {"w4a16_gemm:tile_m=16,tile_n=256", "w4a16_gemm:tile_m=64,tile_n=256",
                             "w4a16_gemm:tile_m=16,tile_n=256,family=sm75"}) {
      const auto plan = plan_of(text, name);
      ASSERT_EQ(plan.report().rejections.size(), 3u);
      for (const Rejection& rejection : plan.report().rejections) {
        EXPECT_NE(rejection.family, plan.report().family);
        EXPECT_FALSE(rejection.why.empty());
      }
    }
  }
}

TEST(GemmPlan, GivesAReasonForEveryDecision) {
  const auto plan = plan_of("w4a16_gemm:format=awq,element=bf16,tile_m=64,tile_n=256");
  EXPECT_GE(plan.report().decisions.size(), 10u);
  for (const Decision& decision : plan.report().decisions)
    EXPECT_FALSE(decision.name.empty() || decision.value.empty() || decision.why.empty()) << decision.name;
}

TEST(GemmPlan, EveryPairOfFieldValuesCompilesWithoutSpills) {
  std::string why;
  const auto compiler = tests::machine_nvrtc(why);
  if (compiler == nullptr) GTEST_SKIP() << "no compiler: " << why;
  // Each family has pairs of its own. The descriptors are compiled for the architectures that have the family, in turn.
  // Family sm75 is compiled for sm_75, and with 64 rows, which leave the fewest registers, for a later architecture
  // too.
  std::vector<std::pair<std::string, const char*>> items;
  std::size_t next = 0;
  for (const std::string_view family : {"sm75", "sm80", "sm90", "sm90_persistent"}) {
    for (const W4a16Gemm& one : tests::pairwise_gemm_descriptors_of(family)) {
      if (family == "sm75") items.emplace_back(one.text(), "sm_75");
      if (family == "sm75" && one.tile_m < 64) continue;
      while (next % std::size(kTargets) == 0 || !plan_if_any(one, kTargets[next % std::size(kTargets)])) ++next;
      items.emplace_back(one.text(), kTargets[next++ % std::size(kTargets)]);
    }
  }
  tests::keep_sample(items, [](const auto& item) { return item.first + " " + item.second; });
  std::vector<std::string> troubles(items.size());
  parallel_for(std::ssize(items), [&](std::int64_t i) {
    const auto& [text, architecture] = items[i];
    const auto made = find_operator(text).specialise(text, codegen::find_architecture(architecture));
    const auto compiled = compiler->compile(made->source());
    const int spills = compiled.resources.spill_load_bytes + compiled.resources.spill_store_bytes;
    const auto plan = plan_of(text, architecture);
    const bool changes_hands = plan.block.family == "sm90" || plan.block.is_persistent;
    const int at_launch = tests::registers_at_launch(codegen::find_architecture(architecture), plan.block.threads);
    const bool miscounted = changes_hands && compiled.resources.registers != at_launch;
    const int allowed = plan.report().spills_allowed_because.empty() ? 0 : gemm::sm75::kMostSpilledBytes;
    if (spills > allowed || miscounted || compiled.resources.static_shared_memory > 0) {
      troubles[i] =
          fmt::format("{} for {}: {} bytes of spills, {} of static shared memory, {} registers", text, architecture,
                      spills, compiled.resources.static_shared_memory, compiled.resources.registers);
    }
  });
  for (const std::string& trouble : troubles) EXPECT_EQ(trouble, "");
}

}  // namespace
}  // namespace cubit::ops
