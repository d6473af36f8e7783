// Describes a plan's layouts as JSON for pictures: fragment tables, tiles with the address of every access, memory map.
#include <cubit/cubit.h>
#include <fmt/format.h>

#include "capi/border.hpp"
#include "codegen/architecture.hpp"
#include "codegen/fragments.hpp"
#include "ops/operator.hpp"

namespace cubit::capi {
namespace {

constexpr int kLanes = 32;
constexpr int kWordBytes = 4;

Json fragment_json(const codegen::FragmentMap& map) {
  Json elements = Json::array();
  for (int lane = 0; lane < kLanes; ++lane) {
    Json values = Json::array();
    for (int value = 0; value < map.value_count; ++value) {
      const codegen::Element element = map.at(lane, value);
      values.push_back({element.row, element.column});
    }
    elements.push_back(std::move(values));
  }
  return {{"name", map.name},       {"section", map.section},           {"rows", map.rows},
          {"columns", map.columns}, {"element_bits", map.element_bits}, {"elements", std::move(elements)}};
}

const char* kind_name(codegen::AccessKind kind) {
  switch (kind) {
    case codegen::AccessKind::load:
      return "load";
    case codegen::AccessKind::store:
      return "store";
    case codegen::AccessKind::ldmatrix:
      return "ldmatrix";
    case codegen::AccessKind::stmatrix:
      return "stmatrix";
  }
  return "";
}

Json addresses_json(const codegen::TileLayout& layout, const codegen::TileAccess& access) {
  Json instances = Json::array();
  for (int instance = 0; instance < access.instances; ++instance) {
    Json lanes = Json::array();
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto at = access.at(instance, lane);
      lanes.push_back(at ? Json(layout.address(*at)) : Json());
    }
    instances.push_back(std::move(lanes));
  }
  return instances;
}

Json access_json(const codegen::TileLayout& layout, const codegen::TileAccess& access) {
  const codegen::ConflictProof proof = codegen::prove(layout, access);
  return {{"name", access.name},
          {"kind", kind_name(access.kind)},
          {"bytes_per_lane", access.bytes_per_lane},
          {"lanes_per_phase", codegen::lanes_per_phase(access)},
          {"degree", proof.degree},
          {"wavefronts", proof.wavefronts},
          {"ideal", proof.ideal},
          {"addresses", addresses_json(layout, access)}};
}

Json words_json(const codegen::TileLayout& layout) {
  Json rows = Json::array();
  for (int row = 0; row < layout.rows; ++row) {
    Json words = Json::array();
    for (int byte = 0; byte < layout.row_bytes; byte += kWordBytes) words.push_back(layout.address({row, byte}));
    rows.push_back(std::move(words));
  }
  return rows;
}

std::string layout_text(const codegen::TileLayout& layout) {
  const int padding = layout.pitch - layout.row_bytes;
  const std::string rows = fmt::format("{} rows of {} bytes{}", layout.rows, layout.row_bytes,
                                       padding == 0 ? "" : fmt::format(" and {} of padding", padding));
  const codegen::Swizzle& swizzle = layout.swizzle;
  if (swizzle.bits == 0) return rows + ", no swizzle";
  return fmt::format("{}, {} address bits from bit {} xor-ed onto bit {}", rows, swizzle.bits, swizzle.shift_from,
                     swizzle.base);
}

Json tile_json(const ops::Tile& tile) {
  Json accesses = Json::array();
  for (const codegen::TileAccess& access : tile.accesses) accesses.push_back(access_json(tile.layout, access));
  return {{"name", tile.name},
          {"layout", layout_text(tile.layout)},
          {"rows", tile.layout.rows},
          {"row_bytes", tile.layout.row_bytes},
          {"pitch", tile.layout.pitch},
          {"bytes", tile.layout.size()},
          {"words", words_json(tile.layout)},
          {"accesses", std::move(accesses)}};
}

Json memory_json(const ops::Specialisation& specialisation) {
  Json regions = Json::array();
  for (const ops::MemoryRegion& region : specialisation.report().memory) {
    regions.push_back({{"phase", region.phase},
                       {"owner", region.owner},
                       {"name", region.name},
                       {"offset", region.offset},
                       {"bytes", region.bytes}});
  }
  return {{"bytes", specialisation.source().launch.dynamic_shared_memory}, {"regions", std::move(regions)}};
}

Json layouts_json(const ops::Specialisation& specialisation) {
  Json fragments = Json::array();
  for (const std::string& name : specialisation.report().fragments) {
    fragments.push_back(fragment_json(codegen::find_fragment(name)));
  }
  Json tiles = Json::array();
  for (const ops::Tile& tile : specialisation.report().tiles) tiles.push_back(tile_json(tile));
  return {{"fragments", std::move(fragments)}, {"tiles", std::move(tiles)}, {"memory", memory_json(specialisation)}};
}

}  // namespace
}  // namespace cubit::capi

using namespace cubit;
using namespace cubit::capi;

cubit_status cubit_explain_layouts(const char* descriptor, const char* architecture, const char** json) {
  return guarded([&] {
    require(descriptor, "cubit_explain_layouts: descriptor");
    require(architecture, "cubit_explain_layouts: architecture");
    require(json, "cubit_explain_layouts: json");
    const ops::Operator& op = ops::find_operator(descriptor);
    *json = thread_text(layouts_json(*op.specialise(descriptor, codegen::find_architecture(architecture))));
  });
}
