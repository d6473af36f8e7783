// Chooses the members of sets of w4a16_gemm: searches, for one device and one kind of descriptor, lists of tiles that
// lose little against the best of all tiles by the model, and reports what such lists and the list of members.cpp lose.
// The search weighs launches of up to 64 rows of large layers most. Needs no GPU.
// Usage: member_study [KIND [ARCHITECTURE MULTIPROCESSORS MEMORY_GB_PER_SECOND]], KIND: by_k, by_n, gated or 8_bits
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ops/gemm/schedule.hpp"
#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/members.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace {

namespace gemm = cubit::ops::gemm;
namespace w4a16_gemm = cubit::ops::w4a16_gemm;
using cubit::W4a16Gemm;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kLoss = 0.02;
constexpr double kMostLoss = 0.05;                ///< wanted with up to kFewRows rows of large layers
constexpr std::int64_t kLargeLayer = 45'000'000;  ///< weights
constexpr int kFewRows = 64;

struct Shape {
  int n, k;
};
constexpr Shape kShapes[] = {
    {4096, 4096},  {8192, 8192},  {28672, 8192},                // squares and
    {8192, 28672},                                              // rectangles
    {6144, 4096},  {28672, 4096}, {4096, 14336},                // Llama 3 8B
    {10240, 8192}, {57344, 8192},                               // Llama 3 70B
    {10240, 5120}, {5120, 8192},  {51200, 5120}, {5120, 25600}  // Qwen 3 32B
};
constexpr int kRows[] = {1, 2, 4, 8, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 512, 1024, 2048, 4096, 8192};

std::vector<W4a16Gemm> variants(const std::string& kind) {
  using cubit::Element;
  using cubit::GemmFunction;
  using cubit::W4Format;
  if (kind == "by_k")
    return {{}, {.element = Element::bf16}, {.format = W4Format::symmetric}, {.group_size = 32}, {.group_size = 0}};
  if (kind == "by_n") return {{.format = W4Format::awq}, {.format = W4Format::awq, .element = Element::bf16}};
  if (kind == "gated")
    return {{.function = GemmFunction::silu_gate}, {.format = W4Format::awq, .function = GemmFunction::silu_gate}};
  if (kind == "8_bits")
    return {{.bits = 8},
            {.bits = 8, .element = Element::bf16},
            {.bits = 8, .group_size = 32},
            {.bits = 8, .function = GemmFunction::silu_gate}};
  throw std::invalid_argument("KIND is by_k, by_n, gated or 8_bits, not " + kind);
}

struct Tile {
  int rows, columns;

  std::string text() const { return std::to_string(rows) + "x" + std::to_string(columns); }
};

/// One descriptor, shape and number of rows, with the time of every tile.
struct Case {
  std::string name;
  bool is_large_decode;  ///< up to kFewRows rows of a large layer
  std::vector<double> times;
  double best = kNever;
};

std::vector<Tile> all_tiles() {
  std::vector<Tile> tiles;
  for (const int rows : w4a16_gemm::kTileRows) {
    for (const int columns : w4a16_gemm::kTileColumns) tiles.push_back({rows, columns});
  }
  return tiles;
}

std::optional<gemm::BlockPlan> block_of(W4a16Gemm descriptor, const Tile& tile,
                                        const cubit::codegen::Architecture& architecture) {
  descriptor.tile_m = tile.rows;
  descriptor.tile_n = tile.columns;
  if (!w4a16_gemm::is_served(descriptor) || !cubit::ops::serves(w4a16_gemm::families(), descriptor, architecture))
    return std::nullopt;
  return w4a16_gemm::plan_block(descriptor, architecture);
}

std::vector<Case> make_cases(const std::vector<W4a16Gemm>& descriptors, const std::vector<Tile>& tiles,
                             const cubit::runtime::DeviceFacts& device) {
  std::vector<Case> cases;
  for (const W4a16Gemm& descriptor : descriptors) {
    std::vector<std::optional<gemm::BlockPlan>> blocks;
    for (const Tile& tile : tiles) blocks.push_back(block_of(descriptor, tile, *device.architecture));
    for (const Shape& shape : kShapes) {
      for (const int rows : kRows) {
        gemm::Problem sizes;
        sizes.m = rows;
        sizes.n = shape.n;
        sizes.k = shape.k;
        Case one{descriptor.text() + " " + std::to_string(shape.n) + " x " + std::to_string(shape.k) +
                     " m=" + std::to_string(rows),
                 rows <= kFewRows && std::int64_t{shape.n} * shape.k >= kLargeLayer,
                 {}};
        for (const auto& block : blocks) {
          const double time = !block ? kNever
                                     : gemm::modelled_microseconds(*block, gemm::choose_schedule(*block, sizes, device),
                                                                   device, device.memory_bytes_per_second);
          one.times.push_back(time);
          one.best = std::min(one.best, time);
        }
        cases.push_back(std::move(one));
      }
    }
  }
  return cases;
}

using List = std::vector<std::size_t>;  ///< indices of tiles

double time_of(const Case& one, const List& list) {
  double best = kNever;
  for (const std::size_t tile : list) best = std::min(best, one.times[tile]);
  return best;
}

struct Loss {
  int within = 0;
  double mean = 0;
  double most = 0;
  double most_of_large_decode = 0;
  std::string worst;
};

