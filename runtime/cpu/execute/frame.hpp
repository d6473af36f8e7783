// What a warp is while it executes: the part that generated code addresses by offset, and the part behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cpu/ptx/ast.hpp"

namespace cubit::runtime::cpu {

using Mask = std::uint32_t;  ///< bit i: lane i

inline constexpr int kLanes = 32;
inline constexpr int kSlotBytes = kLanes * 8;
inline constexpr int kSourceSlots = 16;
inline constexpr int kResultSlots = 8;

/// Values that all lanes of a warp share, in the order of Frame::uniform.
enum class Uniform : std::uint8_t {
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  warpid,
  nwarpid,
  dynamic_smem_size,
  total_smem_size,
  count,
};

struct Frame;
using Invoke = void (*)(Frame* frame, Mask mask, std::uint32_t site);

/// Generated code knows this layout. A slot holds one operand of an instruction that runs in C++: 32 values of its
/// width, one per lane; of a predicate one bit per lane in the first four bytes.
struct alignas(64) Frame {
  std::byte sources[kSourceSlots][kSlotBytes];
  std::byte results[kResultSlots][kSlotBytes];
  std::uint32_t tid[3][kLanes];
  std::uint32_t uniform[static_cast<std::size_t>(Uniform::count)];
  const std::byte* parameters;
  Invoke invoke;  ///< runs an instruction in C++
};

/// A segment's code. Returns the lanes that take its branch.
using SegmentCode = Mask (*)(Frame* frame, std::byte* registers, Mask mask);

struct Warp;
struct Site;
using Helper = void (*)(Warp& warp, Mask mask, const Site& site);

/// Where the window of a state space begins in the generic address space. No host pointer looks like these.
inline constexpr std::uint64_t kSharedWindow = 0x5348000000000000;
inline constexpr std::uint64_t kLocalWindow = 0x4c4f000000000000;
inline constexpr std::uint64_t kParameterWindow = 0x5041000000000000;
inline constexpr std::uint64_t kWindowMask = 0xffff000000000000;

/// A shared address has 32 bits: the offset in a block's shared memory, and above it 0 for the executing block, or one
/// more than the rank of a block of its cluster. So an address of .shared::cta is one of .shared::cluster too.
inline constexpr int kRankShift = 24;
inline constexpr std::uint64_t kSharedOffsetMask = (std::uint64_t{1} << kRankShift) - 1;

/// An instruction that runs in C++: everything that is known of it before it runs.
struct Site {
  Helper helper = nullptr;
  const ptx::Instruction* instruction = nullptr;
  ptx::Space space = ptx::Space::global;
  bool generic = false;    ///< the address is a generic one
  bool cluster = false;    ///< the address may lie in another block of the cluster
  bool is_signed = false;  ///< loads extend, integers divide and compare so
  bool flag = false;       ///< per helper: flushes subnormals, has a result, …
  bool saturate = false;
  bool is_matrix = false;            ///< ldmatrix, stmatrix
  bool integral = false;             ///< of a conversion: to an integer, though the result may be a float
  int bytes = 0;                     ///< of an element
  int result_bytes = 0;              ///< of a register that takes one
  int count = 1;                     ///< elements of a vector, matrices of an ldmatrix
  int kind = 0;                      ///< an enum of the helper's
  int form = 0;                      ///< another one
  int from = 0;                      ///< numbers: format of the source
  int to = 0;                        ///< numbers: format of the result
  std::int64_t offset = 0;           ///< added to addresses
  std::vector<std::uint16_t> table;  ///< of fragments: per helper
};

/// One entry of the stack by which diverged lanes find together again: `mask` runs from `segment` and stops at `until`.
struct Path {
  int segment;
  int until;
  Mask mask;
};

/// cp.async, started and not yet there. It arrives when its lane waits for its group and not before, so that a missing
/// wait shows.
struct PendingCopy {
  int lane;
  std::uint32_t group;
  std::uint64_t dst;
  std::uint64_t src;
  int bytes;
  int read;  ///< the rest is zeros
  std::uint64_t serial;
};

/// An mbarrier's phase that a warp waits for the end of.
struct PhaseWait {
  const std::byte* object;
  std::uint64_t address;
  bool parity;
};

/// A wgmma.mma_async reads shared memory until its group is waited for. Remembered only where somebody checks.
struct WarpgroupReading {
  std::uint32_t group;
  const Site* site;
  std::vector<const std::byte*> chunks;  ///< of 16 bytes
};

/// A warp's wgmma: groups are counted from 1, in the order of their commit.
struct WarpgroupState {
  bool fenced = false;                           ///< there was a wgmma.fence
  std::uint32_t committed = 0;                   ///< groups
  std::uint32_t waited_for = 0;                  ///< groups up to this one are over
  std::vector<std::uint32_t> group_of_register;  ///< of each accumulator register, the last that writes it; 0: none
  std::vector<WarpgroupReading> readings;
};

/// What a warp waits for.
enum class WarpState : std::uint8_t { ready, at_barrier, at_cluster_barrier, at_mbarrier, done };

struct Program;
struct Watch;
class MemoryMap;
struct Cluster;

/// bar and barrier: threads are counted by whole warps, whether they wait or only arrive.
struct NamedBarrier {
  std::uint32_t arrived = 0;
  std::uint32_t expected = 0;  ///< 0: all of the block
  std::uint32_t voters = 0;    ///< of .red: lanes that gave a predicate
  std::uint32_t votes = 0;     ///< and those for which it holds
};
inline constexpr std::size_t kNamedBarriers = 16;

/// A block of threads while it executes.
struct Cta {
  const Program* program = nullptr;
  std::array<std::uint32_t, 3> index{};
  std::array<std::uint32_t, 3> grid{};
  std::byte* shared = nullptr;
  std::uint32_t shared_bytes = 0;
  std::size_t parameter_bytes = 0;
  const MemoryMap* memory = nullptr;  ///< null: any address is believed
  Cluster* cluster = nullptr;
  std::uint32_t rank = 0;  ///< in the cluster
  std::vector<Warp*> warps;
  std::array<NamedBarrier, kNamedBarriers> barriers{};

