// The report of kernel family sm80: tiles of query operands and of other blocks' partial results, and decisions.
#include "ops/gqa_decode/report.hpp"

#include <fmt/format.h>

#include <utility>

#include "ops/gqa_decode/sm80/sm80.hpp"

namespace cubit::ops::gqa_decode::sm80 {
namespace {

using codegen::AccessKind;
using codegen::TileByte;

Decision shared_query_decision(const Plan& plan) {
  return {
      "query operands", fmt::format("{} bytes of shared memory", plan.query_bytes()),
      fmt::format(
          "in registers, next to the outputs of {} tiles of query rows, they would mean fewer warps per SM, or more "
          "blocks, each of which reads and unpacks the whole cache",
          plan.head_tiles())};
}

Decision offset_decision(const Plan& plan) {
  if (plan.keep_offsets) {
    return {"copy offsets", "kept in registers",
            "kept offsets save instructions per tile, and there is a register for each copy"};
  }
  return {
      "copy offsets", "computed for every tile",
      fmt::format("{} offsets, next to what else the loop keeps, would leave too few registers", count_copies(plan))};
}

}  // namespace

std::vector<Tile> query_tiles(const Plan& plan) {
  if (!plan.query_is_shared) return {};
  constexpr int kRowBytes = 16 * lanes::kWarpSize;
  const int rows = plan.query_bytes() / kRowBytes;
  const auto at = [](int instance, int lane) -> MaybeByte { return TileByte{instance, 16 * lane}; };
  return {
      {"query operands",
       {rows, kRowBytes, kRowBytes, {}},
       {{"stores of queries", AccessKind::store, 16, rows, at}, {"loads of queries", AccessKind::load, 16, rows, at}}}};
}

std::vector<Tile> partial_tiles(const Plan& plan) {
  const int partials = plan.partials_at_once();
  if (partials == 0) return {};
  const int warps = plan.warps;
  const auto of_thread = [warps](int instance, int lane) -> MaybeByte {
    return TileByte{instance / warps, 16 * (instance % warps * lanes::kWarpSize + lane)};
  };
  const auto of_lane = [](int warp, int lane) -> MaybeByte { return TileByte{warp, 8 * lane}; };
  const auto of_partial = [warps](int instance, int) -> MaybeByte {
    return TileByte{instance % warps, 8 * (instance / warps)};
  };
  const int pitch = 16 * plan.threads();
  return {{"other blocks' outputs",
           {partials, pitch, pitch, {}},
           {{"cp.async of partial results", AccessKind::store, 16, partials * warps, of_thread},
            {"loads of partial results", AccessKind::load, 16, partials * warps, of_thread}}},
          {"other blocks' weights",
           {warps, 8 * lanes::kWarpSize, 8 * lanes::kWarpSize, {}},
           {{"stores of partial results' weights", AccessKind::store, 8, warps, of_lane},
            {"loads of partial results' weights", AccessKind::load, 8, partials * warps, of_partial}}}};
}

std::vector<Decision> decisions_of(const Plan& plan, const codegen::Architecture& architecture) {
  const char* const holder = plan.query_is_shared ? ", with query operands in shared memory" : "";
  std::vector<Decision> decisions = {tile_decision(plan, architecture),
                                     head_group_decision(plan, holder, register_limit(plan))};
  for (Decision& decision : operand_decisions(plan, architecture)) decisions.push_back(std::move(decision));
  decisions.push_back(warp_decision(plan, architecture));
  decisions.push_back(copy_decision(plan));
  decisions.push_back(stage_decision(plan));
  decisions.push_back(stages_decision(plan, plan.ring_bytes(plan.stages - 1), "in flight", kBytesInFlight));
  decisions.push_back(block_decision(plan, plan.threads(), architecture, ""));
  decisions.push_back(warp_ring::split_decision());
  add_middle_decision(decisions, plan.descriptor);
  if (plan.query_is_shared) decisions.push_back(shared_query_decision(plan));
  decisions.push_back(offset_decision(plan));
  if (plan.recomputes_lanes) decisions.push_back(lane_decision());
  add_role_decisions(decisions, plan.descriptor, warp_ring::page_decision());
  return decisions;
}

}  // namespace cubit::ops::gqa_decode::sm80
