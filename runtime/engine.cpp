// Implements single flight per key: the first thread makes the kernel, and all other threads wait for the same future.
#include "runtime/engine.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "runtime/compiler/load_nvrtc.hpp"
#include "runtime/cuda/cuda_device.hpp"

namespace cubit::runtime {
namespace {

void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

/// Says how to cache a kernel beforehand. The command-line tool compiles descriptors for GPUs only. A user's own source
/// is cached by the program that provides it, and PTX by the program that executes it.
std::string how_to_cache(const codegen::KernelSource& source) {
  if (source.callers_own || source.code == codegen::Code::ptx)
    return "get it once from an engine that may compile and has the same cache folder";
  return fmt::format("compile it beforehand (cubit compile '{}' --arch {})", source.descriptor, source.target);
}

Failure not_cached(const codegen::KernelSource& source) {
  const char* device = source.code == codegen::Code::ptx ? "cpu:" : "";
  return {Status::not_cached, fmt::format("{} for {}{}", source.descriptor, device, source.target),
          "no cache holds the kernel, and this engine may not compile",
          how_to_cache(source) + ", or allow compilation"};
}

std::string compiled_line(const codegen::KernelSource& source, const Compiled& compiled) {
  const std::string line =
      fmt::format("compiled {} for {} in {:.0f} ms", source.descriptor, source.target, compiled.milliseconds);
  if (source.code == codegen::Code::ptx) return line + ", to PTX";
  return fmt::format("{}: {} registers, {} bytes spilled", line, compiled.resources.registers,
                     compiled.resources.spill_store_bytes);
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
      lines_(std::move(log)),
      disk_(settings_.cache_dir, [this](LogLevel level, std::string_view line) { lines_.keep(level, line); }),
      compiler_(std::move(compiler)) {
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
  const LogQueue::Emission emission(lines_);
  try {
    auto kernel = std::make_shared<Kernel>(obtain(source, slot.key), source.launch);
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

Artifact Engine::obtain(const codegen::KernelSource& source, const RequestKey& key) {
  // An engine that may not compile accepts the result of any compiler version, even if this machine has a compiler.
  const bool may_compile = settings_.compile_policy != CompilePolicy::never;
  std::optional<Failure> no_compiler;
  const Compiler* compiler = may_compile ? find_compiler(no_compiler) : nullptr;
  if (auto artifact = from_disk(source, key, compiler)) return std::move(*artifact);
  if (!may_compile) throw not_cached(source);
  if (compiler == nullptr) throw Failure(*no_compiler);
  return compile(source, key, *compiler);
}

std::optional<Artifact> Engine::from_disk(const codegen::KernelSource& source, const RequestKey& key,
                                          const Compiler* compiler) {
  const Wanted wanted{.target = source.target, .entry_point = source.entry_point};
  const int driver = source.code == codegen::Code::ptx ? 0 : cuda_driver_major();  // the CPU device runs PTX of any
                                                                                   // version
  auto artifact =
      compiler == nullptr ? disk_.load_any(key, driver, &wanted) : disk_.load(key, compiler->version(), &wanted);
  if (artifact) {
    count(disk_hits_);
    lines_.keep(LogLevel::debug, fmt::format("{} for {}: from disk", artifact->descriptor, artifact->target));
  }
  return artifact;
}

Artifact Engine::compile(const codegen::KernelSource& source, const RequestKey& key, const Compiler& compiler) {
  // The lock excludes other processes. If this process had to wait, the owner has usually stored the entry. An owner
  // that failed leaves nothing, and this process compiles.
  const auto lock = disk_.lock(artifact_id(key, compiler.version()));
  if (lock) {
    if (auto artifact = from_disk(source, key, &compiler)) return std::move(*artifact);
  }
  count(compiles_);
  Compiled compiled = compiler.compile(source);
  lines_.keep(LogLevel::info, compiled_line(source, compiled));
  Artifact artifact{.key = key,
                    .compiler = compiler.version(),
                    .descriptor = source.descriptor,
                    .target = source.target,
                    .entry_point = source.entry_point,
                    .resources = compiled.resources,
                    .compile_milliseconds = compiled.milliseconds,
                    .code = source.code,
                    .cubin = std::move(compiled.cubin)};
  disk_.store(artifact);
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

const Compiler& Engine::compiler() {
  const LogQueue::Emission emission(lines_);
  std::optional<Failure> why;
  const Compiler* found = find_compiler(why);
  if (found == nullptr) throw Failure(*why);
  return *found;
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