  std::uint32_t number() const { return (index[2] * grid[1] + index[1]) * grid[0] + index[0]; }  ///< in the grid
};

struct Warp : Frame {
  Cta* cta = nullptr;
  Watch* watch = nullptr;  ///< null: nobody watches
  int index = 0;
  std::byte* registers = nullptr;
  std::byte* local = nullptr;  ///< lane after lane
  std::vector<Path> paths;
  Mask alive = 0;
  WarpState state = WarpState::ready;
  std::uint32_t barrier = 0;                   ///< that it is at
  bool retry = false;                          ///< its segment is executed again when it is ready
  bool passed = false;                         ///< the barrier of the segment that is executed again has opened
  std::uint32_t votes = 0;                     ///< of the last .red barrier: what holds
  std::uint32_t voters = 0;                    ///< and of how many lanes
  Mask cluster_arrived = 0;                    ///< lanes at the cluster's barrier, until it opens
  Mask cluster_owed = 0;                       ///< lanes that have arrived and not waited
  std::uint32_t cluster_generation = 0;        ///< in which they arrived
  std::uint32_t jumps = 0;                     ///< backwards, in this turn
  std::uint64_t fingerprint = 0;               ///< of where it last stood when its turn ended
  int segment = 0;                             ///< being executed, or waited in
  std::array<std::uint32_t, kLanes> groups{};  ///< committed, per lane
  std::vector<PendingCopy> copies;
  std::uint64_t next_copy = 0;                      ///< serial number
  std::array<std::uint32_t, kLanes> bulk_groups{};  ///< committed, per lane
  std::vector<PhaseWait> phases;                    ///< of try_wait: those that are not over
  WarpgroupState wgmma;
  std::optional<std::string> failure;  ///< the first one

  /// Ends the launch. Generated code runs on to the end of its segment, in which no helper does anything any more.
  void fail(const Site& site, int lane, const std::string& rule);
};

/// Reads and writes a slot's lanes as T.
template <class T>
class Lanes {
 public:
  explicit Lanes(std::byte* slot) : slot_(slot) {}
  T operator[](int lane) const {
    T value;
    std::memcpy(&value, slot_ + sizeof(T) * static_cast<std::size_t>(lane), sizeof value);
    return value;
  }
  void set(int lane, T value) { std::memcpy(slot_ + sizeof(T) * static_cast<std::size_t>(lane), &value, sizeof value); }

 private:
  std::byte* slot_;
};

template <class T>
Lanes<T> source(Warp& warp, int index) {
  return Lanes<T>(warp.sources[index]);
}
template <class T>
Lanes<T> result(Warp& warp, int index = 0) {
  return Lanes<T>(warp.results[index]);
}
inline Mask source_mask(Warp& warp, int index) { return source<Mask>(warp, index)[0]; }
inline void set_result_mask(Warp& warp, int index, Mask mask) { result<Mask>(warp, index).set(0, mask); }

/// Calls body(lane) for every lane of `mask`, in order.
template <class Body>
void for_lanes(Mask mask, Body body) {
  for (; mask != 0; mask &= mask - 1) body(__builtin_ctz(mask));
}

/// Unsigned integer of `bytes` bytes, as a slot holds it.
inline std::uint64_t read_lane(std::byte* slot, int bytes, int lane) {
  std::uint64_t value = 0;
  std::memcpy(&value, slot + static_cast<std::size_t>(bytes) * static_cast<std::size_t>(lane),
              static_cast<std::size_t>(bytes));
  return value;
}
inline void write_lane(std::byte* slot, int bytes, int lane, std::uint64_t value) {
  std::memcpy(slot + static_cast<std::size_t>(bytes) * static_cast<std::size_t>(lane), &value,
              static_cast<std::size_t>(bytes));
}

}  // namespace cubit::runtime::cpu
