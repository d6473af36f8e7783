// The parts of a plan's report that all kernel families of gqa_decode write: proofs, fragments, regions of the merge.
#include "ops/gqa_decode/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/fragments.hpp"

namespace cubit::ops::gqa_decode {
namespace {

/// Joins the proofs of accesses that one line of the template makes, such as the copies of keys and of values.
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

/// The rows whose copies into a stage have bank conflicts: " of keys", " of values", " of keys and of values", or
/// nothing if keys and values share a layout.
std::string rows_that_conflict(const CommonPlan& plan) {
  std::string rows;
  if (plan.formats().are_alike()) return rows;
  for (const std::size_t which : {0, 1}) {
    const Tile& tile = plan.report.tiles[which];
    if (codegen::prove(tile.layout, tile.accesses.front()).degree == 1) continue;
    rows += fmt::format("{} of {}", rows.empty() ? "" : " and", which == 0 ? "keys" : "values");
  }
  return rows;
}

/// Adds a decision for every access that cannot avoid bank conflicts, with the reason.
void explain_conflicts(CommonPlan& plan) {
  for (const codegen::ConflictProof& proof : plan.report.proofs) {
    if (proof.degree == 1) continue;
    const std::string why =
        proof.access != "cp.async of rows" && proof.access != "stores of rows"
            ? fmt::format(
                  "eight lanes load eight vectors of 16 bytes, and the {} vectors of a query row are no multiple of "
                  "eight: "
                  "two lanes share banks where query rows meet; this happens once per sequence",
                  plan.formats().value.head_dim / 4)
            : fmt::format(
                  "one instruction copies the headers of many rows{}, {} bytes a lane, and rows start at every fourth "
                  "bank",
                  rows_that_conflict(plan), plan.copy_bytes);
    plan.report.decisions.push_back({"bank conflicts", fmt::format("{}: degree {}", proof.access, proof.degree), why});
  }
}

}  // namespace

void add_merge_regions(std::vector<MemoryRegion>& map, const std::vector<Tile>& tiles, int results_at, int bytes) {
  int offset = results_at;
  const auto add = [&](const std::string& name, int size) {
    map.push_back({"merge", "block", name, offset, size});
    offset += size;
  };
  int merged = 0;
  // Whole rows: the padding behind the last row is reserved as well.
  for (const Tile& tile : tiles) merged += tile.layout.rows * tile.layout.pitch;
  add("last block's word", bytes - merged);
  for (const Tile& tile : tiles) add(tile.name, tile.layout.rows * tile.layout.pitch);
}

std::vector<std::string> mma_fragments(const CommonPlan& plan, const codegen::Architecture& architecture) {
  const kv_cache::CacheFormats formats = plan.formats();
  const auto leaves_two = [](const kv_cache::RowFormat& format) {
    return format.kv == KvFormat::int4_rows || (format.has_scales() && format.head_dim % 32 != 0);
  };
  const bool has_m16n8k16 = architecture.has_mma({16, 8, 16, codegen::MmaType::fp16});
  const std::string product = has_m16n8k16 ? "mma.m16n8k16" : "mma.m16n8k8";
  return {product + " A, 16-bit",
          product + " B, 16-bit",
          product + " C, 32-bit",
          "ldmatrix.x4",
          "ldmatrix.x4.trans",
          leaves_two(formats.key) ? "ldmatrix.x2" : "ldmatrix.x4",
          leaves_two(formats.value) ? "ldmatrix.x2.trans" : "ldmatrix.x4.trans",
          "movmatrix source",
          "movmatrix destination"};
}

void write_report(CommonPlan& plan, ReportParts parts) {
  PlanReport& report = plan.report;
  for (Tile& tile : parts.tiles) add_tile(report, std::move(tile));
  join_proofs(report);
  report.memory = std::move(parts.memory);
  report.decisions = std::move(parts.decisions);
  explain_conflicts(plan);
  if (!plan.descriptor.score.empty())
    report.spills_allowed_because = "a user's score modification may need any number of registers";
  for (const std::string& name : parts.fragments) {
    const std::string known(codegen::find_fragment(name).name);
    if (std::find(report.fragments.begin(), report.fragments.end(), known) == report.fragments.end()) {
      report.fragments.push_back(known);
    }
  }
}

}  // namespace cubit::ops::gqa_decode
