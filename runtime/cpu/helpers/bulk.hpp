// What all asynchronous copies in bulk begin with, whether they copy a range or a tensor's box.
#pragma once

#include "runtime/cpu/execute/mbarrier.hpp"
#include "runtime/cpu/helpers/helpers.hpp"

namespace cubit::runtime::cpu::helpers {

/// Shared addresses: where bytes go, and the mbarrier that is told.
struct Target {
  std::uint64_t dst;
  std::uint64_t object;
};

/// A copy or a reduction of the lane's open group.
Delivery begun(Warp& warp, const Site& site, int lane, bool reduces);

/// Shared memory as host memory; null after warp.fail().
std::byte* shared_place(Warp& warp, const Site& site, int lane, std::uint64_t address, std::uint64_t bytes);

/// From now on it is under way.
void send(Delivery delivery);
/// Into the shared memory of one block.
void send_to_block(const Target& target, Delivery delivery);
/// To the same place in each block that source 4 names.
void send_to_blocks(const Target& target, const Delivery& delivery);

}  // namespace cubit::runtime::cpu::helpers
