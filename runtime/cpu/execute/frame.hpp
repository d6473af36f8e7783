// The state of a running warp: the Frame, which generated code addresses by offset, and the Warp, which adds C++ state.
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

using Mask = std::uint32_t;  ///< bit i stands for lane i

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

/// The part of a warp's state whose layout generated code knows. A slot holds one operand of an instruction that a C++
/// helper executes: 32 values of the operand's width, one per lane. A predicate is one bit per lane in the first four
/// bytes.
struct alignas(64) Frame {
  std::byte sources[kSourceSlots][kSlotBytes];
  std::byte results[kResultSlots][kSlotBytes];
  std::uint32_t tid[3][kLanes];
  std::uint32_t uniform[static_cast<std::size_t>(Uniform::count)];
  const std::byte* parameters;
  Invoke invoke;  ///< calls the C++ helper of an instruction
};

/// The code of a segment. Returns the lanes that take the segment's branch.
using SegmentCode = Mask (*)(Frame* frame, std::byte* registers, Mask mask);

struct Warp;
struct Site;
using Helper = void (*)(Warp& warp, Mask mask, const Site& site);

/// Windows of state spaces in the generic address space. No host pointer has these upper bits.
inline constexpr std::uint64_t kSharedWindow = 0x5348000000000000;
inline constexpr std::uint64_t kLocalWindow = 0x4c4f000000000000;
inline constexpr std::uint64_t kParameterWindow = 0x5041000000000000;
inline constexpr std::uint64_t kWindowMask = 0xffff000000000000;

/// A shared address has 32 bits. The lower bits are the offset in a block's shared memory. The upper bits are 0 for the
/// executing block, or the rank plus one of a block in the cluster. A .shared::cta address is therefore also a
/// .shared::cluster address.
inline constexpr int kRankShift = 24;
inline constexpr std::uint64_t kSharedOffsetMask = (std::uint64_t{1} << kRankShift) - 1;

/// An instruction that a C++ helper executes, with everything that is known before execution. The comment at each
/// helper says how it uses the fields.
struct Site {
  Helper helper = nullptr;
  const ptx::Instruction* instruction = nullptr;
  ptx::Space space = ptx::Space::global;
  bool generic = false;    ///< the address is generic
  bool cluster = false;    ///< the address may lie in another block of the cluster
  bool is_signed = false;  ///< loads sign-extend; integers divide and compare as signed
  bool flag = false;       ///< meaning depends on the helper: flush subnormals, has a result, …
  bool saturate = false;
  bool is_matrix = false;            ///< ldmatrix or stmatrix
  bool integral = false;             ///< a conversion rounds to an integral value, although the result may be a float
  int bytes = 0;                     ///< bytes of an element
  int result_bytes = 0;              ///< bytes of a register that receives an element
  int count = 1;                     ///< elements of a vector, or matrices of an ldmatrix
  int kind = 0;                      ///< an enumerator; the type depends on the helper
  int form = 0;                      ///< a second enumerator
  int from = 0;                      ///< number format of the source
  int to = 0;                        ///< number format of the result
  std::int64_t offset = 0;           ///< added to addresses
  std::vector<std::uint16_t> table;  ///< positions of fragment elements; the meaning depends on the helper
};

/// One entry of the divergence stack: the lanes of `mask` run from `segment` and stop at `until`.
struct Path {
  int segment;
  int until;
  Mask mask;
};

/// A cp.async that has started and not landed. The copy lands when its lane waits for its group and not before, so that
/// a missing wait shows as wrong data.
struct PendingCopy {
  int lane;
  std::uint32_t group;
  std::uint64_t dst;
  std::uint64_t src;
  int bytes;
  int read;  ///< bytes to read; the rest is filled with zeros
  std::uint64_t serial;
};

/// An mbarrier phase whose end a warp waits for.
struct PhaseWait {
  const std::byte* object;
  std::uint64_t address;
  bool parity;
};

/// Shared memory that a wgmma.mma_async reads until its group is waited for. Recorded only in checked launches.
struct WarpgroupReading {
  std::uint32_t group;
  const Site* site;
  std::vector<const std::byte*> chunks;  ///< 16-byte chunks
};

