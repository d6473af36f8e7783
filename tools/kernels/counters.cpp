#include "tools/kernels/counters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "files/text/format.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Count {
  std::uint64_t requests = 0;
  std::uint64_t transfers = 0;
  std::uint64_t ideal = 0;

  void add(const Json& site, const char* unit) {
    requests += site.at("requests").get<std::uint64_t>();
    transfers += site.at(unit).get<std::uint64_t>();
    ideal += site.at(fmt::format("ideal_{}", unit)).get<std::uint64_t>();
  }
};

/// Merges the sites of one opcode at one line of the kernel's own files into one row, because unrolled loops make many
/// sites.
std::string access_table(const Json& launch, const char* space, const char* unit) {
  std::map<std::pair<std::string, std::string>, Count> counts;
  for (const Json& site : launch.at(space)) {
    const Json& places = site.at("places");
    // The innermost place is cubit's wrapper of the instruction; the caller of the wrapper tells more.
    const std::string place = places.empty()
                                  ? fmt::format("PTX line {}", site.at("ptx_line").get<int>())
                                  : places.at(std::min<std::size_t>(1, places.size() - 1)).get<std::string>();
    counts[{place, site.at("opcode").get<std::string>()}].add(site, unit);
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, count] : counts) {
    rows.push_back({key.first, key.second, std::to_string(count.requests), std::to_string(count.transfers),
                    std::to_string(count.ideal)});
  }
  return format_table({{"place"}, {"instruction"}, {"requests", true}, {unit, true}, {"ideal", true}}, rows);
}

std::string instruction_table(const Json& launch) {
  std::vector<std::pair<std::uint64_t, std::string>> counts;
  for (const auto& [name, count] : launch.at("instructions").items())
    counts.emplace_back(count.get<std::uint64_t>(), name);
  std::sort(counts.rbegin(), counts.rend());
  std::vector<std::vector<std::string>> rows;
  for (const auto& [count, name] : counts) rows.push_back({name, std::to_string(count)});
  return format_table({{"instruction"}, {"warps", true}}, rows);
}

bool is_at(const Json& site, const Json& places) {
  return std::any_of(places.begin(), places.end(), [&](const Json& place) {
    const Json& chain = site.at("places");
    return std::find(chain.begin(), chain.end(), place) != chain.end();
  });
}

}  // namespace

std::string counters_text(const Json& launches) {
  std::string text;
  for (const Json& launch : launches) {
    text +=
        fmt::format("\n{}: {} blocks, {} warps, {} arrivals at barriers\n\n{}", launch.at("kernel").get<std::string>(),
                    launch.at("blocks").get<std::uint64_t>(), launch.at("warps").get<std::uint64_t>(),
                    launch.at("barriers").get<std::uint64_t>(), instruction_table(launch));
    text += "\nShared memory\n" + access_table(launch, "shared", "wavefronts");
    text += "\nGlobal memory\n" + access_table(launch, "global", "sectors");
  }
  return text;
}

Json compare_with_plan(const Json& plan, const Json& launches) {
  Json rows = Json::array();
  for (const Json& proof : plan.at("proofs")) {
    Count count;
    for (const Json& launch : launches) {
      for (const Json& site : launch.at("shared")) {
        if (is_at(site, proof.at("places"))) count.add(site, "wavefronts");
      }
    }
    const auto wavefronts = proof.at("wavefronts").get<std::uint64_t>();
    const auto ideal = proof.at("ideal").get<std::uint64_t>();
    Json row = proof;
    row.erase("places");
    row["counted_requests"] = count.requests;
    row["counted_wavefronts"] = count.transfers;
    row["counted_ideal"] = count.ideal;
    row["agrees"] = count.requests > 0 && count.transfers * ideal == count.ideal * wavefronts;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace cubit::tools
