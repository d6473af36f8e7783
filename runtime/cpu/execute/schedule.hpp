// Runs one cluster: the warps of its blocks take turns on one host thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/program.hpp"

namespace cubit::runtime::cpu {

/// Detects deadlock. Clusters may wait for each other through global memory; the class distinguishes this from clusters
/// that no other cluster can help any more. Each host thread of a launch is a runner.
class Standstill {
 public:
  Standstill(std::size_t runners, std::uint64_t clusters) : still_since_(runners, kMoving), to_begin_(clusters) {}

  std::uint64_t now() const { return moves_; }
  std::uint64_t changes() const { return changes_; }
  void moved() { ++moves_; }  ///< a warp is at a new position
  void changed() {            ///< memory changed, or a warp arrived somewhere or ended
    ++changes_;
    ++moves_;
  }
  /// Reports that the runner's cluster changed nothing in a round of turns that began at `since`. Returns true if no
  /// other runner has changed anything since then, so that no cluster will ever continue.
  bool is_final(std::size_t runner, std::uint64_t since);
  void leave(std::size_t runner);  ///< the runner has no more clusters to run
  void begin_cluster() { --to_begin_; }
  std::uint64_t clusters_to_begin() const { return to_begin_; }

 private:
  static constexpr std::uint64_t kMoving = ~std::uint64_t{0};
  static constexpr std::uint64_t kGone = kMoving - 1;

  std::atomic<std::uint64_t> moves_{0};
  std::atomic<std::uint64_t> changes_{0};
  std::mutex mutex_;
  std::vector<std::uint64_t> still_since_;
  std::atomic<std::uint64_t> to_begin_;
};

/// Returns the cluster size of the launch, which the launch or the kernel gives. Throws Failure(invalid_argument) if
/// both give different sizes, or if the grid is not a multiple of the cluster size.
std::array<std::uint32_t, 3> cluster_size(const Program& program, const Launch& launch);

/// Memory and warps of a cluster. run() may be called again for the next cluster.
class ClusterRun {
 public:
  ClusterRun(const Program& program, const Launch& launch, Standstill& standstill, std::size_t runner,
             Watch* watch);  ///< `watch` may be nullptr

  /// Runs all blocks of the cluster with this index. Throws the failure of a warp, or a failure that describes a
  /// deadlock.
  void run(std::array<std::uint32_t, 3> index);

 private:
  using Clock = std::chrono::steady_clock;
  struct Block {
    Cta cta;
    AlignedBytes shared;
    AlignedBytes registers;
    AlignedBytes local;
    std::vector<std::unique_ptr<Warp>> warps;
  };

  void add_block(std::uint32_t rank);
  void add_warp(Block& block, std::size_t index, std::size_t count);
  void start(std::array<std::uint32_t, 3> index);
  void start_block(Block& block, std::array<std::uint32_t, 3> cluster);
  bool take_turns();  ///< false when all warps have ended
  void finish();      ///< called after all warps have ended
  void go_on();
  void stand_still(std::uint64_t since);
  bool is_as_before();
  bool refuse_waiting();
  void wait_for_others(std::uint64_t since);
  [[noreturn]] void raise(const Cta& cta, const std::string& rule) const;
  [[noreturn]] void raise_standstill(const std::string& what) const;
  template <class Body>
  void for_warps(Body body) {
    for (const auto& block : blocks_) {
      for (const auto& warp : block->warps) body(*warp);
    }
  }

  const Program& program_;
  const Launch& launch_;
  Standstill& standstill_;
  std::size_t runner_;
  Watch* watch_;
  std::uint32_t threads_;
  std::array<std::uint32_t, 3> size_;
  Cluster cluster_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Clock::time_point still_since_{};  ///< when the last change in the whole launch happened, as far as this cluster
                                     ///< knows
  std::uint64_t seen_changes_ = 0;   ///< the launch's number of changes at that time
  bool refused_ = false;             ///< since the last change, every try_wait has returned false
};

}  // namespace cubit::runtime::cpu
