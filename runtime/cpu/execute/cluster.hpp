// The blocks of a cluster while they execute together on one thread of the host, and their barriers. A block of a
// launch without clusters is a cluster of one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cpu/execute/frame.hpp"
#include "runtime/cpu/execute/mbarrier.hpp"

namespace cubit::runtime::cpu {

struct Cluster {
  std::vector<Cta*> ctas;        ///< by rank
  std::uint32_t generation = 0;  ///< how often barrier.cluster has opened
  /// Counts whatever may let somebody go on who could not before: a changed byte, an arrival, the end of a warp.
  std::uint64_t changes = 0;
  std::vector<Delivery> deliveries;  ///< under way, in the order in which they were started
};

/// Opens the named barrier if all whom it expects are there. Called at each arrival and at the end of a warp.
void try_to_open(Cta& cta, std::size_t index);

/// The same of the barrier of the cluster.
void try_to_open(Cluster& cluster);

/// The warp has ended: nobody waits for it any more.
void end_warp(Warp& warp);

/// "warp 3 of block rank 1 at bar.sync, PTX line 7", and what it waits for.
std::string describe(const Warp& warp);

}  // namespace cubit::runtime::cpu