/// A warp's wgmma state. Groups are numbered from 1 in the order of their commit.
struct WarpgroupState {
  bool fenced = false;                           ///< the warp has executed a wgmma.fence
  std::uint32_t committed = 0;                   ///< number of committed groups
  std::uint32_t waited_for = 0;                  ///< all groups up to this number have completed
  std::vector<std::uint32_t> group_of_register;  ///< for each accumulator register, the group that last writes it; 0:
                                                 ///< none
  std::vector<WarpgroupReading> readings;
};

/// The event that a warp waits for.
enum class WarpState : std::uint8_t { ready, at_barrier, at_cluster_barrier, at_mbarrier, done };

struct Program;
struct Watch;
class MemoryMap;
struct Cluster;

/// State of a named barrier (bar, barrier). Threads are counted in whole warps, both for waiting and for arriving
/// warps.
struct NamedBarrier {
  std::uint32_t arrived = 0;
  std::uint32_t expected = 0;  ///< threads; 0: all threads of the block
  std::uint32_t voters = 0;    ///< for .red: lanes that gave a predicate
  std::uint32_t votes = 0;     ///< for .red: lanes whose predicate is true
};
inline constexpr std::size_t kNamedBarriers = 16;

/// A running thread block.
struct Cta {
  const Program* program = nullptr;
  std::array<std::uint32_t, 3> index{};
  std::array<std::uint32_t, 3> grid{};
  std::byte* shared = nullptr;
  std::uint32_t shared_bytes = 0;
  std::size_t parameter_bytes = 0;
  const MemoryMap* memory = nullptr;  ///< nullptr: addresses are not checked
  Cluster* cluster = nullptr;
  std::uint32_t rank = 0;  ///< rank in the cluster
  std::vector<Warp*> warps;
  std::array<NamedBarrier, kNamedBarriers> barriers{};

  /// linear index in the grid
  std::uint32_t number() const { return (index[2] * grid[1] + index[1]) * grid[0] + index[0]; }
};

/// A running warp.
struct Warp : Frame {
  Cta* cta = nullptr;
  Watch* watch = nullptr;  ///< nullptr: the launch is not watched
  int index = 0;
  std::byte* registers = nullptr;
  std::byte* local = nullptr;  ///< local memory, one lane after the other
  std::vector<Path> paths;
  Mask alive = 0;
  WarpState state = WarpState::ready;
  std::uint32_t barrier = 0;                   ///< the barrier at which the warp waits
  bool retry = false;                          ///< the warp executes its segment again when it is ready
  bool passed = false;                         ///< the barrier of the segment to execute again has opened
  std::uint32_t votes = 0;                     ///< of the last .red barrier: lanes whose predicate was true
  std::uint32_t voters = 0;                    ///< of the last .red barrier: lanes that voted
  Mask cluster_arrived = 0;                    ///< lanes that have arrived at the cluster's barrier, until it opens
  Mask cluster_owed = 0;                       ///< lanes that have arrived at the cluster's barrier and not waited
  std::uint32_t cluster_generation = 0;        ///< generation of the cluster's barrier at the arrival
  std::uint32_t jumps = 0;                     ///< backward jumps in this turn
  std::uint64_t fingerprint = 0;               ///< fingerprint of the warp's state at the end of its last turn
  int segment = 0;                             ///< the segment that the warp executes or waits in
  std::array<std::uint32_t, kLanes> groups{};  ///< committed cp.async groups, per lane
  std::vector<PendingCopy> copies;
  std::uint64_t next_copy = 0;                      ///< serial number of the next cp.async
  std::array<std::uint32_t, kLanes> bulk_groups{};  ///< committed bulk groups, per lane
  std::vector<PhaseWait> phases;                    ///< the unfinished phases that a try_wait waits for
  WarpgroupState wgmma;
  std::optional<std::string> failure;  ///< the first failure

  /// Records a failure, which ends the launch. Generated code continues to the end of its segment, but helpers do
  /// nothing any more.
  void fail(const Site& site, int lane, const std::string& rule);
};

/// Accesses the lanes of a slot as values of type T.
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

/// Calls body(lane) for every lane of `mask`, in ascending order.
template <class Body>
void for_lanes(Mask mask, Body body) {
  for (; mask != 0; mask &= mask - 1) body(__builtin_ctz(mask));
}

/// Reads an unsigned integer of `bytes` bytes from a slot.
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
