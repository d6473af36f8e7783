// BundleStore: a bundle as one of the engine's stores.
//
// Opening the store reads the bundle's header and nothing else. A request reads and checks the pages that it needs, so
// a store of many thousand entries costs as little as a store of one.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/bundle/bundle.hpp"
#include "runtime/cache/trust.hpp"
#include "runtime/log.hpp"
#include "runtime/settings.hpp"
#include "runtime/store.hpp"

namespace cubit::runtime {

/// A bundle that is missing, damaged or not trusted is a store without entries: report() and one warning give the
/// reason. If `signers` is not empty, a bundle is trusted if one of these keys signed it, whoever owns its file.
class BundleStore final : public Store {
 public:
  /// Opens a file, which `trust` must trust if there are no signers.
  BundleStore(const std::filesystem::path& path, const Trust& trust, std::span<const PublicKey> signers, LogSink log);
  /// Reads from memory, which must stay valid and unchanged as long as the store.
  BundleStore(const BundleMemory& memory, std::span<const PublicKey> signers, LogSink log);

  std::optional<Artifact> find(const StoreRequest& request) const override;
  bool holds(const StoreRequest& request) const override;
  void visit(const std::function<void(const Artifact&)>& visit) const override;
  StoreReport report() const override;

 private:
  void refuse(std::string trouble);
  void warn(std::string_view line) const;
  /// The entries that may answer the request, the newest compiler first. Throws Failure(io_error) for a damaged index.
  std::vector<BundleRecord> candidates(const StoreRequest& request) const;
  /// Returns the entry's kernel if it is what the request needs, and else warns and counts the entry as refused.
  std::optional<Artifact> load(const BundleRecord& record, const StoreRequest& request) const;

  std::string name_;
  LogSink log_;
  std::optional<Bundle> bundle_;
  std::string trouble_;
  mutable std::atomic<std::uint64_t> hits_{0};
  mutable std::atomic<std::uint64_t> misses_{0};
  mutable std::atomic<std::uint64_t> refused_{0};
};

}  // namespace cubit::runtime
