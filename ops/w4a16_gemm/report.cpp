// What `explain` says of a plan: every decision with its reason, the proof of every shared-memory access of the loop
// and of the merge of a block's warps, the fragments.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/fragments.hpp"
#include "ops/text.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

std::string layout_text(const codegen::TileLayout& layout) {
  if (layout.swizzle.bits == 0) return fmt::format("{} from row to row, no swizzle", layout.pitch);
  return fmt::format("{} from row to row, swizzle of {} bits, from bit {} onto bit {}", layout.pitch,
                     layout.swizzle.bits, layout.swizzle.shift_from, layout.swizzle.base);
}

bool is_sm90(const Plan& plan) { return plan.family == "sm90"; }
bool is_sm75(const Plan& plan) { return plan.family == "sm75"; }

Decision tile_decision(const Plan& plan) {
  if (is_sm90(plan) && plan.teams == 1) {
    return {
        "tile", fmt::format("{} columns x {} rows", plan.descriptor.tile_n, plan.descriptor.tile_m),
        "weights are the A operand of wgmma, from registers, and all rows its B operand, where the copy has left them"};
  }
  return {"tile", fmt::format("{} columns x {} rows", plan.descriptor.tile_n, plan.descriptor.tile_m),
          plan.teams > 1
              ? "weights are the A operand, whose M is 16, and rows its N of 8, so that few rows waste little; few "
                "columns, as tile_n asks, so that a block can have all of k"
              : "weights are the A operand, whose M is 16, and rows its N of 8, so that few rows waste little; wide "
                "in columns, because each block reads the activations of its rows anew"};
}

Decision tile_m_decision(const Plan& plan) {
  return {"tile_m", std::to_string(plan.descriptor.tile_m),
          "as the descriptor asks: registers and the loop depend on it, so it is no launch argument. Best is mostly "
          "the smallest that holds the rows, up to 64 (ask cubit suggest); more rows are more blocks, which find most "
          "weights in the L2"};
}

Decision operand_decision(const W4a16Gemm& descriptor) {
  if (descriptor.activation_order) {
    return {"operands",
            descriptor.element == Element::fp16 ? "fp16, dequantised in two terms" : "bf16, dequantised in two terms",
            "neighbouring k's share neither scale nor zero, so neither can wait for the end of a group"};
  }
  if (descriptor.bits == 8 && descriptor.element == Element::fp16) {
    return {"operands", "fp16, byte less zero",
            "as the low byte of 1024 a byte is added to it; one packed addition takes off 1024 and the zero, exactly"};
  }
  if (descriptor.bits == 8) {
    return {"operands", "bf16, byte less zero",
            "a bf16 has too few bits for a power and a byte, so the float 2^23 takes the byte; less 2^23 and the zero "
            "it is a whole number up to 256, which is a bf16 as it stands"};
  }
  if (descriptor.element == Element::fp16) {
    return {"operands", "fp16, nibble less zero",
            "or-ed into the bits of 1024 a nibble is added to it; one packed addition takes off 1024 and the zero, "
            "exactly, and every second shift is a multiplication by 1/16 in the same instruction"};
  }
  return {
      "operands", "bf16, nibble less zero",
      "or-ed into the bits of 128 a nibble is added to it; one packed addition takes off 128 and the zero, exactly"};
}

Decision zero_decision(const Plan& plan) {
  if (plan.descriptor.activation_order) {
    return {"scales and zeros", "read by every lane from global memory",
            "a row for each k would be five times the bytes of its words; those of few groups stay in the caches"};
  }
  return {"zeros", fmt::format("{}{}", stores_zeros(plan.descriptor) ? "stored + " : "", zero_offset(plan.descriptor)),
          "taken off in the operand: at most two packed instructions per pair, where sums of activations would be a "
          "product with ones in every warp"};
}