Loss loss_of(const std::vector<Case>& cases, const List& list) {
  Loss loss;
  for (const Case& one : cases) {
    const double lost = time_of(one, list) / one.best - 1;
    loss.within += lost <= kLoss ? 1 : 0;
    loss.mean += std::min(lost, 10.0);
    if (one.is_large_decode) loss.most_of_large_decode = std::max(loss.most_of_large_decode, lost);
    if (lost <= loss.most) continue;
    loss.most = lost;
    loss.worst = one.name;
  }
  loss.mean /= static_cast<double>(cases.size());
  return loss;
}

/// What a search makes small: the share of cases beyond 2%, the mean loss, and losses beyond 5% of large layers.
double badness(const std::vector<Case>& cases, const List& list) {
  const Loss loss = loss_of(cases, list);
  const double beyond = 1 - static_cast<double>(loss.within) / static_cast<double>(cases.size());
  return beyond + loss.mean + 10 * std::max(0.0, std::min(loss.most_of_large_decode, 10.0) - kMostLoss);
}

/// The best list with one tile more.
List grown(const std::vector<Case>& cases, const List& list, std::size_t tiles) {
  List best;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    if (std::find(list.begin(), list.end(), tile) != list.end()) continue;
    List candidate = list;
    candidate.push_back(tile);
    if (best.empty() || badness(cases, candidate) < badness(cases, best)) best = std::move(candidate);
  }
  return best;
}

/// Replaces one tile by another tile while the replacement lowers the badness.
void exchange(const std::vector<Case>& cases, List& list, std::size_t tiles) {
  double least = badness(cases, list);
  for (bool again = true; again;) {
    again = false;
    for (std::size_t& place : list) {
      for (std::size_t tile = 0; tile < tiles; ++tile) {
        const std::size_t before = std::exchange(place, tile);
        const double now = badness(cases, list);
        if (now < least) {
          least = now;
          again = true;
        } else {
          place = before;
        }
      }
    }
  }
}

void print(const std::vector<Case>& cases, const List& list, const std::vector<Tile>& tiles) {
  List sorted = list;
  std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(tiles[a].rows, tiles[a].columns) < std::pair(tiles[b].rows, tiles[b].columns);
  });
  const Loss loss = loss_of(cases, list);
  std::printf(
      "%2zu tiles: %5.1f%% of %zu cases within 2%%, mean loss %.2f%%, most %.1f%% with few rows of large layers, "
      "%.1f%% elsewhere (%s):",
      list.size(), 100.0 * loss.within / static_cast<double>(cases.size()), cases.size(), 100 * loss.mean,
      100 * loss.most_of_large_decode, 100 * loss.most, loss.worst.c_str());
  for (const std::size_t tile : sorted) std::printf(" %s", tiles[tile].text().c_str());
  std::printf("\n");
}

/// The list of members.cpp.
List present_list(const std::vector<W4a16Gemm>& descriptors, const std::vector<Tile>& tiles,
                  const cubit::codegen::Architecture& architecture) {
  List list;
  for (const W4a16Gemm& descriptor : descriptors) {
    for (const W4a16Gemm& member : w4a16_gemm::members(descriptor, architecture)) {
      for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
        const Tile& one = tiles[tile];
        const bool is_it = one.rows == member.tile_m && one.columns == member.tile_n;
        if (is_it && std::find(list.begin(), list.end(), tile) == list.end()) list.push_back(tile);
      }
    }
  }
  return list;
}

/// Every case in which the list loses more than 2%.
void print_losses(const std::vector<Case>& cases, const List& list, const std::vector<Tile>& tiles) {
  for (const Case& one : cases) {
    const double lost = time_of(one, list) / one.best - 1;
    if (lost <= kLoss) continue;
    const auto best = std::find(one.times.begin(), one.times.end(), one.best) - one.times.begin();
    std::printf("  %4.1f%% %s, wants %s\n", 100 * lost, one.name.c_str(),
                tiles[static_cast<std::size_t>(best)].text().c_str());
  }
}

int run(const std::string& kind, const char* architecture, int multiprocessors, double gigabytes_per_second) {
  constexpr std::size_t kMostMembers = 14;
  cubit::runtime::DeviceFacts device;
  device.architecture = &cubit::codegen::find_architecture(architecture);
  device.multiprocessors = multiprocessors;
  device.memory_bytes_per_second = static_cast<std::int64_t>(1e9 * gigabytes_per_second);
  const std::vector<Tile> tiles = all_tiles();
  const std::vector<W4a16Gemm> descriptors = variants(kind);
  const std::vector<Case> cases = make_cases(descriptors, tiles, device);
  List list;
  while (list.size() < kMostMembers) {
    list = grown(cases, list, tiles.size());
    exchange(cases, list, tiles.size());
    print(cases, list, tiles);
  }
  std::printf("the list of members.cpp:\n");
  const List present = present_list(descriptors, tiles, *device.architecture);
  print(cases, present, tiles);
  print_losses(cases, present, tiles);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string kind = argc > 1 ? argv[1] : "by_k";
  return argc > 4 ? run(kind, argv[2], std::atoi(argv[3]), std::atof(argv[4])) : run(kind, "sm_90a", 132, 4916.7);
} catch (const std::exception& error) {
  std::fprintf(stderr, "member_study: %s\n", error.what());
  return 1;
}
