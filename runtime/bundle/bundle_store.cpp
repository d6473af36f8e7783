// Implements a store over a bundle: trust in the file, candidates by compiler, and misses with a reason.
#include "runtime/bundle/bundle_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.hpp"

namespace cubit::runtime {

namespace {

/// Throws Failure(io_error) unless one of the signers signed the bundle.
void require_signature(const Bundle& bundle, std::span<const PublicKey> signers) {
  const std::optional<PublicKey> signer = bundle.signer();
  const std::string given = "bundle " + bundle.name();
  if (!signer) {
    throw Failure(Status::io_error, given, "it is not signed, and this engine loads only signed bundles",
                  "sign the bundle (cubit bundle sign)");
  }
  if (std::find(signers.begin(), signers.end(), *signer) == signers.end()) {
    throw Failure(Status::io_error, given, fmt::format("{} signed it, which is none of the given keys", signer->hex()),
                  "sign the bundle with another key, or give this key to the engine");
  }
}

/// Throws Failure(io_error) if others than the trusted users could have written the bundle's file.
void require_trust(const Bundle& bundle, const Trust& trust) {
  const std::string distrust = trust.distrust_of_file(bundle.ownership().value_or(Ownership{}));
  if (distrust.empty()) return;
  throw Failure(Status::io_error, "bundle " + bundle.name(),
                distrust + ", so others could make this program run their code",
                "copy the bundle to a file of your own, or sign it and set CUBIT_PUBLIC_KEYS");
}

}  // namespace

BundleStore::BundleStore(const std::filesystem::path& path, const Trust& trust, std::span<const PublicKey> signers,
                         LogSink log)
    : name_(path.string()), log_(std::move(log)) {
  try {
    Bundle bundle = Bundle::open(path);
    if (signers.empty()) {
      require_trust(bundle, trust);
    } else {
      require_signature(bundle, signers);
    }
    bundle_.emplace(std::move(bundle));
  } catch (const Failure& failure) {
    refuse(failure.what());
  }
}

BundleStore::BundleStore(const BundleMemory& memory, std::span<const PublicKey> signers, LogSink log)
    : name_(memory.name), log_(std::move(log)) {
  try {
    Bundle bundle = Bundle::of_memory(name_, memory.bytes);
    if (!signers.empty()) require_signature(bundle, signers);
    bundle_.emplace(std::move(bundle));
  } catch (const Failure& failure) {
    refuse(failure.what());
  }
}

void BundleStore::refuse(std::string trouble) {
  trouble_ = std::move(trouble);
  warn(trouble_);
}

void BundleStore::warn(std::string_view line) const {
  if (log_) log_(LogLevel::warning, line);
}

std::vector<BundleRecord> BundleStore::candidates(const StoreRequest& request) const {
  if (!bundle_) return {};
  std::vector<BundleRecord> records = bundle_->find(request.key);
  std::erase_if(records, [&](const BundleRecord& record) {
    return record.code != request.code || !request.accepts(record.compiler);
  });
  std::reverse(records.begin(), records.end());
  return records;
}

std::optional<Artifact> BundleStore::load(const BundleRecord& record, const StoreRequest& request) const {
  try {
    Artifact artifact = bundle_->load(record).artifact;
    if (artifact.target == request.target && artifact.entry_point == request.entry_point) return artifact;
    // A forged bundle may have the right key and good hashes.
    warn(fmt::format("bundle {}: the entry {} is {} for {}, and its key stands for {} for {}", name_, record.key.hex(),
                     artifact.entry_point, artifact.target, request.entry_point, request.target));
  } catch (const Failure& failure) {
    warn(failure.what());
  }
  count(refused_, request);
  return std::nullopt;
}

std::optional<Artifact> BundleStore::find(const StoreRequest& request) const {
  try {
    for (const BundleRecord& record : candidates(request)) {
      if (auto artifact = load(record, request)) {
        count(hits_, request);
        return artifact;
      }
    }
  } catch (const Failure& failure) {
    count(refused_, request);
    warn(failure.what());
  } catch (const std::bad_alloc&) {
    warn(fmt::format("bundle {}: there is not enough memory; this request goes on without the bundle", name_));
  }
  count(misses_, request);
  return std::nullopt;
}

bool BundleStore::holds(const StoreRequest& request) const {
  try {
    return !candidates(request).empty();
  } catch (const Failure& failure) {
    warn(failure.what());
    return false;
  }
}

void BundleStore::visit(const std::function<void(const Artifact&)>& visit) const {
  for (std::uint64_t index = 0; bundle_ && index < bundle_->entries(); ++index) {
    try {
      const BundleRecord record = bundle_->record(index);
      BundleFacts facts = bundle_->facts(record);
      visit({.key = record.key,
             .compiler = record.compiler,
             .descriptor = std::move(facts.descriptor),
             .target = std::move(facts.target),
             .entry_point = std::move(facts.entry_point),
             .resources = facts.resources,
             .compile_milliseconds = 0,
             .code = record.code,
             .inputs = std::move(facts.inputs),
             .cubin = {}});
    } catch (const Failure& failure) {
      warn(failure.what());
    }
  }
}

StoreReport BundleStore::report() const {
  return {.kind = "bundle",
          .name = name_,
          .trouble = trouble_,
          .readable = bundle_.has_value(),
          .writable = false,
          .hits = hits_.load(std::memory_order_relaxed),
          .misses = misses_.load(std::memory_order_relaxed),
          .refused = refused_.load(std::memory_order_relaxed)};
}

}  // namespace cubit::runtime
