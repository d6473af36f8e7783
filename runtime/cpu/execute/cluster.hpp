// The state of a cluster while one host thread executes its blocks, and the barriers of blocks and clusters. A launch
// without clusters uses clusters of one block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cpu/execute/frame.hpp"
#include "runtime/cpu/execute/mbarrier.hpp"

namespace cubit::runtime::cpu {
/// The blocks of a running cluster.

struct Cluster {
  std::vector<Cta*> ctas;        ///< by rank
  std::uint32_t generation = 0;  ///< number of times that barrier.cluster has opened
  /// Counts events that may let a waiting warp continue: a changed byte, an arrival, or the end of a warp.
  std::uint64_t changes = 0;
  std::vector<Delivery> deliveries;  ///< asynchronous operations that are in flight, in the order of their start
};

/// Opens the named barrier if all expected threads have arrived. Called at each arrival and at the end of a warp.
void try_to_open(Cta& cta, std::size_t index);

/// Opens the barrier of the cluster if all lanes have arrived.
void try_to_open(Cluster& cluster);

/// Handles the end of a warp: barriers no longer expect the warp.
void end_warp(Warp& warp);

/// Describes the warp's position and what it waits for: "warp 3 of block rank 1 at bar.sync, PTX line 7, …".
std::string describe(const Warp& warp);

}  // namespace cubit::runtime::cpu