Decision order_decision(const Plan& plan) {
  const W4a16Gemm& descriptor = plan.descriptor;
  if (reorders_activations(plan)) {
    return {"word order",
            "all blocks put activations in pairs (j, j + 4) once per launch, in the workspace; of its first stages a "
            "block does so itself",
            "so a word of 8 k's is an operand after two instructions per pair; with so many rows it would cost more if "
            "every block did so for all stages"};
  }
  if (is_sm90(plan) && plan.teams == 1 && descriptor.format != W4Format::awq) {
    return {"word order", "three warps put activations in pairs (j, j + 4)",
            "so a word of 8 k's is an operand after two instructions per pair, and nobody waits for it: stages ahead"};
  }
  if (descriptor.format == W4Format::awq) {
    return {"word order", "ldmatrix.trans puts two k's of four columns side by side",
            "a nibble of each half is then a pair along k; neighbouring columns are put in order once, at the end"};
  }
  if (descriptor.bits == 8) {
    return {"word order", "as they lie: two words of a column are 8 neighbouring k's",
            "a permutation puts two bytes into a pair, in any order"};
  }
  return {"word order", "activations are picked in pairs (j, j + 4)",
          "so a word of 8 k's is an operand after two instructions per pair"};
}

Decision warp_decision(const Plan& plan) {
  if (has_copied_teams(plan)) {
    return {"warps", fmt::format("{} that multiply, {} that copy", plan.teams, plan.copy_warps),
            fmt::format("the former each with all rows and columns of the block, which pick activations once for all "
                        "columns, and every {}th stage; all stages are in one ring",
                        plan.teams)};
  }
  if (is_sm90(plan)) {
    return {"warps", fmt::format("{} that multiply, {} that copy", plan.warps, plan.copy_warps),
            fmt::format("four multiply 128 columns together, in two tiles that take turns; one copies, three put "
                        "activations in order where words want it{}; the latter give registers: {} and {} per thread",
                        reorders_activations(plan) ? ", those of the first stages" : "", plan.multiply_registers,
                        plan.copy_registers)};
  }
  if (plan.teams > 1) {
    return {"warps", std::to_string(plan.teams),
            "each with all rows and columns of the block, and its own part of k and ring of stages: none waits for "
            "another before the end, where they add their sums in shared memory"};
  }
  if (plan.warps < gemm_lanes::kStrips) {
    return {"warps", std::to_string(plan.warps),
            "each with all rows of two strips of 32 columns: activations are picked once for both"};
  }
  return {"warps", std::to_string(plan.warps),
          "each with all rows of a strip of 32 columns: two strips would not fit a warp's registers"};
}

Decision copy_decision(const Plan& plan) {
  if (is_sm90(plan)) return {"copy of words", "boxes by tensor maps", "no instructions of the warps that multiply"};
  return {"copy of words", fmt::format("{} bytes per thread", plan.copy_bytes),
          plan.copy_bytes == 16 ? fmt::format("the widest that {} has", is_sm75(plan) ? "a load" : "cp.async")
                                : fmt::format("alignment={}", plan.copy_bytes)};
}

/// Family sm75.
Decision held_decision(const Plan& plan) {
  return {"copies in registers", fmt::format("{} registers of a thread", plan.held_registers),
          "without cp.async the next stage waits in registers while one is used, and is stored after it"};
}

Decision stages_decision(const Plan& plan) {
  if (is_sm90(plan)) {
    return {"stages", std::to_string(plan.stages),
            plan.teams > 1 ? fmt::format("of {} bytes, each copying warp as many as the others: more than the memory's "
                                         "latency wants keep it from other blocks",
                                         plan.stage_bytes() + plan.factor_bytes())
                           : fmt::format("of {} bytes: as many as shared memory holds", plan.stage_bytes())};
  }
  if (is_sm75(plan)) {
    return {"stages", std::to_string(plan.stages),
            fmt::format("of {} bytes: the next one is in registers, and a second one would take the room of a block",
                        plan.stage_bytes())};
  }
  return {"stages", std::to_string(plan.stages),
          fmt::format("of {} bytes: {} KiB in flight per SM ({} wanted) at {}", plan.stage_bytes(),
                      plan.blocks_per_sm * plan.teams * (plan.stages - 1) * plan.stage_bytes() / 1024,
                      kBytesInFlight / 1024, counted(plan.blocks_per_sm, "block"))};
}

