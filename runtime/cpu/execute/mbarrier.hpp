// The 64-bit object of an mbarrier, and what is under way to one. PTX ISA, "Phase of the mbarrier object", "Tracking
// asynchronous operations by the mbarrier object".
//
// A phase is over when no arrival and no byte is missing; the next begins at once with as many arrivals expected.
// Copies that report to an mbarrier arrive late on purpose: when somebody waits for the phase, and only as long as it
// is not over, or when nobody can go on. So a missing wait, and bytes that nobody said would come, are seen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cpu/execute/frame.hpp"
#include "runtime/cpu/watch/request.hpp"

namespace cubit::runtime::cpu {

struct Cluster;

struct Mbarrier {
  bool parity = false;         ///< of the phase that is not over
  std::uint32_t expected = 0;  ///< arrivals of a phase
  std::uint32_t missing = 0;   ///< arrivals of this phase
  std::int32_t bytes = 0;      ///< announced and not there yet; negative: there and not announced yet

  static constexpr std::uint32_t kMost = (1u << 20) - 1;  ///< arrivals, or bytes
};

std::uint64_t pack(const Mbarrier& state);
bool unpack(std::uint64_t word, Mbarrier& dst);  ///< false: not such a word
bool read_mbarrier(const std::byte* object, Mbarrier& dst);

struct MbarrierChange {
  std::uint32_t arrivals = 0;
  std::int64_t bytes = 0;  ///< announced; negative: there
  std::uint32_t drop = 0;  ///< fewer arrivals in the phases to come
  std::uint32_t more = 0;  ///< more arrivals in this phase
  bool may_end_phase = true;
};

/// The one place where a phase gets on or ends. Returns the rule that the change breaks, or "".
std::string apply(Cluster& cluster, std::byte* object, const MbarrierChange& change);

/// Whether the phase of `parity` is over.
bool is_over(const std::byte* object, bool parity);

/// Bytes of a tensor's box that lie together in global and in shared memory.
struct Strip {
  std::byte* global = nullptr;  ///< null: outside the tensor, where zeros are read and nothing is written
  std::uint64_t offset = 0;     ///< from the box's first byte in shared memory
  std::uint64_t bytes = 0;
};

/// A copy, a reduction or an arrival that is under way.
struct Delivery {
  enum class Kind : std::uint8_t { copy, reduce, arrival };
  Kind kind = Kind::copy;
  std::byte* object = nullptr;  ///< the mbarrier that is told; null: its lane waits for its group
  std::byte* dst = nullptr;
  const std::byte* src = nullptr;
  std::vector<std::byte> read = {};  ///< what was read of src already; then src is null
  std::vector<Strip> strips = {};    ///< of a tensor copy: its global side, of which dst and src know nothing
  std::size_t bytes = 0;
  bool reads_shared = false;  ///< `src` is in shared memory
  Warp* warp = nullptr;       ///< that started it
  int lane = 0;
  const Site* site = nullptr;
  std::uint32_t group = 0;
  std::uint64_t serial = 0;  ///< of an arrival: the lane's cp.async with lower ones come first
};

/// A place of a block's shared memory as the watchers have it, or of global memory.
std::uint64_t watched_place(const Cluster& cluster, const std::byte* place);
/// Tells the checker, if there is one, what a lane does to `bytes` from `place` on.
void watch_range(Warp& warp, const Site& site, int lane, RequestKind kind, ptx::Space space, const std::byte* place,
                 std::uint64_t bytes);

/// The one place where asynchronous bytes land.
void land(Cluster& cluster, Delivery& delivery);

/// What is under way to the mbarrier lands until the phase of `parity` is over.
void land_for_phase(Cluster& cluster, const std::byte* object, bool parity);

/// Everything that reports to an mbarrier. False: there was nothing.
bool land_all(Cluster& cluster);

/// A warp ends: what it still sends from shared to global memory has to have been read.
void land_at_end(Warp& warp);

}  // namespace cubit::runtime::cpu
