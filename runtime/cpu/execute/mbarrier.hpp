// The 64-bit mbarrier object, and the asynchronous operations that report to it. PTX ISA, "Phase of the mbarrier
// object", "Tracking asynchronous operations by the mbarrier object".
//
// A phase ends when no arrival and no byte is missing; the next phase then begins with the same number of expected
// arrivals. Copies that report to an mbarrier land as late as possible: when a warp waits for the phase, one by one
// until the phase ends, or when no warp can continue otherwise. Late landing makes two bugs visible: a missing wait,
// and bytes that were never announced with expect_tx.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cpu/execute/frame.hpp"
#include "runtime/cpu/watch/request.hpp"

namespace cubit::runtime::cpu {

struct Cluster;

/// The decoded mbarrier object.
struct Mbarrier {
  bool parity = false;         ///< parity of the current phase
  std::uint32_t expected = 0;  ///< expected arrivals of a phase
  std::uint32_t missing = 0;   ///< missing arrivals of the current phase
  std::int32_t bytes = 0;      ///< announced bytes that have not landed; negative: landed bytes that were not announced
                               ///< yet

  static constexpr std::uint32_t kMost = (1u << 20) - 1;  ///< maximum number of arrivals, or of bytes
};

std::uint64_t pack(const Mbarrier& state);
bool unpack(std::uint64_t word, Mbarrier& dst);  ///< false if the word is not an mbarrier object
bool read_mbarrier(const std::byte* object, Mbarrier& dst);

/// One operation on an mbarrier.
struct MbarrierChange {
  std::uint32_t arrivals = 0;
  std::int64_t bytes = 0;  ///< announced bytes; negative: landed bytes
  std::uint32_t drop = 0;  ///< arrivals by which all later phases are reduced
  std::uint32_t more = 0;  ///< additional arrivals in this phase
  bool may_end_phase = true;
};

/// Applies a change to an mbarrier. No other function changes or ends a phase. Returns the rule that the change breaks,
/// or "".
std::string apply(Cluster& cluster, std::byte* object, const MbarrierChange& change);

/// True if the phase of this parity has ended.
bool is_over(const std::byte* object, bool parity);

/// A part of a tensor's box that is contiguous in global and in shared memory.
struct Strip {
  std::byte* global = nullptr;  ///< nullptr: outside the tensor, where reads give zeros and writes are dropped
  std::uint64_t offset = 0;     ///< offset in bytes from the start of the box in shared memory
  std::uint64_t bytes = 0;
};

/// An asynchronous copy, reduction or arrival in flight.
struct Delivery {
  enum class Kind : std::uint8_t { copy, reduce, arrival };
  Kind kind = Kind::copy;
  std::byte* object = nullptr;  ///< the mbarrier to report to; nullptr: the lane waits for the copy's group
  std::byte* dst = nullptr;
  const std::byte* src = nullptr;
  std::vector<std::byte> read = {};  ///< bytes of src that were read already; src is then nullptr
  std::vector<Strip> strips = {};    ///< global side of a tensor copy, which dst and src do not describe
  std::size_t bytes = 0;
  bool reads_shared = false;  ///< `src` is in shared memory
  Warp* warp = nullptr;       ///< the warp that started the operation
  int lane = 0;
  const Site* site = nullptr;
  std::uint32_t group = 0;
  std::uint64_t serial = 0;  ///< for an arrival: the lane's cp.async with lower serial numbers come first
};

/// The address under which the watchers know a byte of a block's shared memory or of global memory.
std::uint64_t watched_place(const Cluster& cluster, const std::byte* place);
/// Reports to the checker, if there is one, that a lane accesses `bytes` bytes from `place` on.
void watch_range(Warp& warp, const Site& site, int lane, RequestKind kind, ptx::Space space, const std::byte* place,
                 std::uint64_t bytes);

/// Lands the bytes of an asynchronous operation. No other function does.
void land(Cluster& cluster, Delivery& delivery);

/// Lands operations that report to the mbarrier until the phase of `parity` has ended.
void land_for_phase(Cluster& cluster, const std::byte* object, bool parity);

/// Lands all operations that report to an mbarrier. Returns false if there were none.
bool land_all(Cluster& cluster);

/// Checks at the end of a warp that its copies from shared to global memory have read their source.
void land_at_end(Warp& warp);

}  // namespace cubit::runtime::cpu
