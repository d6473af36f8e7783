// Counts bank conflicts by enumeration, and searches for the simplest layout with the fewest conflicts.
#include "codegen/tile_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "codegen/identifier.hpp"

namespace cubit::codegen {
namespace {

constexpr int kLanes = 32;
constexpr int kBanks = 32;
constexpr int kBankBytes = 4;
constexpr int kMaxSwizzleBits = 3;  // 8 units of 16 bytes cover all 32 banks

constexpr int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

bool is_matrix(AccessKind kind) { return kind == AccessKind::ldmatrix || kind == AccessKind::stmatrix; }

Failure bug(std::string given, std::string rule) {
  return Failure(Status::internal, std::move(given), std::move(rule));
}

void check(const TileLayout& layout) {
  const Swizzle& swizzle = layout.swizzle;
  const int part = layout.part_bytes;
  const bool parts = part == 0 || (part > 0 && layout.row_bytes % part == 0);
  const bool sound = layout.rows > 0 && layout.row_bytes > 0 && parts &&
                     layout.pitch >= (part == 0 ? layout.row_bytes : part) && swizzle.bits >= 0 &&
                     (swizzle.bits == 0 || (swizzle.base >= 0 && swizzle.shift_from >= swizzle.base + swizzle.bits));
  if (sound) return;
  throw bug(fmt::format("a layout of {} rows of {} bytes in parts of {}, pitch {}, swizzle <{}, {}, {}>", layout.rows,
                        layout.row_bytes, part, layout.pitch, swizzle.bits, swizzle.base, swizzle.shift_from),
            "rows, row_bytes >= 1, whole parts, pitch >= row or part, shift_from >= base + bits");
}

void check(const TileAccess& access) {
  const int bytes = access.bytes_per_lane;
  const bool width = bytes == 16 || (!is_matrix(access.kind) && (bytes == 2 || bytes == 4 || bytes == 8));
  if (!width || !access.at || access.instances < 0) {
    throw bug(fmt::format("access \"{}\" of {} bytes per lane", access.name, bytes),
              "an access needs an address function and moves 2, 4, 8 or 16 bytes per lane; a matrix access moves 16");
  }
}

/// All addresses of an access. The access's function is called once per instance and lane.
struct Trace {
  const TileAccess* access = nullptr;
  std::vector<std::optional<TileByte>> lanes;  // ordered by instance, then lane
};

Trace trace(const TileAccess& access) {
  check(access);
  Trace result{&access, {}};
  result.lanes.reserve(static_cast<std::size_t>(access.instances) * kLanes);
  for (int instance = 0; instance < access.instances; ++instance) {
    for (int lane = 0; lane < kLanes; ++lane) {
      result.lanes.push_back(access.at(instance, lane));
    }
  }
  return result;
}

/// Checks that the lane's bytes lie inside the tile, aligned and contiguous. Returns the address of the first byte.
int checked_address(const TileLayout& layout, const TileAccess& access, TileByte at, std::size_t index) {
  const int bytes = access.bytes_per_lane;
  const auto where = [&] {
    return fmt::format("access \"{}\", instance {}, lane {}: row {}, byte {}", access.name, index / kLanes,
                       index % kLanes, at.row, at.byte);
  };
  if (at.row < 0 || at.row >= layout.rows || at.byte < 0 || at.byte + bytes > layout.row_bytes) {
    throw bug(where(), fmt::format("outside the tile of {} rows of {} bytes", layout.rows, layout.row_bytes));
  }
  const int address = layout.address(at);
  const bool in_part = layout.part_bytes == 0 || at.byte % layout.part_bytes + bytes <= layout.part_bytes;
  const bool whole = in_part && (layout.swizzle.bits == 0 || (1 << layout.swizzle.base) >= bytes);
  if (address % bytes != 0 || !whole) {
    throw bug(where(), fmt::format("{} bytes at address {} are not aligned and contiguous", bytes, address));
  }
  return address;
}

/// The distinct words that the lanes of one phase touch, grouped by bank. Lanes share an access to the same word.
class Phase {
 public:
  void touch(int address, int bytes) {
    for (int word = address / kBankBytes; word <= (address + bytes - 1) / kBankBytes; ++word) touch_word(word);
  }
  int wavefronts() const { return *std::max_element(count_.begin(), count_.end()); }
  int ideal() const { return (total_ + kBanks - 1) / kBanks; }

