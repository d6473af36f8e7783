// Store: a place that holds compiled kernels. The engine asks its stores one after another before it compiles.
//
// The order is memory, the user's folder, read-only system folders, bundles, and then the compiler. A store verifies
// what it hands on: the caller may load an Artifact that find() returned without looking at it again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/kernel_source.hpp"
#include "runtime/cache/artifact.hpp"

namespace cubit::runtime {

/// What the engine asks a store for. The views live as long as the call.
struct StoreRequest {
  RequestKey key;
  std::string_view target;       ///< "sm_90a"
  std::string_view entry_point;  ///< a forged entry may have the right key and another entry point
  codegen::Code code = codegen::Code::cubin;
  std::optional<CompilerVersion> exact = {};  ///< the only accepted compiler; empty accepts every compiler
  int newest_major = 0;                       ///< newest accepted major version of the compiler; 0 accepts all
  bool leave_as_is = false;  ///< find() counts nothing, deletes no damaged entry and notes no use of an entry

  bool accepts(const CompilerVersion& compiler) const {
    if (exact) return compiler == *exact;
    return newest_major == 0 || compiler.major <= newest_major;
  }
};

/// The state of a store and the numbers of requests by outcome, since the store was opened.
struct StoreReport {
  std::string kind;     ///< "folder", "system folder" or "bundle"
  std::string name;     ///< the path of the folder or file
  std::string trouble;  ///< why the store cannot be used, or only be read; "" if nothing is wrong
  bool readable = false;
  bool writable = false;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t refused = 0;    ///< entries that were not trusted, or that did not match their hash or their key
  std::uint64_t published = 0;  ///< artifacts that publish() stored
};

/// A thread-safe store. No call throws for a fault of the store itself: an entry that cannot be read, is damaged or is
/// not trusted is a miss, and the store logs the reason.
class Store {
 public:
  virtual ~Store() = default;

  /// Returns the verified entry of the newest compiler that the request accepts, or nothing.
  virtual std::optional<Artifact> find(const StoreRequest& request) const = 0;

  /// True if find() would look at an entry for the request. The call neither reads nor verifies the entry's code.
  virtual bool holds(const StoreRequest& request) const = 0;

  /// Stores the artifact, and returns true if the store now holds it. Read-only stores return false.
  virtual bool publish(const Artifact& artifact) const {
    static_cast<void>(artifact);
    return false;
  }

  /// Calls `visit` for every entry, with an Artifact that may lack its code. Slow: for tools that look for the entry
  /// that is nearest to a miss.
  virtual void visit(const std::function<void(const Artifact&)>& visit) const = 0;

  virtual StoreReport report() const = 0;

 protected:
  static void count(std::atomic<std::uint64_t>& counter, const StoreRequest& request) {
    if (!request.leave_as_is) counter.fetch_add(1, std::memory_order_relaxed);
  }
};

}  // namespace cubit::runtime
