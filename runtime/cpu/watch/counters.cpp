// Implements the counters: cost of memory requests, sums per instruction, and the JSON report.
#include "runtime/cpu/watch/counters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/cpu/execute/cluster.hpp"

namespace cubit::runtime::cpu {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kBanks = 32;
constexpr std::uint64_t kBankBytes = 4;
constexpr std::uint64_t kSectorBytes = 32;

/// The distinct units of `unit` bytes that the lanes access, in ascending order.
std::vector<std::uint64_t> units_of(const LaneRequest* first, const LaneRequest* last, std::uint64_t bytes,
                                    std::uint64_t unit) {
  std::vector<std::uint64_t> units;
  for (; first != last; ++first) {
    const std::uint64_t end = first->address + bytes;
    for (std::uint64_t index = first->address / unit; index * unit < end; ++index) units.push_back(index);
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

int lanes_served_at_once(const Request& request) {
  if (request.is_matrix || request.bytes > 8) return 8;
  return request.bytes > 4 ? 16 : kLanes;
}

struct Cost {
  std::uint64_t transfers = 0;
  std::uint64_t ideal = 0;
};

Cost wavefronts_of(const std::vector<std::uint64_t>& words) {
  std::array<std::uint64_t, kBanks> depth{};
  for (const std::uint64_t word : words) ++depth[word % kBanks];
  return {*std::max_element(depth.begin(), depth.end()), (words.size() + kBanks - 1) / kBanks};
}

/// The cost of the lanes of `request` in shared memory, in groups that the hardware serves together.
Cost shared_cost(const Request& request, const std::vector<LaneRequest>& lanes) {
  const int step = lanes_served_at_once(request);
  Cost cost;
  for (auto first = lanes.begin(); first != lanes.end();) {
    const int group = first->lane / step;
    const auto last = std::find_if(first, lanes.end(), [&](const LaneRequest& l) { return l.lane / step != group; });
    const Cost part = wavefronts_of(units_of(&*first, &*first + (last - first), request.bytes, kBankBytes));
    cost.transfers += part.transfers;
    cost.ideal += part.ideal;
    first = last;
  }
  return cost;
}

Cost global_cost(const Request& request, const std::vector<LaneRequest>& lanes) {
  const auto* const first = lanes.data();
  const auto bytes = units_of(first, first + lanes.size(), request.bytes, 1).size();
  return {units_of(first, first + lanes.size(), request.bytes, kSectorBytes).size(),
          (bytes + kSectorBytes - 1) / kSectorBytes};
}

std::vector<LaneRequest> lanes_in(const Request& request, bool shared) {
  std::vector<LaneRequest> lanes;
  for (int i = 0; i < request.count; ++i) {
    const LaneRequest& lane = request.lanes[static_cast<std::size_t>(i)];
    const bool is_global = lane.space == ptx::Space::global || lane.space == ptx::Space::constant;
    if (shared ? lane.space == ptx::Space::shared : is_global) lanes.push_back(lane);
  }
  return lanes;
}

/// Root and state space of an opcode: "ld.shared" for ld.shared.v4.b32.
std::string kind_of(const ptx::Instruction& instruction) {
  static constexpr std::string_view kSpaces[] = {"global",          "shared", "shared::cta",
                                                 "shared::cluster", "local",  "param"};
  for (const std::string_view space : kSpaces) {
    if (instruction.has(space)) return fmt::format("{}.{}", instruction.root, space);
  }
  return std::string(instruction.root);
}

/// True for barriers of a block or a cluster, not of a warp.
bool is_barrier(const ptx::Instruction& instruction) {
  return (instruction.root == "bar" || instruction.root == "barrier") && !instruction.has("warp");
}

/// The source places of an instruction, from the innermost function outwards.
Json places_of(const Program& program, const ptx::Instruction& instruction) {
  Json places = Json::array();
  for (int index = instruction.location; index != ptx::kNone;) {
    const ptx::SourceLocation& place = program.function->locations[static_cast<std::size_t>(index)];
    const std::string_view path = program.module.file_path(place.file);
    places.push_back(fmt::format("{}:{}", path.substr(path.rfind('/') + 1), place.line));
    index = place.inlined_at;
  }
  return places;
}

}  // namespace

Counters::Counters(const Program& program)
    : program_(program),
      segments_(program.segments.size()),
      shared_(program.sites.size()),
      global_(program.sites.size()) {}

void Counters::request(const Request& request) {
  const auto index = static_cast<std::size_t>(request.site - program_.sites.data());
  const auto count = [&](SiteCount& site, const Cost& cost) {
    ++site.requests;
    site.transfers += cost.transfers;
    site.ideal += cost.ideal;
  };
  const auto shared = lanes_in(request, true);
  if (!shared.empty()) count(shared_[index], shared_cost(request, shared));
  const auto global = lanes_in(request, false);
  if (!global.empty()) count(global_[index], global_cost(request, global));
}

void Counters::start(const Cluster& cluster) {
  blocks_ += cluster.ctas.size();
  for (const Cta* cta : cluster.ctas) warps_ += cta->warps.size();
}

void Counters::add(const Counters& other) {
  const auto add_sites = [](std::vector<SiteCount>& to, const std::vector<SiteCount>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i].requests += from[i].requests;
      to[i].transfers += from[i].transfers;
      to[i].ideal += from[i].ideal;
    }
  };
  for (std::size_t i = 0; i < segments_.size(); ++i) segments_[i] += other.segments_[i];
  add_sites(shared_, other.shared_);
  add_sites(global_, other.global_);
  blocks_ += other.blocks_;
  warps_ += other.warps_;
}

std::string Counters::json() const {
  std::map<std::string, std::uint64_t> instructions;
  std::uint64_t barriers = 0;
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    const Segment& segment = program_.segments[s];
    if (segments_[s] == 0) continue;
    for (int i = segment.first; i < segment.last; ++i) {
      const ptx::Instruction& instruction = program_.function->body[static_cast<std::size_t>(i)];
      instructions[kind_of(instruction)] += segments_[s];
      if (is_barrier(instruction)) barriers += segments_[s];
    }
  }
  const auto sites = [&](const std::vector<SiteCount>& counts, const char* transfers) {
    Json list = Json::array();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i].requests == 0) continue;
      const ptx::Instruction& instruction = *program_.sites[i].instruction;
      list.push_back({{"opcode", instruction.opcode},
                      {"ptx_line", instruction.ptx_line},
                      {"places", places_of(program_, instruction)},
                      {"requests", counts[i].requests},
                      {transfers, counts[i].transfers},
                      {fmt::format("ideal_{}", transfers), counts[i].ideal}});
    }
    return list;
  };
  return Json{{"kernel", program_.function->name},
              {"blocks", blocks_},
              {"warps", warps_},
              {"barriers", barriers},
              {"instructions", instructions},
              {"shared", sites(shared_, "wavefronts")},
              {"global", sites(global_, "sectors")}}
      .dump();
}

}  // namespace cubit::runtime::cpu
