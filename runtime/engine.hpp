// From a KernelSource to a Kernel: memory, then disk, then the compiler; one compile per key whoever asks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

#include "base/error.hpp"
#include "codegen/kernel_source.hpp"
#include "runtime/cache/disk_cache.hpp"
#include "runtime/compiler/nvrtc.hpp"
#include "runtime/kernel.hpp"
#include "runtime/log.hpp"
#include "runtime/log_queue.hpp"
#include "runtime/settings.hpp"

namespace cubit::runtime {

struct Counters {
  std::uint64_t memory_hits = 0;
  std::uint64_t disk_hits = 0;
  std::uint64_t compiles = 0;
  std::uint64_t failures = 0;         ///< requests that ended in an error
  std::uint64_t waits = 0;            ///< requests that shared another's compile
  std::uint64_t damaged_entries = 0;  ///< disk entries deleted
};

/// Thread-safe. Holds no lock of this process while it compiles, reads or writes files; but whoever needs the compiler
/// first finds and asks it while others that need one wait. The log sink is called when a
/// request is answered and all that was locked for it is free: it may call the engine.
class Engine {
 public:
  /// `compiler`: for tests; empty loads NVRTC on first need.
  Engine(Settings settings, LogSink log, std::shared_ptr<const Compiler> compiler = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Single flight: threads that ask for one key while it is made share the result or the error; a failure is
  /// forgotten, so the next request tries again. Entries on disk match on the artifact id of the compiler found; where
  /// there is no compiler, and in never-compile mode, which looks for none, on the key, newest compiler that the driver
  /// accepts first. In never-compile mode a miss throws Failure(not_cached) with source.descriptor.
  std::shared_ptr<Kernel> get(const codegen::KernelSource& source);

  Counters counters() const;
  /// For the layer above, whose own table of texts answers before this engine is asked.
  void count_memory_hit() noexcept { memory_hits_.fetch_add(1, std::memory_order_relaxed); }

  const DiskCache& disk_cache() const { return disk_; }
  const Settings& settings() const { return settings_; }
  /// Loads NVRTC if that has not succeeded before; throws Failure(compiler_unavailable).
  const Compiler& compiler();

 private:
  /// Launch facts are no part of a request's key, but a Kernel carries them: one key may have several kernels.
  struct Slot {
    RequestKey key;
    codegen::LaunchFacts launch;
    bool operator==(const Slot&) const = default;
  };
  struct SlotHash {
    std::size_t operator()(const Slot& slot) const noexcept { return RequestKeyHash{}(slot.key); }
  };
  /// One of the two, or neither for a failure that cannot be told. Waiters throw copies of the failure, each its own:
  /// an exception object that threads share is counted inside the C++ runtime, where ThreadSanitizer sees nothing and
  /// reports races.
  struct Landing {
    std::shared_ptr<Kernel> kernel;
    std::shared_ptr<const Failure> failure;
  };
  using Flight = std::shared_future<Landing>;

  std::optional<Flight> find(const Slot& slot) const;
  std::shared_ptr<Kernel> join(const Flight& flight);
  std::shared_ptr<Kernel> fly(const codegen::KernelSource& source, const Slot& slot, std::promise<Landing> promise);
  void abandon(const Slot& slot);
  Artifact obtain(const codegen::KernelSource& source, const RequestKey& key);
  std::optional<Artifact> from_disk(const codegen::KernelSource& source, const RequestKey& key,
                                    const Compiler* compiler);
  Artifact compile(const codegen::KernelSource& source, const RequestKey& key, const Compiler& compiler);
  /// Null with the reason in `why`. Searches again after a failure: a library may be installed meanwhile, or the
  /// machine may have been out of files or memory.
  const Compiler* find_compiler(std::optional<Failure>& why);

  Settings settings_;
  LogQueue lines_;
  DiskCache disk_;
  std::mutex compiler_mutex_;
  std::shared_ptr<const Compiler> compiler_;  ///< set once
  mutable std::shared_mutex mutex_;
  std::unordered_map<Slot, Flight, SlotHash> kernels_;
  std::atomic<std::uint64_t> memory_hits_{0};
  std::atomic<std::uint64_t> disk_hits_{0};
  std::atomic<std::uint64_t> compiles_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<std::uint64_t> waits_{0};
};

}  // namespace cubit::runtime
