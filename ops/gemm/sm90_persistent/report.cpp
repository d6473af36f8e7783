// What `explain` says about a plan of family sm90_persistent.
#include "ops/gemm/report.hpp"

#include <fmt/format.h>

#include "ops/gemm/accesses.hpp"
#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"

namespace cubit::ops::gemm::sm90_persistent {
namespace {

Decision tile_decision(const Plan& plan) {
  const GemmDescriptor& descriptor = plan.block.descriptor;
  return {
      "tile", fmt::format("{} columns x {} rows for a cluster of two blocks", descriptor.tile_n, descriptor.tile_m),
      fmt::format("weights are the A operand of wgmma, from {}, 64 columns per consumer warpgroup; all rows are the "
                  "B operand, in shared memory, where the copy has put them",
                  plan.weights.in_shared_memory ? "shared memory" : "registers")};
}

Decision warp_decision(const Plan& plan) {
  const std::string work =
      plan.weights.in_shared_memory
          ? "a consumer warp starts the products of a stage while those of the stage before it run"
          : fmt::format(
                "a consumer warp starts the products of a stage and dequantises the next stage meanwhile, whose "
                "words it has loaded {}",
                loads_words_ahead(plan) ? "one stage earlier" : "just before");
  return {"warps", fmt::format("{} consumer warps, 1 producer warp", persistent_lanes::kConsumerWarps),
          fmt::format("{}; the producer's warpgroup gives registers to the consumers: {} per thread of a consumer, and "
                      "{} of a producer",
                      work, kConsumerRegisters, kProducerRegisters)};
}

const char* name_of_weights(const Plan& plan) { return plan.weights.in_shared_memory ? "weights" : "words"; }

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
    add_region(report, fmt::format("stage {}: {}", i, name_of_weights(plan)), base + plan.activation_bytes(),
               plan.block.tiles.words.size());
    if (plan.weights.index_bytes > 0)
      add_region(report, fmt::format("stage {}: groups of k", i),
                 base + plan.activation_bytes() + plan.block.tiles.words.size(), plan.weights.index_bytes);
  }
  for (int i = 0; i < 2 * kWarpgroups; ++i)
    add_region(report, fmt::format("staging tile {} of warpgroup {}", i % 2, i / 2),
               plan.staging_at(stages) + i * plan.staging.size(), plan.staging.size());
  if (plan.block.factor_table_bytes > 0)
    add_region(report, "scales and zeros of all groups", plan.table_at(stages), plan.block.factor_table_bytes);
  add_region(report, "barriers", plan.barriers_at(stages), plan.shared_memory(stages) - plan.barriers_at(stages));
  constexpr const char* kUses[] = {"given", "received"};
  for (int i = 0; i < 2 * kWarpgroups; ++i) {
    report.memory.push_back({"exchange", "block", fmt::format("sums {} by warpgroup {}", kUses[i / 2], i % 2),
                             i * plan.exchange.size(), plan.exchange.size()});
  }
}

codegen::TileAccess of_sums(const char* name, codegen::AccessKind kind, int rows) {
  constexpr int kWarps = 4;  // of a warpgroup
  return {name, kind, 16, rows * kWarps, [](int instance, int lane) -> MaybeByte {
            return codegen::TileByte{instance / kWarps, 16 * (instance % kWarps * 32 + lane)};
          }};
}

std::vector<codegen::TileAccess> exchange_accesses(const Plan& plan) {
  return {of_sums("stores of given sums", codegen::AccessKind::store, plan.exchange.rows),
          of_sums("loads of received sums", codegen::AccessKind::load, plan.exchange.rows)};
}

}  // namespace

void write_report(PlanReport& report, const Plan& plan, const std::vector<Decision>& operands,
                  const codegen::Architecture&) {
  const BlockPlan& block = plan.block;
  const std::string weights = name_of_weights(plan);
  add_tile(report, {weights + " of a stage", block.tiles.words, plan.weights.accesses.words});
  add_tile(report, {"activations of a stage", block.tiles.activations, {}});
  add_tile(report, {"outputs of a warpgroup", plan.staging, plan.weights.staging});
  add_tile(report, {"sums of a warpgroup", plan.exchange, exchange_accesses(plan)});
  add_memory_map(report, plan);
  add_decisions(report, {tile_decision(plan), tile_m_decision(block.descriptor)});
  add_decisions(report, operands);
  add_decisions(report, {warp_decision(plan),
                         {"copy of " + weights, "TMA box copies", "they take no instructions of the consumer warps"}});
  std::vector<Decision> layouts =
      layout_decisions(block.tiles, "as TMA box copies write the tensor and wgmma reads it");
  layouts[0].name = "layout of " + weights;
  add_decisions(report, layouts);
  add_decisions(
      report,
      {{"stages", std::to_string(block.stages),
        fmt::format("of {} bytes: as many as shared memory holds, and no more than latency needs", plan.stage_bytes())},
       {"blocks_per_sm", "1", fmt::format("the block takes {} bytes of shared memory", block.shared_memory)},
       cluster_decision(),
       schedule_decision(),
       epilogue_decision(plan)});
  add_fragments(report, plan.weights.fragments);
}

}  // namespace cubit::ops::gemm::sm90_persistent