Decision block_decision(const Plan& plan, const codegen::Architecture& architecture) {
  if (is_sm90(plan)) {
    return {"blocks_per_sm", "1", fmt::format("its ring takes {} bytes of shared memory", plan.shared_memory)};
  }
  const int allowed = std::min(architecture.registers_per_thread,
                               architecture.registers_per_sm / (plan.threads() * plan.blocks_per_sm) / 8 * 8);
  return {"blocks_per_sm", std::to_string(plan.blocks_per_sm),
          fmt::format(
              "{} bytes of shared memory each, and {} registers allowed per thread where the loop keeps about {} live",
              plan.shared_memory, allowed, plan.counted_registers)};
}

Decision merge_decision(const Plan& plan) {
  if (plan.teams > 1) {
    return {"merge of parts", fmt::format("of {} teams", plan.teams),
            shares_k(plan) ? "once, in shared memory; where blocks share k, then theirs through the L2"
                           : "once, in shared memory"};
  }
  return {"merge of parts", fmt::format("{} x 8 rows of 32 columns at once", plan.merged_tiles),
          fmt::format("of up to {} parts: as many loads in flight as the registers of the loop hold once it is over",
                      plan.merged_tiles > 2 ? "four" : "eight")};
}

Decision decomposition_decision(const Plan& plan) {
  const W4a16Gemm& descriptor = plan.descriptor;
  if (plan.teams > 1) {
    if (shares_k(plan)) {
      return {"decomposition", "chosen at launch, from m, n, k and the device alone",
              "all of k in a block, but for tiles that leave multiprocessors idle: blocks share k, and their sums are "
              "added in order"};
    }
    return {"decomposition", "all of k in a block",
            "as tile_n asks: no sums travel through the L2, but every block reads all activations of its rows"};
  }
  if (descriptor.batch_invariant) {
    return {"decomposition", "parts of k from n and k alone",
            "so a row's sum is added up in the same order whatever the other rows; where tiles alone fill the device a "
            "block computes all parts of its tiles one after another"};
  }
  return {
      "decomposition", "chosen at launch, from m, n, k and the device alone",
      fmt::format("data-parallel where its blocks fill the device, else blocks share k, or have even shares of all "
                  "tiles; sums are added in order{}",
                  has_pairs(plan) ? ", those of an even number of parts first in clusters of two blocks" : "") +
          (descriptor.atomic_splits ? "; where a launch asks for it, by atomics in the order in which they come" : "")};
}

std::vector<MemoryRegion> memory_map(const Plan& plan) {
  std::vector<MemoryRegion> map;
  const bool whole = plan.descriptor.group_size == 0;
  const auto add = [&](std::string name, int offset, int bytes) {
    map.push_back({"loop", "block", std::move(name), offset, bytes});
  };
  const auto add_factors = [&](const std::string& prefix, int base) {
    add(prefix + "scales", base, plan.scales.size());
    if (!stores_zeros(plan.descriptor)) return;
    add(prefix + "zeros", base + plan.zeros_at() - plan.scales_at(), plan.zeros.size());
  };
  const int rings = is_sm90(plan) ? 1 : plan.teams;
  for (int team = 0; team < rings; ++team) {
    const int ring = team * plan.ring_bytes(plan.stages);
    const std::string owner = rings > 1 ? fmt::format("team {}: ", team) : "";
    for (int i = 0; i < plan.stages; ++i) {
      const int base = ring + i * plan.stage_bytes();
      const std::string stage = fmt::format("{}stage {}: ", owner, i);
      add(stage + "words", base, plan.words.size());
      add(stage + "activations", base + plan.activations_at(), plan.activations.size());
      if (has_copied_teams(plan)) continue;
      if (is_sm90(plan) || stages_factors(plan.descriptor)) add_factors(stage, base + plan.scales_at());
    }
    if (!is_sm90(plan) && whole) add_factors(owner, ring + plan.stages * plan.stage_bytes());
  }
  for (int i = 0; has_copied_teams(plan) && i < plan.stages; ++i)
    add_factors(fmt::format("stage {}: ", i), plan.stages * plan.stage_bytes() + i * plan.factor_bytes());
  if (is_sm90(plan)) {
    add("barriers", plan.barriers_at(plan.stages), plan.barrier_bytes(plan.stages));
    if (plan.ups_at(plan.stages) < plan.shared_memory)
      add(plan.teams > 1 ? "sums of the teams" : "sums of the second columns", plan.ups_at(plan.stages),
          plan.shared_memory - plan.ups_at(plan.stages));
  }
  return map;
}

