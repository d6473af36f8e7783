// Executes loads, stores and asynchronous copies, lane by lane. PTX ISA, "ld", "st", "cp.async".
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/memory_map.hpp"
#include "runtime/cpu/program.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu::helpers {
namespace {

struct Window {
  std::byte* base;
  std::uint64_t bytes;
  const char* name;
};

/// Finds the block whose shared memory contains `address`, and leaves the offset in `address`. Returns nullptr after
/// warp.fail().
const Cta* block_of(Warp& warp, const Site& site, bool generic, std::uint64_t& address, int lane) {
  const std::uint64_t part = address >> kRankShift;
  if (part == 0) return warp.cta;
  const std::uint64_t rank = part - 1;
  const auto& ctas = warp.cta->cluster->ctas;
  if (rank >= ctas.size()) {
    warp.fail(site, lane, fmt::format("address {:#x} is beyond the shared memory of the cluster", address));
    return nullptr;
  }
  const Cta* const cta = ctas[rank];
  if (cta != warp.cta && !generic && !site.cluster) {
    warp.fail(site, lane, fmt::format("address {:#x} is in block rank {}, and not in .shared::cta", address, rank));
    return nullptr;
  }
  const auto has_ended = [](const Warp* other) { return other->state == WarpState::done; };
  if (std::all_of(cta->warps.begin(), cta->warps.end(), has_ended)) {
    warp.fail(site, lane, fmt::format("address {:#x} is in block rank {}, which has ended", address, rank));
    return nullptr;
  }
  address &= kSharedOffsetMask;
  return cta;
}

Window window_of(Warp& warp, ptx::Space space, int lane) {
  const Cta& cta = *warp.cta;
  if (space == ptx::Space::local) {
    const std::uint64_t bytes = cta.program->layout.local_bytes;
    return {warp.local + bytes * static_cast<std::uint64_t>(lane), bytes, "local memory"};
  }
  return {const_cast<std::byte*>(warp.parameters), cta.parameter_bytes, "the kernel's parameters"};
}

/// Performs the copies of `lane` for which is_due(copy) is true. `is_waited_for`: the lane itself waits for the copies.
template <class IsDue>
void arrive(Warp& warp, const Site& site, int lane, bool is_waited_for, IsDue is_due) {
  std::erase_if(warp.copies, [&](const PendingCopy& copy) {
    if (copy.lane != lane || !is_due(copy)) return false;
    std::byte* const dst = resolve(warp, site, ptx::Space::shared, false, copy.dst, copy.bytes, lane);
    if (dst == nullptr) return true;
    if (Checker* const checker = checker_of(warp)) {
      checker->land(warp, ptx::Space::shared, watched_address(warp, copy.dst), static_cast<std::uint64_t>(copy.bytes),
                    checker->order.land_thread_copy(warp, is_waited_for));
    }
    ++warp.cta->cluster->changes;
    std::memset(dst, 0, static_cast<std::size_t>(copy.bytes));
    if (copy.read == 0) return true;
    const std::byte* const src = resolve(warp, site, ptx::Space::global, false, copy.src, copy.read, lane);
    if (src != nullptr) std::memcpy(dst, src, static_cast<std::size_t>(copy.read));
    return true;
  });
}

/// The kernel's own variables lie outside all allocations.
bool is_variable(const Program& program, std::uint64_t address, std::uint64_t bytes) {
  const auto first = reinterpret_cast<std::uint64_t>(program.globals.get());
  return address >= first && address - first < program.global_bytes &&
         program.global_bytes - (address - first) >= bytes;
}

std::byte* resolve_global(Warp& warp, const Site& site, std::uint64_t address, std::uint64_t bytes, int lane) {
  const MemoryMap* const memory = warp.cta->memory;
  const bool good = memory == nullptr
                        ? address >= 4096
                        : memory->find(address, bytes) != nullptr || is_variable(*warp.cta->program, address, bytes);
  if (good) return reinterpret_cast<std::byte*>(address);
  std::string rule = fmt::format("{} bytes at {:#x} are in no allocation of this device", bytes, address);
  if (const MemoryMap::Range* const near = memory == nullptr ? nullptr : memory->below(address)) {
    rule += fmt::format("; the nearest below begins {} bytes before and has {}", address - near->first,
                        near->last - near->first);
  }
  warp.fail(site, lane, rule);
  return nullptr;
}

}  // namespace

