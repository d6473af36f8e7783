// Running a grid: blocks on all processors, the warps of a block in turns, the lanes of a warp together.
//
// A warp is a stack of paths. Where lanes part, the path below waits at the branch's immediate post-dominator with all
// of them, and the two sides go on top; a path that has arrived there is popped. A warp runs until it has to wait for
// the others of its block. When nobody can go on any more, that is a deadlock, and reported as one.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "runtime/cpu/program.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu {
namespace {

/// What shared memory holds before anybody writes: NaN in every format, and visibly wrong as an integer.
constexpr int kUninitialised = 0xff;
constexpr std::uint32_t kMaxBlockThreads = 1024;

void invoke(Frame* frame, Mask mask, std::uint32_t index) {
  auto& warp = static_cast<Warp&>(*frame);
  if (warp.failure || mask == 0) return;
  const Site& site = warp.cta->program->sites[index];
  try {
    site.helper(warp, mask, site);
  } catch (const std::exception& error) {  // must not pass through generated code
    warp.fail(site, 0, error.what());
  }
}

std::string position(const Warp& warp) {
  const Cta& cta = *warp.cta;
  const Segment& segment = cta.program->segments[static_cast<std::size_t>(warp.segment)];
  const int last = std::max(segment.first, segment.last - 1);
  return fmt::format("warp {} at {}", warp.index,
                     cta.program->place(cta.program->function->body[static_cast<std::size_t>(last)]));
}

void set_threads(Warp& warp, const Launch& launch, std::uint32_t threads) {
  const auto first = static_cast<std::uint32_t>(warp.index) * kLanes;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const std::uint32_t thread = first + lane;
    warp.tid[0][lane] = thread % launch.block[0];
    warp.tid[1][lane] = thread / launch.block[0] % launch.block[1];
    warp.tid[2][lane] = thread / launch.block[0] / launch.block[1];
  }
  warp.alive = threads - first >= kLanes ? ~Mask{0} : (Mask{1} << (threads - first)) - 1;
}

void set_uniform(Warp& warp, Uniform which, std::uint32_t value) {
  warp.uniform[static_cast<std::size_t>(which)] = value;
}

void set_triple(Warp& warp, Uniform first, const std::array<std::uint32_t, 3>& values) {
  std::copy(values.begin(), values.end(), warp.uniform + static_cast<std::size_t>(first));
}

// ---- one warp ----

void split(Warp& warp, const Segment& segment, Mask taken) {
  Path& top = warp.paths.back();
  const Mask others = top.mask & ~taken;
  if (others == 0 || taken == 0) {
    top.segment = taken == 0 ? segment.next : segment.target;
    return;
  }
  const int meet = segment.reconverge;
  if (meet == top.until) {
    warp.paths.pop_back();  // nothing is left to do where they meet
  } else {
    top.segment = meet;
  }
  warp.paths.push_back({segment.next, meet, others});
  warp.paths.push_back({segment.target, meet, taken});
}

void leave(Warp& warp, const Segment& segment, Mask leaving) {
  warp.paths.back().segment = segment.next;
  warp.alive &= ~leaving;
  for (Path& path : warp.paths) path.mask &= ~leaving;
}

void reach_barrier(Warp& warp, const Segment& segment) {
  Path& top = warp.paths.back();
  if (top.mask != warp.alive) {
    warp.failure = fmt::format("lanes {:#010x} of {:#010x} are at a barrier of the block; {}", top.mask, warp.alive,
                               position(warp));
    return;
  }
  const int lane = __builtin_ctz(top.mask);
  warp.barrier = source<std::uint32_t>(warp, 0)[lane];
  warp.barrier_threads = source<std::uint32_t>(warp, 1)[lane];
  warp.state = WarpState::at_barrier;
  top.segment = segment.next;
}

