// Engine: makes a Kernel from a KernelSource. It looks in memory, then in its stores, and then compiles. Each key is
// compiled once, however many threads ask.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "codegen/kernel_source.hpp"
#include "runtime/bundle/format.hpp"
#include "runtime/cache/disk_cache.hpp"
#include "runtime/compiler/nvrtc.hpp"
#include "runtime/kernel.hpp"
#include "runtime/log.hpp"
#include "runtime/log_queue.hpp"
#include "runtime/missing.hpp"
#include "runtime/settings.hpp"
#include "runtime/store.hpp"

namespace cubit::runtime {

/// Numbers of requests by outcome, since the engine's creation.
struct Counters {
  std::uint64_t memory_hits = 0;
  std::uint64_t disk_hits = 0;  ///< requests that a store answered
  std::uint64_t compiles = 0;
  std::uint64_t failures = 0;         ///< requests that ended in an error
  std::uint64_t waits = 0;            ///< requests that waited for another thread's result
  std::uint64_t damaged_entries = 0;  ///< damaged disk entries that were deleted
};

/// A store that an engine was given and does not use.
struct UnusedStore {
  std::string name;
  std::string reason;  ///< a sentence
};

/// What Engine::explain_miss() found.
struct MissExplanation {
  RequestKey key;
  std::string cached_in;                 ///< the store that holds the kernel; "" if none does
  std::optional<Artifact> nearest;       ///< the nearest entry, of the same architecture if there is one, without code
  std::string nearest_in;                ///< the store of `nearest`
  std::vector<std::string> differences;  ///< sentences about `nearest`
  std::vector<UnusedStore> unused;       ///< stores that the engine does not ask
};

/// A thread-safe engine. The engine holds no process-wide lock while it compiles, reads or writes files. One exception:
/// the first thread that needs the compiler searches for and queries it while other threads that need the compiler
/// wait. The engine calls the log sink after a request is answered and its locks are released, so the sink may call the
/// engine.
class Engine {
 public:
  /// `compiler` is for tests. If it is empty, the engine loads NVRTC when it first needs a compiler.
  Engine(Settings settings, LogSink log, std::shared_ptr<const Compiler> compiler = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Returns the kernel. Threads that ask for the same key share one flight: one thread makes the kernel, and the
  /// others wait and receive the same result or error. A failure is not remembered, so the next request tries again.
  ///
  /// The stores are asked in this order: the user's folder, the system folders, the bundles, and Settings::stores. An
  /// entry of any compiler answers whose version the driver accepts, so NVRTC is loaded only to compile. Under the
  /// compiler policy `exact` only entries of one version answer: Settings::compiler_version, or the version of NVRTC,
  /// which is then loaded to ask it. In never-compile mode a miss throws Failure(not_cached) with source.descriptor.
  ///
  /// An engine with public keys uses no folder and only signed bundles. A miss throws Failure(not_cached) unless
  /// Settings::allow_local_compile is set, and then the compiled code stays in memory.
  std::shared_ptr<Kernel> get(const codegen::KernelSource& source);

  /// True if get() would find the kernel in memory or in a store. Entries are not verified. Under the compiler policy
  /// `exact` without a stated version the call loads NVRTC and throws what compiler() throws.
  bool is_cached(const codegen::KernelSource& source);

  /// Says which store would answer the request, by asking the stores as get() does. On a miss the call finds the stored
  /// entry that shares the most inputs with the request, says what differs, and names the stores that the engine does
  /// not use. An entry of another architecture is named only if no entry is of the request's. The call changes nothing:
  /// it counts no request, deletes no damaged entry and notes no use. Slow, because it reads all entries of all stores.
  MissExplanation explain_miss(const codegen::KernelSource& source);

  Counters counters() const;
  std::vector<StoreReport> store_reports() const;                          ///< in the order in which the engine asks
  std::vector<std::string> warnings() const { return lines_.warnings(); }  ///< the last ones, also without a sink
  /// Counts a hit in the table of the layer above, which answered the request without calling get().
  void count_memory_hit() noexcept { memory_hits_.fetch_add(1, std::memory_order_relaxed); }

  /// Logs a line of the layer above.
  void log(LogLevel level, std::string_view line);

  /// True if the engine was given public keys.
  bool loads_only_signed() const { return !signers_.empty(); }
  MissingPlace place_of_missing() const;  ///< for not_cached()

  const DiskCache& disk_cache() const { return disk_; }
  const Settings& settings() const { return settings_; }
  /// Returns the compiler and loads NVRTC if necessary. Throws Failure(compiler_unavailable).
  const Compiler& compiler();

 private:
  /// The key of a kernel in memory. Launch facts are not part of the request key, but a Kernel contains them, so one
  /// request key may have several kernels.
  struct Slot {
    RequestKey key;
    codegen::LaunchFacts launch;
    bool operator==(const Slot&) const = default;
  };
  struct SlotHash {
    std::size_t operator()(const Slot& slot) const noexcept { return RequestKeyHash{}(slot.key); }
  };
  /// The result of a flight: a kernel or a failure. Both are null if the failure cannot be described, for example
  /// without memory. Each waiter throws its own copy of the failure: threads that share an exception object share a
  /// reference count inside the C++ runtime, which ThreadSanitizer cannot see and reports as races.
  struct Landing {
    std::shared_ptr<Kernel> kernel;
    std::shared_ptr<const Failure> failure;
  };
  using Flight = std::shared_future<Landing>;

  void open_read_only_stores(const LogSink& keep);
  std::vector<UnusedStore> unused_stores() const;
  std::optional<Flight> find(const Slot& slot) const;
  std::shared_ptr<Kernel> join(const Flight& flight);
  bool may_compile() const {
    return settings_.compile_policy != CompilePolicy::never && (signers_.empty() || settings_.allow_local_compile);
  }
  StoreRequest request_of(const codegen::KernelSource& source, const RequestKey& key);
  std::shared_ptr<Kernel> fly(const codegen::KernelSource& source, const Slot& slot, std::promise<Landing> promise);
  void abandon(const Slot& slot);
  Artifact obtain(const codegen::KernelSource& source, const RequestKey& key, LogQueue::Emission& emission);
  std::optional<Artifact> find_in(const Store& store, const StoreRequest& request);
  std::optional<Artifact> from_disk(const StoreRequest& request);
  std::optional<Artifact> from_stores(const StoreRequest& request);
  Artifact compile(const codegen::KernelSource& source, const StoreRequest& request, LogQueue::Emission& emission);
  /// Returns the compiler, or nullptr with the reason in `why`. After a failure the next call searches again, because a
  /// library may have been installed meanwhile, or the machine may have run out of files or memory.
  const Compiler* find_compiler(std::optional<Failure>& why);
  const Compiler& need_compiler();

  Settings settings_;
  std::vector<PublicKey> signers_;
  LogQueue lines_;
  DiskCache disk_;
  std::vector<std::shared_ptr<const Store>> read_only_stores_;
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