 private:
  void touch_word(int word) {
    const auto bank = static_cast<std::size_t>(word % kBanks);
    const auto first = words_[bank].begin();
    const auto last = first + count_[bank];
    if (std::find(first, last, word) != last) return;
    *last = word;
    ++count_[bank];
    ++total_;
  }

  std::array<std::array<int, kLanes>, kBanks> words_;  // a lane adds at most one word to a bank; count_ holds the
                                                       // number of words
  std::array<int, kBanks> count_{};
  int total_ = 0;
};

struct Cost {
  int wavefronts = 0;
  int ideal = 0;
};

Cost instance_cost(const TileLayout& layout, const Trace& trace, std::size_t first) {
  const auto step = static_cast<std::size_t>(lanes_per_phase(*trace.access));
  Cost cost;
  for (std::size_t start = first; start < first + kLanes; start += step) {
    Phase phase;
    for (std::size_t index = start; index < start + step; ++index) {
      const std::optional<TileByte>& at = trace.lanes[index];
      if (!at) continue;
      phase.touch(checked_address(layout, *trace.access, *at, index), trace.access->bytes_per_lane);
    }
    cost.wavefronts += phase.wavefronts();
    cost.ideal += phase.ideal();
  }
  return cost;
}

ConflictProof prove_trace(const TileLayout& layout, const Trace& trace) {
  ConflictProof proof{.access = trace.access->name, .degree = 1};
  for (std::size_t first = 0; first < trace.lanes.size(); first += kLanes) {
    const Cost cost = instance_cost(layout, trace, first);
    if (cost.ideal == 0) continue;  // no lane takes part
    proof.degree = std::max(proof.degree, (cost.wavefronts + cost.ideal - 1) / cost.ideal);
    proof.wavefronts += cost.wavefronts;
    proof.ideal += cost.ideal;
  }
  return proof;
}

/// The vectors that the lanes of one phase touch, each distinct vector once. Distinct places are distinct words in
/// every layout.
struct PhaseTrace {
  std::vector<TileByte> places;
  int log2_bytes = 2;    ///< log2 of a vector's bytes, at least one word
  int ideal = 0;         ///< wavefronts that every layout needs
  int conflicts = 0;     ///< wavefronts beyond the ideal in the first candidate
  int ideal_beyond = 0;  ///< sum of the ideals of all later phases
};

/// The search's own representation of the accesses. It is valid for layouts whose rows start at multiples of `unit`
/// bytes and whose swizzles keep units of `unit` bytes whole. The words of a vector are then contiguous, so counting
/// vectors by the bank of their first word equals counting words by bank.
std::vector<PhaseTrace> phases_of(std::span<const Trace> traces) {
  std::vector<PhaseTrace> phases;
  for (const Trace& trace : traces) {
    const auto step = static_cast<std::size_t>(lanes_per_phase(*trace.access));
    const int bytes = std::max(trace.access->bytes_per_lane, kBankBytes);
    for (std::size_t start = 0; start < trace.lanes.size(); start += step) {
      PhaseTrace phase;
      phase.log2_bytes = std::bit_width(static_cast<unsigned>(bytes)) - 1;
      for (std::size_t index = start; index < start + step; ++index) {
        if (!trace.lanes[index]) continue;
        const TileByte at{trace.lanes[index]->row, trace.lanes[index]->byte & ~(bytes - 1)};
        const auto same = [&](const TileByte& other) { return other.row == at.row && other.byte == at.byte; };
        if (std::none_of(phase.places.begin(), phase.places.end(), same)) phase.places.push_back(at);
      }
      phase.ideal = (static_cast<int>(phase.places.size()) * bytes + kBanks * kBankBytes - 1) / (kBanks * kBankBytes);
      if (phase.ideal > 0) phases.push_back(std::move(phase));
    }
  }
  return phases;
}

int wavefronts(const TileLayout& layout, const PhaseTrace& phase) {
  std::array<std::uint8_t, kBanks> count{};
  const int columns = (kBanks * kBankBytes) >> phase.log2_bytes;
  std::uint8_t most = 0;
  for (const TileByte& at : phase.places) {
    const int column = (layout.address(at) >> phase.log2_bytes) & (columns - 1);
    most = std::max(most, ++count[static_cast<std::size_t>(column)]);
  }
  return most;
}

/// Puts the phases with the most conflicts in `first` first, so that the search rejects a worse layout early.
void order_by_conflicts(std::vector<PhaseTrace>& phases, const TileLayout& first) {
  for (PhaseTrace& phase : phases) phase.conflicts = wavefronts(first, phase) - phase.ideal;
  const auto more = [](const PhaseTrace& left, const PhaseTrace& right) { return left.conflicts > right.conflicts; };
  std::stable_sort(phases.begin(), phases.end(), more);
  int beyond = 0;
  for (auto phase = phases.rbegin(); phase != phases.rend(); ++phase) {
    phase->ideal_beyond = beyond;
    beyond += phase->ideal;
  }
}

/// Sums the wavefronts of all phases. Returns `limit` as soon as the sum cannot stay below `limit`.
int total_wavefronts(const TileLayout& layout, std::span<const PhaseTrace> phases, int limit) {
  int total = 0;
  for (const PhaseTrace& phase : phases) {
    total += wavefronts(layout, phase);
    if (total + phase.ideal_beyond >= limit) return limit;
  }
  return total;
}

Cost total_cost(const TileLayout& layout, std::span<const Trace> traces) {
  Cost total;
  for (const Trace& trace : traces) {
    for (std::size_t first = 0; first < trace.lanes.size(); first += kLanes) {
      const Cost cost = instance_cost(layout, trace, first);
      total.wavefronts += cost.wavefronts;
      total.ideal += cost.ideal;
    }
  }
  return total;
}

/// Adds the swizzles of a tile that keep units of `unit` bytes whole. Swizzles of 16-byte units come before narrower
/// swizzles.
void add_swizzles(std::vector<TileLayout>& candidates, const TileLayout& plain, int unit) {
  const int smallest_base = std::bit_width(static_cast<unsigned>(unit)) - 1;
  const int last_address = plain.rows * plain.pitch - 1;
  for (int bits = 1; bits <= kMaxSwizzleBits; ++bits) {
    for (int base = std::max(4, smallest_base); base >= smallest_base; --base) {
      for (int shift = base + bits; (last_address >> shift) > 0; ++shift) {
        TileLayout candidate = plain;
        candidate.swizzle = {.bits = bits, .base = base, .shift_from = shift};
        candidates.push_back(candidate);
      }
    }
  }
}

TileLayout plain_layout(int rows, int row_bytes, int alignment) {
  return {.rows = rows, .row_bytes = row_bytes, .pitch = round_up(row_bytes, alignment), .swizzle = {}};
}

/// All other candidate layouts, simplest first: swizzled, padded, padded and swizzled.
std::vector<TileLayout> candidates_after(const TileLayout& plain, int alignment, int unit) {
  std::vector<TileLayout> swizzled;
  add_swizzles(swizzled, plain, unit);
  std::vector<TileLayout> padded;
  std::vector<TileLayout> both;
  // Banks repeat every 128 bytes, so the effect of padding does too.
  const int steps = kBanks * kBankBytes / alignment;
  for (int step = 1; step < steps; ++step) {
    TileLayout wider = plain;
    wider.pitch += step * alignment;
    padded.push_back(wider);
    add_swizzles(both, wider, unit);
  }
  std::vector<TileLayout> candidates;
  for (std::vector<TileLayout>* group : {&swizzled, &padded, &both}) {
    const auto smaller = [](const TileLayout& left, const TileLayout& right) { return left.size() < right.size(); };
    std::stable_sort(group->begin(), group->end(), smaller);
    candidates.insert(candidates.end(), group->begin(), group->end());
  }
  return candidates;
}

/// The widest vector that a swizzle must keep whole.
int widest_unit(int alignment, std::span<const TileAccess> accesses) {
  int unit = std::max(alignment, kBankBytes);
  for (const TileAccess& access : accesses) unit = std::max(unit, access.bytes_per_lane);
  return unit;
}

}  // namespace

int TileLayout::size() const {
  const int extent =
      part_bytes == 0 ? (rows - 1) * pitch + row_bytes : (row_bytes / part_bytes * rows - 1) * pitch + part_bytes;
  if (swizzle.bits == 0) return extent;
  // The XOR permutes addresses within blocks of 2^(base + bits) bytes, so a whole number of blocks holds every address.
  return round_up(extent, 1 << (swizzle.base + swizzle.bits));
}

int lanes_per_phase(const TileAccess& access) {
  if (is_matrix(access.kind) || access.bytes_per_lane == 16) return 8;
  return access.bytes_per_lane == 8 ? 16 : kLanes;
}

ConflictProof prove(const TileLayout& layout, const TileAccess& access) {
  check(layout);
  return prove_trace(layout, trace(access));
}

std::vector<ConflictProof> prove(const TileLayout& layout, std::span<const TileAccess> accesses) {
  std::vector<ConflictProof> proofs;
  for (const TileAccess& access : accesses) proofs.push_back(prove(layout, access));
  return proofs;
}

TileLayout search_layout(int rows, int row_bytes, int alignment, std::span<const TileAccess> accesses) {
  if (alignment < 1 || alignment > kBanks * kBankBytes || !std::has_single_bit(static_cast<unsigned>(alignment))) {
    throw bug(fmt::format("row alignment {}", alignment), "a power of two from 1 to 128");
  }
  std::vector<Trace> traces;
  for (const TileAccess& access : accesses) traces.push_back(trace(access));
  const int unit = widest_unit(alignment, accesses);
  TileLayout best = plain_layout(rows, row_bytes, alignment);
  check(best);
  const Cost plain = total_cost(best, traces);  // also checks that every access is inside the tile and aligned
  int fewest = plain.wavefronts;
  // If rows start at word boundaries, the ideal is the same for every layout, so no layout can be better.
  if (alignment % kBankBytes == 0 && fewest == plain.ideal) return best;
  const bool by_pieces = alignment == unit;
  std::vector<PhaseTrace> phases;
  if (by_pieces) {
    phases = phases_of(traces);
    order_by_conflicts(phases, best);
  }
  for (const TileLayout& candidate : candidates_after(best, alignment, unit)) {
    check(candidate);
    const Cost cost =
        by_pieces ? Cost{total_wavefronts(candidate, phases, fewest), plain.ideal} : total_cost(candidate, traces);
    if (cost.wavefronts >= fewest) continue;
    best = candidate;
    fewest = cost.wavefronts;
    if (alignment % kBankBytes == 0 && fewest == cost.ideal) break;
  }
  return best;
}

std::string layout_function(const std::string& name, const TileLayout& layout) {
  check(layout);
  check_identifier(name, "layout function");
  const std::string head = fmt::format("constexpr __device__ int {}(int row, int byte) {{", name);
  const int part = layout.part_bytes;
  const std::string affine = part == 0 ? fmt::format("row * {} + byte", layout.pitch)
                                       : fmt::format("byte / {1} * {2} + row * {0} + byte % {1}", layout.pitch, part,
                                                     layout.rows * layout.pitch);
  const Swizzle& swizzle = layout.swizzle;
  if (swizzle.bits == 0) return fmt::format("{} return {}; }}\n", head, affine);
  return fmt::format("{}\n  const int address = {};\n  return address ^ (((address >> {}) & {}) << {});\n}}\n", head,
                     affine, swizzle.shift_from, (1 << swizzle.bits) - 1, swizzle.base);
}

}  // namespace cubit::codegen
