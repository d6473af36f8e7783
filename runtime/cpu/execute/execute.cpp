// Runs a grid: distributes its clusters, in order, over all processors. schedule.cpp runs a cluster, run_warp.cpp a
// warp.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "runtime/cpu/execute/schedule.hpp"
#include "runtime/cpu/program.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu {
namespace {

constexpr std::uint32_t kMaxBlockThreads = 1024;

/// Hands out clusters to threads and keeps the first failure.
class Grid {
 public:
  Grid(const Program& program, const Launch& launch)
      : program_(program),
        launch_(launch),
        clusters_(clusters_of(launch, cluster_size(program, launch))),
        count_(std::uint64_t{clusters_[0]} * clusters_[1] * clusters_[2]),
        runners_(std::min<std::uint64_t>(count_, launch.check ? 1 : std::max(1u, std::thread::hardware_concurrency()))),
        standstill_(runners_, count_) {}

  void run() {
    std::vector<std::thread> helpers;
    std::size_t next = 1;
    try {
      for (; next < runners_; ++next) helpers.emplace_back([this, next] { work(next); });
    } catch (const std::system_error&) {  // the system has no more threads; the existing threads do the work
      for (; next < runners_; ++next) standstill_.leave(next);
    }
    work(0);
    for (std::thread& helper : helpers) helper.join();
    if (failure_) throw Failure(*failure_);
  }

 private:
  static std::array<std::uint32_t, 3> clusters_of(const Launch& launch, const std::array<std::uint32_t, 3>& size) {
    return {launch.grid[0] / size[0], launch.grid[1] / size[1], launch.grid[2] / size[2]};
  }

  void work(std::size_t runner) {
    try {
      const std::unique_ptr<Watch> watch = make_watch();
      ClusterRun cluster(program_, launch_, standstill_, runner, watch.get());
      for (std::uint64_t i = next_++; i < count_ && !stop_; i = next_++) {
        const std::uint64_t rows = i / clusters_[0];
        cluster.run({static_cast<std::uint32_t>(i % clusters_[0]), static_cast<std::uint32_t>(rows % clusters_[1]),
                     static_cast<std::uint32_t>(rows / clusters_[1])});
      }
      if (watch && watch->counters) add(*watch->counters);
    } catch (const Failure& failure) {
      stop(failure);
    } catch (const std::exception& error) {
      stop(Failure(Status::internal, std::string(program_.function->name), error.what()));
    }
    standstill_.leave(runner);
  }

  /// nullptr if the launch is not watched.
  std::unique_ptr<Watch> make_watch() const {
    if (!launch_.check && launch_.counters == nullptr) return nullptr;
    auto watch = std::make_unique<Watch>();
    if (launch_.check) watch->checker.emplace(program_);
    if (launch_.counters != nullptr) watch->counters.emplace(program_);
    return watch;
  }

  void add(const Counters& counters) {
    const std::lock_guard lock(mutex_);
    launch_.counters->add(counters);
  }

  void stop(const Failure& failure) {
    stop_ = true;
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }

  const Program& program_;
  const Launch& launch_;
  std::array<std::uint32_t, 3> clusters_;
  std::uint64_t count_;
  std::size_t runners_;
  Standstill standstill_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::optional<Failure> failure_;
};

void check(const Program& program, const Launch& launch) {
  const std::uint64_t threads = std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  const std::string kernel = fmt::format("a launch of {}", program.function->name);
  if (threads < 1 || threads > kMaxBlockThreads) {
    throw Failure(Status::invalid_argument, kernel,
                  fmt::format("a block has 1 to {} threads, not {}", kMaxBlockThreads, threads));
  }
  if (launch.parameters.size() != program.layout.parameter_bytes) {
    throw Failure(Status::invalid_argument, kernel,
                  fmt::format("the kernel's parameters have {} bytes, not {}", program.layout.parameter_bytes,
                              launch.parameters.size()));
  }
}

}  // namespace

void Warp::fail(const Site& site, int lane, const std::string& rule) {
  if (failure) return;
  failure = fmt::format("{}; {}, warp {}, lane {}", rule, cta->program->place(*site.instruction), index, lane);
}

void execute(const Program& program, const Launch& launch) {
  check(program, launch);
  Grid(program, launch).run();
}

}  // namespace cubit::runtime::cpu
