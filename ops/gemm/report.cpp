// The common parts of what `explain` says about a plan.
#include "ops/gemm/report.hpp"

#include <fmt/format.h>

#include <utility>

#include "codegen/fragments.hpp"

namespace cubit::ops::gemm {
namespace {

std::string layout_text(const codegen::TileLayout& layout) {
  if (layout.swizzle.bits == 0) return fmt::format("row pitch of {} bytes, no swizzle", layout.pitch);
  return fmt::format("row pitch of {} bytes, swizzle of {} bits, from bit {} onto bit {}", layout.pitch,
                     layout.swizzle.bits, layout.swizzle.shift_from, layout.swizzle.base);
}

Decision decomposition_of_narrow_blocks(const BlockPlan& block) {
  if (block.splits_k) {
    return {
        "decomposition", "chosen at launch, from m, n, k and the device alone",
        "a block has all of k, unless the tiles leave multiprocessors idle: then blocks split k, and their sums are "
        "added in order"};
  }
  return {"decomposition", "all of k in a block",
          "as tile_n asks: no partial sums pass through the L2, but every block reads all activations of its rows"};
}

}  // namespace

Decision mma_sync_tile_decision(const BlockPlan& block) {
  const std::string value = fmt::format("{} columns x {} rows", block.descriptor.tile_n, block.descriptor.tile_m);
  const std::string operands =
      "weights are the A operand, whose M is 16, and rows are its N of 8, so that few rows "
      "waste little; ";
  return {"tile", value,
          operands + (is_narrow(block.descriptor)
                          ? "few columns, as tile_n asks, so that a block can have all of k"
                          : "many columns, because each block reads the activations of its rows again")};
}

Decision tile_m_decision(const GemmDescriptor& descriptor) {
  return {"tile_m", std::to_string(descriptor.tile_m),
          "as the descriptor asks: registers and the loop depend on tile_m, so tile_m is no launch argument. The "
          "fastest value is mostly the smallest that holds the rows, up to 64, or up to 256 in family sm90_persistent "
          "(ask cubit suggest); more rows are more blocks, which find most weights in the L2"};
}

Decision decomposition_decision(const BlockPlan& block) {
  if (is_narrow(block.descriptor)) return decomposition_of_narrow_blocks(block);
  if (block.descriptor.batch_invariant) {
    return {"decomposition", "split-K slices that follow from n and k alone",
            "so a row's sum is added up in the same order whatever the other rows are; where tiles alone fill the "
            "device a block computes all slices of its tiles one after another"};
  }
  return {"decomposition", "chosen at launch, from m, n, k and the device alone",
          fmt::format("data-parallel where its blocks fill the device, else split-K, or balanced shares of all tiles "
                      "(stream-K); partial sums are added in order{}{}",
                      block.has_clusters ? ", and an even number of slices first in 2-CTA clusters" : "",
                      block.descriptor.atomic_splits
                          ? "; where a launch asks for that, by atomics in the order in which the sums arrive"
                          : "")};
}

Decision merge_decision(const BlockPlan& block, int merged_tiles) {
  if (is_narrow(block.descriptor)) {
    return {"merge of partial sums", fmt::format("of {} warps", block.k_partitions * block.warps),
            block.splits_k ? "once, in shared memory; where blocks split k, their sums follow through the L2"
                           : "once, in shared memory"};
  }
  return {"merge of partial sums", fmt::format("{} x 8 rows of 32 columns at once", merged_tiles),
          fmt::format("of up to {} split-K slices: as many loads in flight as the loop's registers hold once the loop "
                      "is over",
                      merged_tiles > 2 ? "four" : "eight")};
}

std::vector<Decision> layout_decisions(const StageTiles& tiles, const char* why) {
  return {{"layout of words", layout_text(tiles.words), why},
          {"layout of activations", layout_text(tiles.activations), why}};
}

void add_tiles(PlanReport& report, const BlockPlan& block, StageAccesses accesses) {
  const StageTiles& tiles = block.tiles;
  add_tile(report, {"words of a stage", tiles.words, std::move(accesses.words)});
  add_tile(report, {"activations of a stage", tiles.activations, std::move(accesses.activations)});
  if (!block.descriptor.groups || has_indexed_groups(block.descriptor)) return;
  add_tile(report, {"scales", tiles.scales, std::move(accesses.scales)});
  if (stores_zeros(block.descriptor)) add_tile(report, {"zeros", tiles.zeros, std::move(accesses.zeros)});
}

void add_region(PlanReport& report, std::string name, int offset, int bytes) {
  report.memory.push_back({"loop", "block", std::move(name), offset, bytes});
}

void add_scale_regions(PlanReport& report, const BlockPlan& block, const std::string& prefix, int base) {
  const StageTiles& tiles = block.tiles;
  add_region(report, prefix + "scales", base, tiles.scales.size());
  if (stores_zeros(block.descriptor))
    add_region(report, prefix + "zeros", base + tiles.zeros_at(0), tiles.zeros.size());
}

void add_decisions(PlanReport& report, const std::vector<Decision>& decisions) {
  report.decisions.insert(report.decisions.end(), decisions.begin(), decisions.end());
}

void add_fragments(PlanReport& report, const std::vector<const char*>& names) {
  for (const char* name : names) report.fragments.emplace_back(codegen::find_fragment(name).name);
}

void add_mma_sync_fragments(PlanReport& report, const GemmDescriptor& descriptor,
                            const codegen::Architecture& architecture) {
  const codegen::MmaShape shape = mma_shape(descriptor, architecture);
  const std::string mma = fmt::format("mma.m{}n{}k{}", shape.m, shape.n, shape.k);
  const int bits = descriptor.activation_bits;
  for (const std::string& name :
       {fmt::format("{} A, {}-bit", mma, bits), fmt::format("{} B, {}-bit", mma, bits), mma + " C, 32-bit"})
    report.fragments.emplace_back(codegen::find_fragment(name).name);
}

}  // namespace cubit::ops::gemm
