// What `explain` says about a plan of family sm90_persistent.
#include "ops/w4a16_gemm/report.hpp"

#include <fmt/format.h>

#include "ops/w4a16_gemm/sm90_persistent/sm90_persistent.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::sm90_persistent {
namespace {

Decision tile_decision(const W4a16Gemm& descriptor) {
  return {
      "tile", fmt::format("{} columns x {} rows for a cluster of two blocks", descriptor.tile_n, descriptor.tile_m),
      fmt::format("weights are the A operand of wgmma, from {}, 64 columns per consumer warpgroup; all rows are the "
                  "B operand, in shared memory, where the copy has put them",
                  descriptor.is_dense() ? "shared memory" : "registers")};
}

Decision dense_operands_of(const W4a16Gemm& descriptor) {
  return {"operands", fmt::format("{} as stored", descriptor.element == Element::fp16 ? "fp16" : "bf16"),
          descriptor.is_gated() ? "a box interleaves 8 gate columns with their 8 up-projection columns, so that a lane "
                                  "has a gate and its up-projection"
                                : "wgmma reads the rows of weights as the copy leaves them"};
}

Decision operands_of(const W4a16Gemm& descriptor) {
  const bool is_fp16 = descriptor.element == Element::fp16;
  return {
      "operands", fmt::format("{}, nibble less zero", is_fp16 ? "fp16" : "bf16"),
      fmt::format("or-ed into the bits of {0} the nibble is added to {0}; one packed instruction removes {0} and the "
                  "zero exactly",
                  is_fp16 ? 1024 : 128)};
}

Decision scales_of(const W4a16Gemm& descriptor) {
  if (descriptor.group_size == 0) return {"scales", "applied to the sums", "a column has one scale"};
  return {"scales", "sums are in units of the current group's scale",
          "where the next group begins, sums are multiplied by the old scale divided by the new one, so that no weight "
          "is rounded and groups need no accumulators of their own"};
}

Decision zeros_of(const W4a16Gemm& descriptor) {
  return {"zeros", fmt::format("{}{}", stores_zeros(descriptor) ? "stored + " : "", zero_offset(descriptor)),
          "read with the scales by the lanes that need them, at least one stage ahead"};
}

Decision word_order(const W4a16Gemm& descriptor) {
  if (has_words_by_n(descriptor)) {
    return {"word order", "ldmatrix.trans puts two k's of four columns side by side",
            "a nibble of each half is then a pair along k; lanes exchange outputs, so that each stores neighbouring "
            "columns"};
  }
  return {"word order", "activations in natural order; a lane has one byte of each word",
          "a byte is a pair along k, as the A operand needs it, so that nobody reorders activations"};
}

Decision warp_decision(const W4a16Gemm& descriptor) {
  const std::string work =
      descriptor.is_dense()
          ? "a consumer warp starts the products of a stage while those of the stage before it run"
          : fmt::format(
                "a consumer warp starts the products of a stage and dequantises the next stage meanwhile, whose "
                "words it has loaded {}",
                loads_words_ahead(descriptor) ? "one stage earlier" : "just before");
  return {"warps", fmt::format("{} consumer warps, 1 producer warp", persistent_lanes::kConsumerWarps),
          fmt::format("{}; the producer's warpgroup gives registers to the consumers: {} per thread of a consumer, and "
                      "{} of a producer",
                      work, kConsumerRegisters, kProducerRegisters)};
}

/// How weights become operands, and how scales and zeros are applied to packed weights.
std::vector<Decision> weight_decisions(const W4a16Gemm& descriptor) {
  if (descriptor.is_dense()) return {dense_operands_of(descriptor)};
  return {operands_of(descriptor), scales_of(descriptor), zeros_of(descriptor), word_order(descriptor)};
}

const char* name_of_weights(const W4a16Gemm& descriptor) { return descriptor.is_dense() ? "weights" : "words"; }

Decision cluster_decision() {
  return {"decomposition", "chosen at launch, from m, n, k and the device alone",
          "the two blocks of a cluster have neighbouring columns and share the activations by multicast; or, with few "
          "tiles, they have the same columns and half of k each, and exchange sums by bulk copies. Tiles that rounds "
          "of clusters leave over are shared evenly by all clusters, which hand on sums through the workspace "
          "(stream-K)"};
}

Decision schedule_decision() {
  return {"schedule", "persistent, tiles in grouped order",
          "as many clusters as fit the device take tiles until none is left, and the copies for the next tile start "
          "while the current tile is stored; clusters at work at the same time share weights and activations in the "
          "L2"};
}

Decision epilogue_decision(const Plan& plan) {
  return {"epilogue", fmt::format("staging tiles of {} rows, two per consumer warpgroup", plan.store_rows),
          "TMA stores write them and leave out what lies outside the output"};
}

void add_memory_map(PlanReport& report, const Plan& plan) {
  const int stages = plan.block.stages;
  for (int i = 0; i < stages; ++i) {
    const int base = i * plan.stage_bytes();
    add_region(report, fmt::format("stage {}: activations", i), base, plan.activation_bytes());
    add_region(report, fmt::format("stage {}: {}", i, name_of_weights(plan.block.descriptor)),
               base + plan.activation_bytes(), plan.block.tiles.words.size());
  }
  for (int i = 0; i < 2 * kWarpgroups; ++i)
    add_region(report, fmt::format("staging tile {} of warpgroup {}", i % 2, i / 2),
               plan.staging_at(stages) + i * plan.staging.size(), plan.staging.size());
  add_region(report, "barriers", plan.barriers_at(stages), plan.shared_memory(stages) - plan.barriers_at(stages));
  constexpr const char* kUses[] = {"given", "received"};
  for (int i = 0; i < 2 * kWarpgroups; ++i) {
    report.memory.push_back({"exchange", "block", fmt::format("sums {} by warpgroup {}", kUses[i / 2], i % 2),
                             i * plan.exchange.size(), plan.exchange.size()});
  }
}

}  // namespace

