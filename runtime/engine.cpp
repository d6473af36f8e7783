// Implements single flight per key: the first thread makes the kernel, and all other threads wait for the same future.
#include "runtime/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "runtime/bundle/signature.hpp"
#include "runtime/compiler/load_nvrtc.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/missing.hpp"

namespace cubit::runtime {
namespace {

void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

std::string compiled_line(const codegen::KernelSource& source, const Compiled& compiled) {
  const std::string line =
      fmt::format("compiled {} for {} in {:.0f} ms", source.descriptor, source.target, compiled.milliseconds);
  if (source.code == codegen::Code::ptx) return line + ", to PTX";
  return fmt::format("{}: {} registers, {} bytes spilled", line, compiled.resources.registers,
                     compiled.resources.spill_store_bytes);
}

Failure wrong_compiler(const Compiler& compiler, const CompilerVersion& wanted) {
  return {Status::compiler_unavailable, "NVRTC " + compiler.version().text(),
          fmt::format("no store holds the kernel, and CUBIT_COMPILER allows only code of NVRTC {}", wanted.text()),
          fmt::format("name a folder with NVRTC {} in CUBIT_NVRTC_DIR, or set CUBIT_COMPILER to exact or any",
                      wanted.text())};
}

/// Copies the exception that is being handled. Returns null if the copy fails, for example without memory.
std::shared_ptr<const Failure> failure_in_flight(const codegen::KernelSource& source) noexcept {
  try {
    try {
      throw;
    } catch (const Failure& failure) {
      return std::make_shared<Failure>(failure);
    } catch (const std::exception& error) {
      return std::make_shared<Failure>(Status::internal, source.descriptor, error.what());
    } catch (...) {  // thrown by an embedding program's own compiler
      return std::make_shared<Failure>(Status::internal, source.descriptor,
                                       "an unknown exception ended the compilation");
    }
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

Engine::Engine(Settings settings, LogSink log, std::shared_ptr<const Compiler> compiler)
    : settings_(std::move(settings)),
      signers_(parse_public_keys(settings_.public_keys)),
      lines_(std::move(log)),
      disk_(signers_.empty() ? settings_.cache_dir : std::string(),
            [this](LogLevel level, std::string_view line) { lines_.keep(level, line); },
            {.lock_wait = settings_.lock_wait,
             .trust = Trust::parse(settings_.cache_trust),
             .limits = {settings_.cache_max_bytes, std::chrono::days(settings_.cache_max_days)}}),
      compiler_(std::move(compiler)) {
  const LogSink keep = [this](LogLevel level, std::string_view line) { lines_.keep(level, line); };
  open_read_only_stores(keep);
  if (settings_.is_cache_dir_unknown && signers_.empty()) {
    keep(LogLevel::warning,
         "no disk cache: HOME is not set, so every process compiles its kernels again; set CUBIT_CACHE_DIR to a "
         "folder, or to nothing if you want none");
  }
  lines_.emit();
}

Engine::~Engine() = default;

std::shared_ptr<Kernel> Engine::get(const codegen::KernelSource& source) {
  const Slot slot{request_key(source), source.launch};
  if (const auto flight = find(slot)) return join(*flight);

  std::promise<Landing> promise;
  Flight flight = promise.get_future().share();
  bool first = false;
  {
    const std::unique_lock lock(mutex_);
    const auto [entry, inserted] = kernels_.try_emplace(slot, flight);
    flight = entry->second;
    first = inserted;
  }
  return first ? fly(source, slot, std::move(promise)) : join(flight);
}

std::optional<Engine::Flight> Engine::find(const Slot& slot) const {
  const std::shared_lock lock(mutex_);
  const auto entry = kernels_.find(slot);
  return entry == kernels_.end() ? std::nullopt : std::optional(entry->second);
}

std::shared_ptr<Kernel> Engine::join(const Flight& flight) {
  const bool ready = flight.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (!ready) count(waits_);
  const Landing& landing = flight.get();
  if (!landing.kernel) {
    count(failures_);
    if (landing.failure) throw Failure(*landing.failure);
    throw Failure(Status::internal, "a kernel that another thread made",
                  "the other thread failed, and its reason could not be recorded", "try again");
  }
  if (ready) count(memory_hits_);
  return landing.kernel;
}

std::shared_ptr<Kernel> Engine::fly(const codegen::KernelSource& source, const Slot& slot,
                                    std::promise<Landing> promise) {
  // Lines are emitted after the result is set and all locks are released, because the sink may ask for this kernel.
  LogQueue::Emission emission(lines_);
  try {
    auto kernel = std::make_shared<Kernel>(obtain(source, slot.key, emission), source.launch);
    promise.set_value({kernel, nullptr});
    return kernel;
  } catch (...) {
    abandon(slot);
    promise.set_value({nullptr, failure_in_flight(source)});
    throw;
  }
}

/// Forgets a failed flight before its waiters wake, so that a request that starts after the failure never finds the
/// flight. Nothing here allocates memory, because the flight may have failed for lack of memory.
void Engine::abandon(const Slot& slot) {
  count(failures_);
  const std::unique_lock lock(mutex_);
  kernels_.erase(slot);
}

/// The driver loads cubins of compilers up to its own major version. The CPU device runs PTX of every version.
StoreRequest Engine::request_of(const codegen::KernelSource& source, const RequestKey& key) {
  StoreRequest request{.key = key,
                       .target = source.target,
                       .entry_point = source.entry_point,
                       .code = source.code,
                       .newest_major = source.code == codegen::Code::ptx ? 0 : cuda_driver_major()};
  if (settings_.compiler_policy == CompilerPolicy::exact)
    request.exact = settings_.compiler_version ? *settings_.compiler_version : need_compiler().version();
  return request;
}

Artifact Engine::obtain(const codegen::KernelSource& source, const RequestKey& key, LogQueue::Emission& emission) {
  const StoreRequest request = request_of(source, key);
  if (auto artifact = from_stores(request)) return std::move(*artifact);
  if (!may_compile()) {
    const MissingKernel missing{source.descriptor, source.target, source.code, source.callers_own};
    throw not_cached({&missing, 1}, place_of_missing());
  }
  return compile(source, request, emission);
}

MissingPlace Engine::place_of_missing() const {
  return {.loads_only_signed = loads_only_signed(),
          .cache_dir = settings_.is_cache_dir_given ? settings_.cache_dir : std::string()};
}

std::optional<Artifact> Engine::find_in(const Store& store, const StoreRequest& request) {
  auto artifact = store.find(request);
  if (!artifact) return std::nullopt;
  count(disk_hits_);
  lines_.keep(LogLevel::debug,
              fmt::format("{} for {}: from {}", artifact->descriptor, artifact->target, store.report().name));
  return artifact;
}

std::optional<Artifact> Engine::from_disk(const StoreRequest& request) {
  auto artifact = find_in(disk_, request);
  if (artifact) disk_.hold(*artifact);
  return artifact;
}

std::optional<Artifact> Engine::from_stores(const StoreRequest& request) {
  if (auto artifact = from_disk(request)) return artifact;
  for (const auto& store : read_only_stores_) {
    if (auto artifact = find_in(*store, request)) return artifact;
  }
  return std::nullopt;
}

bool Engine::is_cached(const codegen::KernelSource& source) {
  const LogQueue::Emission emission(lines_);
  const RequestKey key = request_key(source);
  if (const auto flight = find({key, source.launch})) {
    if (flight->wait_for(std::chrono::seconds(0)) == std::future_status::ready && flight->get().kernel) return true;
  }
  // A kernel that another thread is loading or compiling may be in a store.
  const StoreRequest request = request_of(source, key);
  return disk_.holds(request) || std::any_of(read_only_stores_.begin(), read_only_stores_.end(),
                                             [&](const auto& store) { return store->holds(request); });
}

Artifact Engine::compile(const codegen::KernelSource& source, const StoreRequest& request,
                         LogQueue::Emission& emission) {
  const Compiler& compiler = need_compiler();
  if (request.exact && compiler.version() != *request.exact) throw wrong_compiler(compiler, *request.exact);
  // The lock excludes other processes. If this process had to wait, the owner has usually stored the entry. An owner
  // that failed leaves nothing, and this process compiles.
  auto lock = disk_.lock(artifact_id(request.key, compiler.version()), [&emission] { emission.emit_early(); });
  if (lock && disk_.holds(request)) {
    if (auto artifact = from_disk(request)) return std::move(*artifact);
  }
  count(compiles_);
  Compiled compiled = compiler.compile(source);
  lines_.keep(LogLevel::info, compiled_line(source, compiled));
  Artifact artifact{.key = request.key,
                    .compiler = compiler.version(),
                    .descriptor = source.descriptor,
                    .target = source.target,
                    .entry_point = source.entry_point,
                    .resources = compiled.resources,
                    .compile_milliseconds = compiled.milliseconds,
                    .code = source.code,
                    .inputs = input_digests(source),
                    .cubin = std::move(compiled.cubin)};
  if (disk_.publish(artifact)) disk_.hold(artifact);
  lock.reset();
  disk_.prune_if_due();
  return artifact;
}

const Compiler* Engine::find_compiler(std::optional<Failure>& why) {
  const std::lock_guard lock(compiler_mutex_);
  if (compiler_) return compiler_.get();
  try {
    auto found = load_nvrtc(settings_.nvrtc_path, cuda_driver_major(), settings_.nvrtc_folders, settings_.nvrtc_folder);
    // A library that cannot report its version cannot compile either. The query finds that out now instead of at every
    // request.
    const std::string version = found->version().text();
    compiler_ = std::move(found);
    lines_.keep(LogLevel::debug, "NVRTC " + version);
  } catch (const Failure& failure) {
    why = failure;
  }
  return compiler_.get();
}

const Compiler& Engine::need_compiler() {
  std::optional<Failure> why;
  const Compiler* found = find_compiler(why);
  if (found == nullptr) throw Failure(*why);
  return *found;
}

const Compiler& Engine::compiler() {
  const LogQueue::Emission emission(lines_);
  return need_compiler();
}

void Engine::log(LogLevel level, std::string_view line) {
  const LogQueue::Emission emission(lines_);
  lines_.keep(level, line);
}

Counters Engine::counters() const {
  return {.memory_hits = memory_hits_,
          .disk_hits = disk_hits_,
          .compiles = compiles_,
          .failures = failures_,
          .waits = waits_,
          .damaged_entries = disk_.damaged()};
}

}  // namespace cubit::runtime