/// Until it waits, ends or fails.
void run_warp(Warp& warp) {
  const Program& program = *warp.cta->program;
  while (warp.state == WarpState::ready && !warp.failure) {
    if (warp.paths.empty()) {
      warp.state = WarpState::done;
      return;
    }
    const Path top = warp.paths.back();
    if (top.segment == top.until || top.segment == kEnd || top.mask == 0) {
      warp.paths.pop_back();
      continue;
    }
    warp.segment = top.segment;
    const auto index = static_cast<std::size_t>(top.segment);
    const Segment& segment = program.segments[index];
    if (warp.watch != nullptr && warp.watch->counters) warp.watch->counters->segment(top.segment);
    const Mask returned = program.code[index](&warp, warp.registers, top.mask) & top.mask;
    if (warp.failure) return;
    switch (segment.end) {
      case End::jump:
        warp.paths.back().segment = segment.next;
        break;
      case End::branch:
        split(warp, segment, returned);
        break;
      case End::leave:
        leave(warp, segment, returned);
        break;
      case End::barrier:
        reach_barrier(warp, segment);
        break;
    }
  }
}

// ---- one block ----

class Block {
 public:
  /// `watch` may be null.
  Block(const Program& program, const Launch& launch, Watch* watch)
      : program_(program),
        launch_(launch),
        watch_(watch),
        threads_(launch.block[0] * launch.block[1] * launch.block[2]) {
    const std::size_t count = (threads_ + kLanes - 1) / kLanes;
    cta_.program = &program;
    cta_.shared_bytes = program.layout.static_shared_bytes + launch.dynamic_shared_bytes;
    cta_.parameter_bytes = launch.parameters.size();
    cta_.memory = launch.memory;
    shared_ = allocate_aligned(cta_.shared_bytes);
    cta_.shared = shared_.get();
    registers_ = allocate_aligned(program.layout.register_bytes * count);
    local_ = allocate_aligned(std::size_t{program.layout.local_bytes} * kLanes * count);
    for (std::size_t i = 0; i < count; ++i) add_warp(i, count);
  }

  /// Throws the failure of a warp.
  void run(std::array<std::uint32_t, 3> index) {
    start(index);
    while (true) {
      bool all_done = true;
      for (const auto& warp : warps_) {
        run_warp(*warp);
        if (warp->failure) throw_failure(*warp);
        all_done = all_done && warp->state == WarpState::done;
      }
      if (all_done) return;
      if (!open_barriers()) throw_deadlock();
    }
  }

 private:
  void add_warp(std::size_t index, std::size_t count) {
    warps_.push_back(std::make_unique<Warp>());
    Warp& warp = *warps_.back();
    warp.cta = &cta_;
    warp.watch = watch_;
    warp.index = static_cast<int>(index);
    warp.registers = registers_.get() + program_.layout.register_bytes * index;
    warp.local = local_.get() + std::size_t{program_.layout.local_bytes} * kLanes * index;
    warp.parameters = launch_.parameters.data();
    warp.invoke = invoke;
    set_triple(warp, Uniform::ntid_x, launch_.block);
    set_triple(warp, Uniform::nctaid_x, launch_.grid);
    set_uniform(warp, Uniform::warpid, static_cast<std::uint32_t>(index));
    set_uniform(warp, Uniform::nwarpid, static_cast<std::uint32_t>(count));
    set_uniform(warp, Uniform::dynamic_smem_size, launch_.dynamic_shared_bytes);
    set_uniform(warp, Uniform::total_smem_size, cta_.shared_bytes);
  }

  void start(std::array<std::uint32_t, 3> index) {
    cta_.index = index;
    const std::uint32_t number = (index[2] * launch_.grid[1] + index[1]) * launch_.grid[0] + index[0];
    if (watch_ != nullptr && watch_->checker) watch_->checker->start_block(number, warps_.size());
    if (watch_ != nullptr && watch_->counters) watch_->counters->block(warps_.size());
    std::memset(cta_.shared, kUninitialised, cta_.shared_bytes);
    for (const auto& warp : warps_) {
      set_threads(*warp, launch_, threads_);
      set_triple(*warp, Uniform::ctaid_x, index);
      warp->paths = {{0, kEnd, warp->alive}};
      warp->state = WarpState::ready;
      warp->groups = {};
      warp->copies.clear();
    }
  }