ptx::Space space_of(std::uint64_t& address) {
  const std::uint64_t window = address & kWindowMask;
  if (window == kSharedWindow || window == kLocalWindow || window == kParameterWindow) {
    address -= window;
    if (window == kSharedWindow) return ptx::Space::shared;
    return window == kLocalWindow ? ptx::Space::local : ptx::Space::param;
  }
  return ptx::Space::global;
}

std::uint64_t watched_address(const Warp& warp, std::uint64_t address) {
  const std::uint64_t part = address >> kRankShift;
  return (part == 0 ? warp.cta->rank : part - 1) << kRankShift | (address & kSharedOffsetMask);
}

void watch_request(Warp& warp, Mask mask, const Site& site, RequestKind kind, int bytes) {
  if (warp.failure) return;
  Request request{.site = &site, .kind = kind, .bytes = static_cast<std::uint64_t>(bytes), .is_matrix = site.is_matrix};
  const auto addresses = source<std::uint64_t>(warp, 0);
  for_lanes(mask, [&](int lane) {
    std::uint64_t address = addresses[lane] + static_cast<std::uint64_t>(site.offset);
    ptx::Space space = site.space;
    if (site.generic) space = space_of(address);
    request.add({lane, space, space == ptx::Space::shared ? watched_address(warp, address) : address});
  });
  warp.watch->request(warp, request);
}

std::byte* resolve(Warp& warp, const Site& site, ptx::Space space, bool generic, std::uint64_t address, int bytes,
                   int lane) {
  if (address % static_cast<std::uint64_t>(bytes & -bytes) != 0) {
    warp.fail(site, lane, fmt::format("address {:#x} is not a multiple of {}", address, bytes & -bytes));
    return nullptr;
  }
  return resolve_range(warp, site, space, generic, address, static_cast<std::uint64_t>(bytes), lane);
}

std::byte* resolve_range(Warp& warp, const Site& site, ptx::Space space, bool generic, std::uint64_t address,
                         std::uint64_t bytes, int lane) {
  if (generic) space = space_of(address);
  if (space == ptx::Space::global || space == ptx::Space::constant) {
    return resolve_global(warp, site, address, static_cast<std::uint64_t>(bytes), lane);
  }
  Window window{};
  if (space == ptx::Space::shared) {
    const Cta* const cta = block_of(warp, site, generic, address, lane);
    if (cta == nullptr) return nullptr;
    window = {cta->shared, cta->shared_bytes, "shared memory"};
  } else {
    window = window_of(warp, space, lane);
  }
  if (address > window.bytes || window.bytes - address < bytes) {
    warp.fail(site, lane,
              fmt::format("bytes {:#x} to {:#x} are beyond {}, which has {}", address, address + bytes, window.name,
                          window.bytes));
    return nullptr;
  }
  return window.base + address;
}

void load(Warp& warp, Mask mask, const Site& site) {
  const auto addresses = source<std::uint64_t>(warp, 0);
  for_lanes(mask, [&](int lane) {
    const std::uint64_t address = addresses[lane] + static_cast<std::uint64_t>(site.offset);
    const std::byte* src = resolve(warp, site, site.space, site.generic, address, site.bytes * site.count, lane);
    if (src == nullptr) return;
    for (int i = 0; i < site.count; ++i, src += site.bytes) {
      std::memcpy(warp.results[i] + lane * site.bytes, src, static_cast<std::size_t>(site.bytes));
    }
  });
  if (warp.watch != nullptr) watch_request(warp, mask, site, RequestKind::read, site.bytes * site.count);
}

