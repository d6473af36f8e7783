// Executes instructions that exchange data between the lanes of a warp. PTX ISA, "shfl.sync", "vote.sync",
// "match.sync", "redux.sync", "elect.sync".
#include <fmt/format.h>

#include "runtime/cpu/helpers/helpers.hpp"

namespace cubit::runtime::cpu::helpers {
namespace {

/// A collective needs every lane that it names, and must name every lane that executes it. Lanes that have left the
/// kernel are ignored. Returns false after warp.fail().
bool all_members_here(Warp& warp, Mask mask, const Site& site, int slot) {
  bool good = true;
  for_lanes(mask, [&](int lane) {
    const Mask members = source<Mask>(warp, slot)[lane];
    if (!good) return;
    good = (members >> lane & 1) != 0 && (members & warp.alive & ~mask) == 0;
    if (good) return;
    warp.fail(site, lane, fmt::format("a collective of lanes {:#010x} is executed by lanes {:#010x}", members, mask));
  });
  return good;
}

struct Picked {
  int lane;
  bool in_range;
};

/// PTX ISA, shfl.sync: c holds the clamp value in bits 0-4 and the segment mask in bits 8-12.
Picked picked_lane(ShuffleKind kind, int lane, std::uint32_t b, std::uint32_t c) {
  const int operand = static_cast<int>(b & 31);
  const int clamp = static_cast<int>(c & 31);
  const int segment = static_cast<int>(c >> 8 & 31);
  const int largest = (lane & segment) | (clamp & ~segment);
  const int smallest = lane & segment;
  int from = lane;
  bool in_range = false;
  switch (kind) {
    case ShuffleKind::up:
      from = lane - operand;
      in_range = from >= largest;
      break;
    case ShuffleKind::down:
      from = lane + operand;
      in_range = from <= largest;
      break;
    case ShuffleKind::butterfly:
      from = lane ^ operand;
      in_range = from <= largest;
      break;
    case ShuffleKind::index:
      from = smallest | (operand & ~segment);
      in_range = from <= largest;
      break;
  }
  return {in_range ? from : lane, in_range};
}

template <class Integer>
Integer reduced(AtomicKind kind, Integer a, Integer b) {
  switch (kind) {
    case AtomicKind::min:
      return std::min(a, b);
    case AtomicKind::max:
      return std::max(a, b);
    case AtomicKind::bit_and:
      return a & b;
    case AtomicKind::bit_or:
      return a | b;
    case AtomicKind::bit_xor:
      return a ^ b;
    default:
      return static_cast<Integer>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  }
}

template <class Integer>
Integer reduce_members(Warp& warp, AtomicKind kind, Mask members) {
  const auto values = source<Integer>(warp, 0);
  Integer total = values[__builtin_ctz(members)];
  for_lanes(members & (members - 1), [&](int lane) { total = reduced(kind, total, values[lane]); });
  return total;
}

}  // namespace

void shuffle(Warp& warp, Mask mask, const Site& site) {
  if (!all_members_here(warp, mask, site, 3)) return;
  Mask in_range = 0;
  for_lanes(mask, [&](int lane) {
    const Picked picked = picked_lane(static_cast<ShuffleKind>(site.kind), lane, source<std::uint32_t>(warp, 1)[lane],
                                      source<std::uint32_t>(warp, 2)[lane]);
    // An inactive lane has no value. Its garbage must not look like a value.
    const bool takes_part = (mask >> picked.lane & 1) != 0;
    result<std::uint32_t>(warp).set(lane, takes_part ? source<std::uint32_t>(warp, 0)[picked.lane] : 0xdeadbeef);
    in_range |= static_cast<Mask>(picked.in_range) << lane;
  });
  set_result_mask(warp, 1, in_range);
}

void vote(Warp& warp, Mask mask, const Site& site) {
  if (!all_members_here(warp, mask, site, 1)) return;
  const Mask yes = source_mask(warp, 0) & mask;
  Mask answers = 0;
  for_lanes(mask, [&](int lane) {
    const Mask members = source<Mask>(warp, 1)[lane] & mask;
    const Mask votes = yes & members;
    bool answer = false;
    switch (static_cast<VoteKind>(site.kind)) {
      case VoteKind::all:
        answer = votes == members;
        break;
      case VoteKind::any:
        answer = votes != 0;
        break;
      case VoteKind::uniform:
        answer = votes == 0 || votes == members;
        break;
      case VoteKind::ballot:
        return result<Mask>(warp).set(lane, votes);
    }
    answers |= static_cast<Mask>(answer) << lane;
  });
  if (static_cast<VoteKind>(site.kind) != VoteKind::ballot) set_result_mask(warp, 0, answers);
}

void match(Warp& warp, Mask mask, const Site& site) {
  if (!all_members_here(warp, mask, site, 1)) return;
  Mask all = 0;
  for_lanes(mask, [&](int lane) {
    const Mask members = source<Mask>(warp, 1)[lane] & mask;
    Mask same = 0;
    for_lanes(members, [&](int other) {
      const bool equal = read_lane(warp.sources[0], site.bytes, lane) == read_lane(warp.sources[0], site.bytes, other);
      same |= static_cast<Mask>(equal) << other;
    });
    const bool is_all = same == members;
    if (static_cast<MatchKind>(site.kind) == MatchKind::all && !is_all) same = 0;
    result<Mask>(warp).set(lane, same);
    all |= static_cast<Mask>(is_all) << lane;
  });
  set_result_mask(warp, 1, all);
}

void reduce(Warp& warp, Mask mask, const Site& site) {
  if (!all_members_here(warp, mask, site, 1)) return;
  const auto kind = static_cast<AtomicKind>(site.kind);
  for_lanes(mask, [&](int lane) {
    const Mask members = source<Mask>(warp, 1)[lane] & mask;
    const auto total = site.is_signed ? static_cast<std::uint32_t>(reduce_members<std::int32_t>(warp, kind, members))
                                      : reduce_members<std::uint32_t>(warp, kind, members);
    result<std::uint32_t>(warp).set(lane, total);
  });
}

void warp_barrier(Warp& warp, Mask mask, const Site& site) { all_members_here(warp, mask, site, 0); }

void elect(Warp& warp, Mask mask, const Site& site) {
  if (!all_members_here(warp, mask, site, 0) || mask == 0) return;
  const auto leader = static_cast<std::uint32_t>(__builtin_ctz(mask));
  for_lanes(mask, [&](int lane) { result<std::uint32_t>(warp).set(lane, leader); });
  set_result_mask(warp, 1, 1u << leader);
}

void trap(Warp& warp, Mask mask, const Site& site) {
  if (mask != 0) warp.fail(site, __builtin_ctz(mask), "the kernel trapped");
}

}  // namespace cubit::runtime::cpu::helpers