  /// Lets the warps go whose barrier is complete; false if there is none.
  bool open_barriers() {
    bool opened = false;
    for (const auto& warp : warps_) {
      if (warp->state == WarpState::at_barrier && is_complete(warp->barrier, warp->barrier_threads)) {
        open(warp->barrier);
        opened = true;
      }
    }
    return opened;
  }

  /// Warps that have ended are not waited for. The number of threads of a barrier counts whole warps.
  bool is_complete(std::uint32_t barrier, std::uint32_t threads) const {
    std::uint32_t waiting = 0;
    std::uint32_t alive = 0;
    for (const auto& warp : warps_) {
      waiting += warp->state == WarpState::at_barrier && warp->barrier == barrier ? 1 : 0;
      alive += warp->state == WarpState::done ? 0 : 1;
    }
    return threads == 0 ? waiting == alive : waiting * kLanes >= threads;
  }

  void open(std::uint32_t barrier) {
    std::vector<Warp*> released;
    for (const auto& warp : warps_) {
      if (warp->state == WarpState::at_barrier && warp->barrier == barrier) released.push_back(warp.get());
    }
    for (Warp* warp : released) warp->state = WarpState::ready;
    if (watch_ != nullptr && watch_->checker) watch_->checker->barrier(released);
  }

  [[noreturn]] void raise(const std::string& rule) const {
    throw Failure(Status::device_error,
                  fmt::format("kernel {}, block ({}, {}, {})", program_.function->name, cta_.index[0], cta_.index[1],
                              cta_.index[2]),
                  rule);
  }

  [[noreturn]] void throw_failure(const Warp& warp) const { raise(*warp.failure); }

  [[noreturn]] void throw_deadlock() const {
    std::string text = "deadlock:";
    for (const auto& warp : warps_) {
      text += warp->state == WarpState::done
                  ? fmt::format(" warp {} has ended;", warp->index)
                  : fmt::format(" {}, waiting for barrier {};", position(*warp), warp->barrier);
    }
    text.pop_back();
    raise(text);
  }

  const Program& program_;
  const Launch& launch_;
  Watch* watch_;
  std::uint32_t threads_;
  Cta cta_;
  AlignedBytes shared_;
  AlignedBytes registers_;
  AlignedBytes local_;
  std::vector<std::unique_ptr<Warp>> warps_;
};

/// Hands out blocks and keeps the first failure.
class Grid {
 public:
  Grid(const Program& program, const Launch& launch)
      : program_(program), launch_(launch), count_(std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2]) {}

  void run() {
    const std::uint64_t most = launch_.check ? 1 : std::max(1u, std::thread::hardware_concurrency());
    const std::uint64_t wanted = std::min(count_, most);
    std::vector<std::thread> helpers;
    try {
      while (helpers.size() + 1 < wanted) helpers.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // out of threads: fewer do it
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    if (failure_) throw Failure(*failure_);
  }

 private:
  void work() {
    try {
      Watch watch;
      if (launch_.check) watch.checker.emplace(program_);
      if (launch_.counters != nullptr) watch.counters.emplace(program_);
      Block block(program_, launch_, launch_.check || launch_.counters != nullptr ? &watch : nullptr);
      for (std::uint64_t i = next_++; i < count_ && !stop_; i = next_++) {
        const std::uint64_t rows = i / launch_.grid[0];
        block.run({static_cast<std::uint32_t>(i % launch_.grid[0]), static_cast<std::uint32_t>(rows % launch_.grid[1]),
                   static_cast<std::uint32_t>(rows / launch_.grid[1])});
      }
      if (watch.counters) add(*watch.counters);
    } catch (const Failure& failure) {
      stop(failure);
    } catch (const std::exception& error) {
      stop(Failure(Status::internal, std::string(program_.function->name), error.what()));
    }
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
  std::uint64_t count_;
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
    throw Failure(
        Status::invalid_argument, kernel,
        fmt::format("its parameters have {} bytes, not {}", program.layout.parameter_bytes, launch.parameters.size()));
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