void add_fragments(Plan& plan, const codegen::Architecture& architecture) {
  const bool by_n = plan.descriptor.format == W4Format::awq;
  std::vector<const char*> names = {"mma.m16n8k16 A, 16-bit", "mma.m16n8k16 B, 16-bit", "mma.m16n8k16 C, 32-bit"};
  if (!architecture.has_mma({16, 8, 16, codegen::MmaType::fp16}))
    names = {"mma.m16n8k8 A, 16-bit", "mma.m16n8k8 B, 16-bit", "mma.m16n8k8 C, 32-bit"};
  if (is_sm90(plan) && plan.teams == 1) names = {"wgmma.m64k16 A, 16-bit", "wgmma.m64n8 D, 32-bit"};
  if (by_n && (!is_sm90(plan) || has_copied_teams(plan))) names.push_back("ldmatrix.x4");
  if (by_n) names.push_back("ldmatrix.x4.trans");
  for (const char* name : names) plan.report.fragments.emplace_back(codegen::find_fragment(name).name);
}

}  // namespace

void write_report(Plan& plan, const codegen::Architecture& architecture) {
  PlanReport& report = plan.report;
  add_tile(report, {"words of a stage", plan.words, word_accesses(plan)});
  add_tile(report, {"activations of a stage", plan.activations, activation_accesses(plan)});
  const bool has_factors = !plan.descriptor.activation_order;
  if (has_factors) add_tile(report, {"scales", plan.scales, scale_accesses(plan)});
  if (has_factors && stores_zeros(plan.descriptor)) add_tile(report, {"zeros", plan.zeros, zero_accesses(plan)});
  report.memory = memory_map(plan);
  const char* const searched = !is_sm90(plan) ? "the simplest layout with the fewest wavefronts over the accesses below"
                               : plan.words.swizzle.bits > 0
                                   ? "as the boxes of a tensor map are, swizzled within their rows"
                                   : "as the boxes of a tensor map are; rows are an odd number of 16 bytes";
  report.decisions = {tile_decision(plan),
                      tile_m_decision(plan),
                      operand_decision(plan.descriptor),
                      zero_decision(plan),
                      order_decision(plan),
                      warp_decision(plan),
                      copy_decision(plan),
                      {"layout of words", layout_text(plan.words), searched},
                      {"layout of activations", layout_text(plan.activations), searched},
                      stages_decision(plan),
                      block_decision(plan, architecture),
                      decomposition_decision(plan),
                      merge_decision(plan)};
  if (is_sm75(plan)) report.decisions.push_back(held_decision(plan));
  if (is_sm75(plan) && plan.descriptor.tile_m > 32 && architecture.cp_async) {
    report.spills_allowed_because = fmt::format(
        "for a device with cp.async the compiler may want a few registers more than 64 rows and copies leave, up to {} "
        "bytes of stores and loads; family sm80 is there",
        kMostSpilledBytes);
  }
  add_fragments(plan, architecture);
}

}  // namespace cubit::ops::w4a16_gemm
