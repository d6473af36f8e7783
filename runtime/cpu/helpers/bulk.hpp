// Common parts of bulk copies of ranges (bulk.cpp) and of tensor boxes (tensor.cpp).
#pragma once

#include "runtime/cpu/execute/mbarrier.hpp"
#include "runtime/cpu/helpers/helpers.hpp"

namespace cubit::runtime::cpu::helpers {

/// Shared-memory addresses of a bulk copy: the destination, and the mbarrier to report to.
struct Target {
  std::uint64_t dst;
  std::uint64_t object;
};

/// Makes a copy or a reduction that belongs to the lane's open group.
Delivery begun(Warp& warp, const Site& site, int lane, bool reduces);

/// Converts a shared address to a host pointer. Returns nullptr after warp.fail().
std::byte* shared_place(Warp& warp, const Site& site, int lane, std::uint64_t address, std::uint64_t bytes);

/// Puts the operation in flight.
void send(Delivery delivery);
/// Puts a copy into the shared memory of one block in flight.
void send_to_block(const Target& target, Delivery delivery);
/// Puts copies to the same offset in each block that source 4 names in flight.
void send_to_blocks(const Target& target, const Delivery& delivery);

}  // namespace cubit::runtime::cpu::helpers
