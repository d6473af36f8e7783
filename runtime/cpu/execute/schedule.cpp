// Schedules the warps of a cluster in rounds.
//
// A round gives a turn to every warp that can continue. If a round changes neither memory nor any warp's position, all
// later rounds are the same. Then only another cluster can make this cluster continue, and if all clusters stand still,
// the launch is deadlocked.
#include "runtime/cpu/execute/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/error.hpp"
#include "runtime/cpu/execute/run_warp.hpp"
#include "runtime/cpu/watch/watch.hpp"

namespace cubit::runtime::cpu {
namespace {

using Triple = std::array<std::uint32_t, 3>;

/// Initial content of shared memory: NaN in every floating-point format, and conspicuous as an integer.
constexpr int kUninitialised = 0xff;
constexpr std::chrono::microseconds kPause{50};

void invoke(Frame* frame, Mask mask, std::uint32_t index) {
  auto& warp = static_cast<Warp&>(*frame);
  if (warp.failure || mask == 0) return;
  const Site& site = warp.cta->program->sites[index];
  try {
    site.helper(warp, mask, site);
  } catch (const std::exception& error) {  // an exception must not pass through generated code
    warp.fail(site, 0, error.what());
  }
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

void set_triple(Warp& warp, Uniform first, const Triple& values) {
  std::copy(values.begin(), values.end(), warp.uniform + static_cast<std::size_t>(first));
}

std::uint32_t volume(const Triple& size) { return size[0] * size[1] * size[2]; }

template <class Operation>
Triple combined(const Triple& a, const Triple& b, Operation operation) {
  return {operation(a[0], b[0]), operation(a[1], b[1]), operation(a[2], b[2])};
}

Triple position_of(std::uint32_t rank, const Triple& size) {
  return {rank % size[0], rank / size[0] % size[1], rank / size[0] / size[1]};
}

std::string text_of(const Triple& values) { return fmt::format("({}, {}, {})", values[0], values[1], values[2]); }

}  // namespace

bool Standstill::is_final(std::size_t runner, std::uint64_t since) {
  const std::lock_guard lock(mutex_);
  if (moves_ != since) return false;
  still_since_[runner] = since;
  return std::all_of(still_since_.begin(), still_since_.end(),
                     [&](std::uint64_t other) { return other == since || other == kGone; });
}

void Standstill::leave(std::size_t runner) {
  const std::lock_guard lock(mutex_);
  still_since_[runner] = kGone;
  ++moves_;
}

std::array<std::uint32_t, 3> cluster_size(const Program& program, const Launch& launch) {
  Triple size = launch.cluster;
  if (const auto* required = program.function->find_directive("reqnctapercluster")) {
    Triple given = {1, 1, 1};
    for (std::size_t i = 0; i < std::min<std::size_t>(3, required->values.size()); ++i)
      given[i] = static_cast<std::uint32_t>(required->values[i]);
    if (volume(size) != 0 && size != given) {
      throw Failure(Status::invalid_argument, fmt::format("a launch with clusters of {} blocks", text_of(size)),
                    fmt::format("kernel {} requires {}", program.function->name, text_of(given)));
    }
    size = given;
  }
  if (volume(size) == 0) size = {1, 1, 1};
  const bool whole = launch.grid[0] % size[0] == 0 && launch.grid[1] % size[1] == 0 && launch.grid[2] % size[2] == 0;
  if (!whole || volume(size) > kMostClusterBlocks) {
    throw Failure(Status::invalid_argument,
                  fmt::format("a grid of {} blocks in clusters of {}", text_of(launch.grid), text_of(size)),
                  fmt::format("a grid is made of whole clusters of at most {} blocks", kMostClusterBlocks));
  }
  return size;
}

ClusterRun::ClusterRun(const Program& program, const Launch& launch, Standstill& standstill, std::size_t runner,
                       Watch* watch)
    : program_(program),
      launch_(launch),
      standstill_(standstill),
      runner_(runner),
      watch_(watch),
      threads_(volume(launch.block)),
      size_(cluster_size(program, launch)) {
  for (std::uint32_t rank = 0; rank < volume(size_); ++rank) add_block(rank);
}

void ClusterRun::add_block(std::uint32_t rank) {
  const std::size_t count = (threads_ + kLanes - 1) / kLanes;
  blocks_.push_back(std::make_unique<Block>());
  Block& block = *blocks_.back();
  block.cta.program = &program_;
  block.cta.shared_bytes = program_.layout.static_shared_bytes + launch_.dynamic_shared_bytes;
  block.cta.parameter_bytes = launch_.parameters.size();
  block.cta.memory = launch_.memory;
  block.cta.grid = launch_.grid;
  block.shared = allocate_aligned(block.cta.shared_bytes);
  block.cta.shared = block.shared.get();
  block.cta.cluster = &cluster_;
  block.cta.rank = rank;
  block.registers = allocate_aligned(program_.layout.register_bytes * count);
  block.local = allocate_aligned(std::size_t{program_.layout.local_bytes} * kLanes * count);
  for (std::size_t i = 0; i < count; ++i) add_warp(block, i, count);
  cluster_.ctas.push_back(&block.cta);
}

void ClusterRun::add_warp(Block& block, std::size_t index, std::size_t count) {
  block.warps.push_back(std::make_unique<Warp>());
  Warp& warp = *block.warps.back();
  block.cta.warps.push_back(&warp);
  warp.cta = &block.cta;
  warp.watch = watch_;
  warp.index = static_cast<int>(index);
  warp.registers = block.registers.get() + program_.layout.register_bytes * index;
  warp.local = block.local.get() + std::size_t{program_.layout.local_bytes} * kLanes * index;
  warp.parameters = launch_.parameters.data();
  warp.invoke = invoke;
  set_triple(warp, Uniform::ntid_x, launch_.block);
  set_triple(warp, Uniform::nctaid_x, launch_.grid);
  set_triple(warp, Uniform::nclusterid_x, combined(launch_.grid, size_, std::divides<>()));
  set_triple(warp, Uniform::cluster_nctaid_x, size_);
  set_triple(warp, Uniform::cluster_ctaid_x, position_of(block.cta.rank, size_));
  set_uniform(warp, Uniform::cluster_ctarank, block.cta.rank);
  set_uniform(warp, Uniform::cluster_nctarank, volume(size_));
  const bool is_explicit = volume(launch_.cluster) != 0 || program_.function->find_directive("explicitcluster") ||
                           program_.function->find_directive("reqnctapercluster");
  set_uniform(warp, Uniform::is_explicit_cluster, is_explicit ? 1 : 0);
  set_uniform(warp, Uniform::warpid, static_cast<std::uint32_t>(index));
  set_uniform(warp, Uniform::nwarpid, static_cast<std::uint32_t>(count));
  set_uniform(warp, Uniform::dynamic_smem_size, launch_.dynamic_shared_bytes);
  set_uniform(warp, Uniform::total_smem_size, block.cta.shared_bytes);
}

void ClusterRun::start(Triple index) {
  cluster_.generation = 0;
  cluster_.deliveries.clear();
  for (const auto& block : blocks_) start_block(*block, index);
  if (watch_ != nullptr) watch_->start(cluster_);
  standstill_.begin_cluster();
  standstill_.changed();
}

void ClusterRun::start_block(Block& block, Triple cluster) {
  Cta& cta = block.cta;
  const Triple first = combined(cluster, size_, std::multiplies<>());
  cta.index = combined(first, position_of(cta.rank, size_), std::plus<>());
  cta.barriers = {};
  std::memset(cta.shared, kUninitialised, cta.shared_bytes);
  for (const auto& warp : block.warps) {
    set_threads(*warp, launch_, threads_);
    set_triple(*warp, Uniform::ctaid_x, cta.index);
    set_triple(*warp, Uniform::clusterid_x, cluster);
    warp->paths = {{0, kEnd, warp->alive}};
    warp->state = WarpState::ready;
    warp->cluster_arrived = 0;
    warp->cluster_owed = 0;
    warp->fingerprint = 0;
    warp->groups = {};
    warp->bulk_groups = {};
    warp->copies.clear();
  }
}

void ClusterRun::run(Triple index) {
  start(index);
  while (true) {
    const std::uint64_t since = standstill_.now();
    const std::uint64_t changes = cluster_.changes;
    if (!take_turns()) return finish();
    if (cluster_.changes == changes) {
      stand_still(since);
      continue;
    }
    go_on();
  }
}

/// Something changed, so attempts that failed before may succeed now.
void ClusterRun::go_on() {
  standstill_.changed();
  refused_ = false;
  for_warps([](Warp& warp) { warp.fingerprint = 0; });
}

bool ClusterRun::take_turns() {
  bool all_done = true;
  const auto has_come = [](const PhaseWait& wait) { return is_over(wait.object, wait.parity); };
  for_warps([&](Warp& warp) {
    if (warp.state == WarpState::at_mbarrier && std::all_of(warp.phases.begin(), warp.phases.end(), has_come))
      warp.state = WarpState::ready;
    run_warp(warp);
    all_done = all_done && warp.state == WarpState::done;
  });
  for_warps([&](const Warp& warp) {
    if (warp.failure) raise(*warp.cta, *warp.failure);
  });
  return !all_done;
}

/// Copies must have landed before the cluster ends, because its shared memory is then reused.
void ClusterRun::finish() {
  for (const Delivery& delivery : cluster_.deliveries) {
    if (delivery.kind == Delivery::Kind::arrival) continue;
    delivery.warp->fail(*delivery.site, delivery.lane, "the cluster ends before any warp has waited for these bytes");
    raise(*delivery.warp->cta, *delivery.warp->failure);
  }
}

/// Called after a round in which no memory changed and no warp arrived anywhere.
void ClusterRun::stand_still(std::uint64_t since) {
  if (const std::uint64_t changes = standstill_.changes(); changes != seen_changes_) {
    seen_changes_ = changes;
    still_since_ = Clock::now();
  }
  if (is_as_before()) {
    if (land_all(cluster_)) return go_on();
    return refuse_waiting() ? void() : wait_for_others(since);
  }
  standstill_.moved();
  if (Clock::now() - still_since_ > launch_.patience) raise_standstill("no progress within the time limit");
}

/// True if every warp is exactly where it was after the previous round.
bool ClusterRun::is_as_before() {
  bool same = true;
  for_warps([&](Warp& warp) {
    if (warp.state == WarpState::done) return;
    const std::uint64_t now = fingerprint(warp);
    same = same && now == warp.fingerprint;
    warp.fingerprint = now;
  });
  return same;
}

/// Lets try_wait return false once, because the loop around it may then do something useful. If the warp returns to the
/// same state, it did not.
bool ClusterRun::refuse_waiting() {
  bool any = false;
  for_warps([&](Warp& warp) {
    if (refused_ || warp.state != WarpState::at_mbarrier) return;
    refuse(warp);
    any = true;
  });
  refused_ = any;
  return any;
}

void ClusterRun::wait_for_others(std::uint64_t since) {
  if (standstill_.is_final(runner_, since)) raise_standstill("deadlock");
  if (Clock::now() - still_since_ > launch_.patience) raise_standstill("no progress within the time limit");
  std::this_thread::sleep_for(kPause);
}

void ClusterRun::raise(const Cta& cta, const std::string& rule) const {
  throw Failure(Status::device_error, fmt::format("kernel {}, block {}", program_.function->name, text_of(cta.index)),
                rule);
}

void ClusterRun::raise_standstill(const std::string& what) const {
  std::string text = what + ":";
  for (const auto& block : blocks_) {
    for (const auto& warp : block->warps) text += " " + describe(*warp) + ";";
  }
  text.pop_back();
  if (const std::uint64_t others = standstill_.clusters_to_begin(); others != 0)
    text +=
        fmt::format("; {} of the launch's clusters have not begun, because earlier clusters have not ended", others);
  raise(blocks_.front()->cta, text);
}

}  // namespace cubit::runtime::cpu