void write_report(Plan& plan) {
  PlanReport& report = plan.report;
  const BlockPlan& block = plan.block;
  const W4a16Gemm& descriptor = block.descriptor;
  const std::string weights = name_of_weights(descriptor);
  add_tile(report, {weights + " of a stage", block.tiles.words, word_accesses(descriptor)});
  add_tile(report, {"activations of a stage", block.tiles.activations, {}});
  add_tile(report, {"outputs of a warpgroup", plan.staging, staging_accesses(plan)});
  add_tile(report, {"sums of a warpgroup", plan.exchange, exchange_accesses(plan)});
  add_memory_map(report, plan);
  auto layouts = layout_decisions(block.tiles, "as TMA box copies write the tensor and wgmma reads it");
  layouts[0].name = "layout of " + weights;
  report.decisions = {tile_decision(descriptor), tile_m_decision(descriptor)};
  const auto add = [&](const std::vector<Decision>& more) {
    report.decisions.insert(report.decisions.end(), more.begin(), more.end());
  };
  add(weight_decisions(descriptor));
  add({warp_decision(descriptor),
       {"copy of " + weights, "TMA box copies", "they take no instructions of the consumer warps"},
       layouts[0],
       layouts[1],
       {"stages", std::to_string(block.stages),
        fmt::format("of {} bytes: as many as shared memory holds, and no more than latency needs", plan.stage_bytes())},
       {"blocks_per_sm", "1", fmt::format("the block takes {} bytes of shared memory", block.shared_memory)},
       cluster_decision(),
       schedule_decision(),
       epilogue_decision(plan)});
  if (!descriptor.is_dense()) add_fragments(report, {"wgmma.m64k16 A, 16-bit"});
  add_fragments(report, {"wgmma.m64n8 D, 32-bit"});
  if (has_words_by_n(descriptor)) add_fragments(report, {"ldmatrix.x4.trans"});
}

}  // namespace cubit::ops::w4a16_gemm::sm90_persistent
