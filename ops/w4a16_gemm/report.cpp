// The common parts of what `explain` says about a plan.
#include "ops/w4a16_gemm/report.hpp"

#include <fmt/format.h>

#include <utility>

#include "codegen/fragments.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

std::string layout_text(const codegen::TileLayout& layout) {
  if (layout.swizzle.bits == 0) return fmt::format("row pitch of {} bytes, no swizzle", layout.pitch);
  return fmt::format("row pitch of {} bytes, swizzle of {} bits, from bit {} onto bit {}", layout.pitch,
                     layout.swizzle.bits, layout.swizzle.shift_from, layout.swizzle.base);
}

Decision byte_operand_decision(Element element) {
  if (element == Element::fp16) {
    return {"operands", "fp16, byte less zero",
            "written into the low byte of 1024 the byte is added to 1024; one packed addition removes 1024 and the "
            "zero exactly"};
  }
  return {"operands", "bf16, byte less zero",
          "a bf16 has too few bits for a power of two plus a byte, so the float 2^23 takes the byte; less 2^23 and the "
          "zero the result is a whole number up to 256, which bf16 represents exactly"};
}

Decision nibble_operand_decision(Element element) {
  if (element == Element::fp16) {
    return {"operands", "fp16, nibble less zero",
            "or-ed into the bits of 1024 the nibble is added to 1024; one packed addition removes 1024 and the zero "
            "exactly, and every second shift becomes a multiplication by 1/16 in the same instruction"};
  }
  return {"operands", "bf16, nibble less zero",
          "or-ed into the bits of 128 the nibble is added to 128; one packed addition removes 128 and the zero "
          "exactly"};
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

Decision tile_m_decision(const W4a16Gemm& descriptor) {
  return {"tile_m", std::to_string(descriptor.tile_m),
          "as the descriptor asks: registers and the loop depend on tile_m, so tile_m is no launch argument. The "
          "fastest value is mostly the smallest that holds the rows, up to 64, or up to 256 in family sm90_persistent "
          "(ask cubit suggest); more rows are more blocks, which find most weights in the L2"};
}

Decision operand_decision(const W4a16Gemm& descriptor) {
  if (descriptor.activation_order) {
    return {"operands",
            descriptor.element == Element::fp16 ? "fp16, dequantised in two terms" : "bf16, dequantised in two terms",
            "neighbouring k's share neither scale nor zero, so neither can be applied at the end of a group"};
  }
  return descriptor.bits == 8 ? byte_operand_decision(descriptor.element) : nibble_operand_decision(descriptor.element);
}

Decision zero_decision(const W4a16Gemm& descriptor) {
  if (descriptor.activation_order) {
    return {"scales and zeros", "read by every lane from global memory",
            "a row for each k would be five times the bytes of its words; the rows of a few groups stay in the caches"};
  }
  return {"zeros", fmt::format("{}{}", stores_zeros(descriptor) ? "stored + " : "", zero_offset(descriptor)),
          "subtracted in the operand: at most two packed instructions per pair of weights, where sums of activations "
          "would cost every warp a product with ones"};
}

Decision word_order_decision(const W4a16Gemm& descriptor) {
  if (has_words_by_n(descriptor)) {
    return {"word order", "ldmatrix.trans puts two k's of four columns side by side",
            "a nibble of each half is then a pair along k; neighbouring columns are put in order once, at the end"};
  }
  if (descriptor.bits == 8) {
    return {"word order", "as stored: two words of a column are 8 neighbouring k's",
            "a byte permutation puts two bytes into a pair, in any order"};
  }
  return {"word order", "activations are loaded in pairs (j, j + 4)",
          "so a word of 8 k's becomes an operand after two instructions per pair"};
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
  if (block.descriptor.activation_order) return;
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

void add_fragments(PlanReport& report, const std::vector<const char*>& names) {
  for (const char* name : names) report.fragments.emplace_back(codegen::find_fragment(name).name);
}

std::vector<const char*> mma_sync_fragments(const W4a16Gemm& descriptor, const codegen::Architecture& architecture) {
  std::vector<const char*> names = {"mma.m16n8k16 A, 16-bit", "mma.m16n8k16 B, 16-bit", "mma.m16n8k16 C, 32-bit"};
  if (!architecture.has_mma({16, 8, 16, codegen::MmaType::fp16}))
    names = {"mma.m16n8k8 A, 16-bit", "mma.m16n8k8 B, 16-bit", "mma.m16n8k8 C, 32-bit"};
  if (has_words_by_n(descriptor)) names.insert(names.end(), {"ldmatrix.x4", "ldmatrix.x4.trans"});
  return names;
}

}  // namespace cubit::ops::w4a16_gemm
