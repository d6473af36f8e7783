// Running one cluster: all warps of its blocks take turns on one thread of the host.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cpu/execute/cluster.hpp"
#include "runtime/cpu/program.hpp"

namespace cubit::runtime::cpu {

/// Tells clusters that wait for one another through global memory from clusters that nobody can help any more. Each
/// thread of a launch is a runner.
class Standstill {
 public:
  Standstill(std::size_t runners, std::uint64_t clusters) : still_since_(runners, kMoving), to_begin_(clusters) {}

  std::uint64_t now() const { return moves_; }
  std::uint64_t changes() const { return changes_; }
  void moved() { ++moves_; }  ///< a warp stands elsewhere
  void changed() {            ///< memory is different, or somebody arrived or ended
    ++changes_;
    ++moves_;
  }
  /// The runner's cluster changed nothing in a round of turns that began at `since`. True: neither did any other since
  /// then, so that none of them ever will.
  bool is_final(std::size_t runner, std::uint64_t since);
  void leave(std::size_t runner);  ///< it runs no more clusters
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

/// The size of the launch's clusters: its own, or the kernel's. Throws Failure(invalid_argument) if they disagree or
/// the grid is not made of whole clusters.
std::array<std::uint32_t, 3> cluster_size(const Program& program, const Launch& launch);

/// Memory and warps of a cluster; run() may be called again for the next.
class ClusterRun {
 public:
  ClusterRun(const Program& program, const Launch& launch, Standstill& standstill, std::size_t runner,
             Watch* watch);  ///< `watch` may be null

  /// All blocks of the cluster with this index. Throws the failure of a warp, or a deadlock's.
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
  bool take_turns();  ///< false: all have ended
  void finish();      ///< when they have
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
  Clock::time_point still_since_{};  ///< nothing has changed in the whole launch, as far as this cluster knows
  std::uint64_t seen_changes_ = 0;   ///< of the launch, then
  bool refused_ = false;             ///< since the last change every try_wait was told that its phase is not over
};

}  // namespace cubit::runtime::cpu
