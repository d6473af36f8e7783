// What `explain` says of a plan beside its decisions: the proof of every shared-memory access of the loop and of the
// merge of a block's warps, the map of shared memory, the fragments.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/fragments.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/text.hpp"

namespace cubit::ops::gqa_decode {
namespace {

bool has_m16n8k16(const codegen::Architecture& architecture) {
  return architecture.has_mma({16, 8, 16, codegen::MmaType::fp16});
}

std::vector<Tile> stage_tiles(const Plan& plan) {
  if (!plan.formats().are_alike()) {
    return {{"stage: 16 rows of keys", plan.stage, stage_accesses(plan)},
            {"stage, behind the keys: 16 rows of values", plan.value_stage, value_stage_accesses(plan)}};
  }
  if (plan.family != "sm90") {
    return {{"stage: 16 rows of keys, then 16 of values", plan.stage, stage_accesses(plan)}};
  }
  return {
      {fmt::format("stage: {} rows of keys, of {} warps side by side; behind them are those of values in the same way",
                   plan.stage.rows, plan.warps_abreast()),
       plan.stage, stage_accesses(plan)}};
}

/// One proof for what is one access of the template, such as the copies of keys and those of values.
void join_proofs(PlanReport& report) {
  std::vector<codegen::ConflictProof> joined;
  for (codegen::ConflictProof& proof : report.proofs) {
    const auto same = std::find_if(joined.begin(), joined.end(),
                                   [&](const codegen::ConflictProof& other) { return other.access == proof.access; });
    if (same == joined.end()) {
      joined.push_back(std::move(proof));
      continue;
    }
    same->degree = std::max(same->degree, proof.degree);
    same->wavefronts += proof.wavefronts;
    same->ideal += proof.ideal;
  }
  report.proofs = std::move(joined);
}

/// Whose copies into a stage meet in banks: " of keys", " of values", of both, or nothing where they are one.
std::string rows_that_conflict(const Plan& plan) {
  std::string rows;
  if (plan.formats().are_alike()) return rows;
  for (const std::size_t which : {0, 1}) {
    const Tile& tile = plan.report.tiles[which];
    if (codegen::prove(tile.layout, tile.accesses.front()).degree == 1) continue;
    rows += fmt::format("{} of {}", rows.empty() ? "" : " and", which == 0 ? "keys" : "values");
  }
  return rows;
}

/// As the templates lay it out: a ring of stages per warp, and over the same bytes, after the loop, what the warps hand
/// to each other; in family sm90 one ring, and the rest behind it.
std::vector<MemoryRegion> memory_map(const Plan& plan) {
  std::vector<MemoryRegion> map;
  for (int i = 0; i < plan.ring_bytes(plan.stages) / plan.stage_bytes(); ++i) {
    const std::string owner = plan.family == "sm90" ? "block" : fmt::format("warp {}", i / plan.stages);
    map.push_back(
        {"loop", owner, fmt::format("stage {}", i % plan.stages), i * plan.stage_bytes(), plan.stage_bytes()});
  }
  if (plan.query_is_shared) {
    map.push_back({"loop", "block", "query operands", plan.query_at(plan.stages), plan.query_bytes()});
  }
  const int barriers_at = plan.barriers_at(plan.stages);
  if (plan.shared_memory > barriers_at) {
    map.push_back({"loop", "block", "barriers", barriers_at, plan.scratch_at(plan.stages) - barriers_at});
    map.push_back({"loop", "block", "scratch", plan.scratch_at(plan.stages), plan.scratch_bytes()});
  }
  int offset = plan.results_at(plan.stages);
  const auto add = [&](std::string name, int bytes) {
    map.push_back({"merge", "block", std::move(name), offset, bytes});
    offset += bytes;
  };
  int merged = 0;
  // Whole rows: the padding behind the last one is reserved as well.
  for (const Tile& tile : merge_tiles(plan)) merged += tile.layout.rows * tile.layout.pitch;
  const int word = merge_bytes(plan) - merged;
  add("last block's word", word);
  for (const Tile& tile : merge_tiles(plan)) add(tile.name, tile.layout.rows * tile.layout.pitch);
  offset = plan.results_at(plan.stages) + word;
  for (const Tile& tile : part_tiles(plan)) {
    map.push_back({"last block", "block", tile.name, offset, tile.layout.rows * tile.layout.pitch});
    offset += map.back().bytes;
  }
  if (plan.merges_pairs()) map.push_back({"pair", "block", "the other block's sums", 0, pair_bytes(plan)});
  return map;
}

/// Accesses that cannot avoid conflicts, and why; nothing where there is none.
void explain_conflicts(Plan& plan) {
  for (const codegen::ConflictProof& proof : plan.report.proofs) {
    if (proof.degree == 1) continue;
    const std::string why =
        proof.access != "cp.async of rows" && proof.access != "stores of rows"
            ? fmt::format(
                  "eight lanes load eight times 16 bytes, and the {} of a head are no multiple of that: where heads "
                  "meet, two lanes share banks; once per sequence",
                  plan.formats().value.head_dim / 4)
            : fmt::format(
                  "one instruction copies the headers of many rows{}, {} bytes a lane, and rows start at every fourth "
                  "bank",
                  rows_that_conflict(plan), plan.copy_bytes);
    plan.report.decisions.push_back({"bank conflicts", fmt::format("{}: degree {}", proof.access, proof.degree), why});
  }
}

}  // namespace

void write_report(Plan& plan, const codegen::Architecture& architecture) {
  PlanReport& report = plan.report;
  for (Tile& tile : stage_tiles(plan)) add_tile(report, std::move(tile));
  for (Tile& tile : query_tiles(plan)) add_tile(report, std::move(tile));
  for (Tile& tile : merge_tiles(plan)) add_tile(report, std::move(tile));
  for (Tile& tile : part_tiles(plan)) add_tile(report, std::move(tile));
  join_proofs(report);
  report.memory = memory_map(plan);
  report.decisions = decisions_of(plan, architecture);
  explain_conflicts(plan);
  if (!plan.descriptor.score.empty())
    report.spills_allowed_because = "a user's score modification may need any number of registers";
  const kv_cache::CacheFormats formats = plan.formats();
  const auto leaves_two = [](const kv_cache::RowFormat& format) {
    return format.kv == KvFormat::int4_rows || (format.has_scales() && format.head_dim % 32 != 0);
  };
  const char* const last_of_keys = leaves_two(formats.key) ? "ldmatrix.x2" : "ldmatrix.x4";
  const char* const last_of_values = leaves_two(formats.value) ? "ldmatrix.x2.trans" : "ldmatrix.x4.trans";
  const std::string product = has_m16n8k16(architecture) ? "mma.m16n8k16" : "mma.m16n8k8";
  std::vector<std::string> names = {product + " A, 16-bit", product + " B, 16-bit", product + " C, 32-bit",
                                    "ldmatrix.x4",          "ldmatrix.x4.trans",    last_of_keys,
                                    last_of_values,         "movmatrix source",     "movmatrix destination"};
  if (plan.heads_are_rows) names = {"wgmma.m64k16 A, 16-bit", "wgmma.m64n8 D, 32-bit"};
  for (const std::string& name : names) {
    const std::string known(codegen::find_fragment(name).name);
    if (std::find(report.fragments.begin(), report.fragments.end(), known) == report.fragments.end()) {
      report.fragments.push_back(known);
    }
  }
}

}  // namespace cubit::ops::gqa_decode