void store(Warp& warp, Mask mask, const Site& site) {
  const auto addresses = source<std::uint64_t>(warp, 0);
  for_lanes(mask, [&](int lane) {
    const std::uint64_t address = addresses[lane] + static_cast<std::uint64_t>(site.offset);
    std::byte* dst = resolve(warp, site, site.space, site.generic, address, site.bytes * site.count, lane);
    if (dst == nullptr) return;
    for (int i = 0; i < site.count; ++i, dst += site.bytes) {
      const std::byte* const src = warp.sources[i + 1] + lane * site.bytes;
      const auto bytes = static_cast<std::size_t>(site.bytes);
      if (std::memcmp(dst, src, bytes) != 0) ++warp.cta->cluster->changes;
      std::memcpy(dst, src, bytes);
    }
  });
  if (warp.watch != nullptr) watch_request(warp, mask, site, RequestKind::write, site.bytes * site.count);
}

namespace {

/// Reports cp.async to the watchers. For other agents, the write to shared memory counts from the start of the copy.
/// The read of global memory happens at the start, and only for the bytes that the copy reads.
void watch_copies(Warp& warp, Mask mask, const Site& site) {
  const auto bytes = static_cast<std::uint32_t>(site.bytes);
  Request writes{.site = &site, .kind = RequestKind::copy, .bytes = bytes};
  std::map<std::uint32_t, Request> reads;  // by size, because a tail reads fewer bytes
  for_lanes(mask, [&](int lane) {
    writes.add({lane, ptx::Space::shared, watched_address(warp, source<std::uint64_t>(warp, 0)[lane])});
    const std::uint32_t size = std::min(source<std::uint32_t>(warp, 2)[lane], bytes);
    if (size == 0) return;
    Request& request = reads[size];
    request.site = &site;
    request.bytes = size;
    request.add({lane, ptx::Space::global, source<std::uint64_t>(warp, 1)[lane]});
  });
  warp.watch->request(warp, writes);
  for (const auto& [size, request] : reads) warp.watch->request(warp, request);
}

}  // namespace

void copy_async(Warp& warp, Mask mask, const Site& site) {
  const auto targets = source<std::uint64_t>(warp, 0);
  const auto origins = source<std::uint64_t>(warp, 1);
  const auto sizes = source<std::uint32_t>(warp, 2);
  for_lanes(mask, [&](int lane) {
    const auto size = static_cast<std::uint32_t>(site.bytes);
    const PendingCopy copy{.lane = lane,
                           .group = warp.groups[static_cast<std::size_t>(lane)],
                           .dst = targets[lane],
                           .src = origins[lane],
                           .bytes = site.bytes,
                           .read = static_cast<int>(std::min(sizes[lane], size)),
                           .serial = warp.next_copy++};
    // The error is reported at the copy instruction, not at the wait.
    if (copy.dst % size != 0 || (copy.read != 0 && copy.src % size != 0)) {
      return warp.fail(site, lane, fmt::format("{:#x} from {:#x}: not multiples of {}", copy.dst, copy.src, size));
    }
    if (resolve(warp, site, ptx::Space::shared, false, copy.dst, copy.bytes, lane) != nullptr)
      warp.copies.push_back(copy);
  });
  if (warp.watch != nullptr && !warp.failure) watch_copies(warp, mask, site);
}

void fence(Warp& warp, Mask mask, const Site& site) {
  Checker* const checker = checker_of(warp);
  if (mask != 0 && checker != nullptr) checker->fence(warp, site);
}

void commit_copies(Warp& warp, Mask mask, const Site&) {
  for_lanes(mask, [&](int lane) { ++warp.groups[static_cast<std::size_t>(lane)]; });
}

void wait_copies(Warp& warp, Mask mask, const Site& site) {
  for_lanes(mask, [&](int lane) {
    const std::int64_t committed = warp.groups[static_cast<std::size_t>(lane)];
    arrive(warp, site, lane, true,
           [&](const PendingCopy& copy) { return site.kind < 0 || copy.group < committed - site.kind; });
  });
}

void finish_copies(Warp& warp, const Site& site, int lane, std::uint64_t serial) {
  arrive(warp, site, lane, false, [&](const PendingCopy& copy) { return copy.serial < serial; });
}

}  // namespace cubit::runtime::cpu::helpers
