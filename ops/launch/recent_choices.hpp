// A cache of one thread for the members that launches of sets have taken. A set's choice asks a performance model about
// every member, and an engine that batches requests comes back to the same few hundred sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "ops/launch/recent_table.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

/// Everything that a choice depends on.
struct ChoiceRequest {
  std::uint64_t kernel = 0;  ///< OperatorKernel::id
  std::uint64_t device = 0;  ///< Device::identity()
  ChoiceKey key = {};        ///< MemberChoice::key()

  std::uint64_t hash() const { return hash_of({kernel, device, key[0], key[1]}, std::as_bytes(std::span(&key[2], 1))); }
  bool operator==(const ChoiceRequest&) const = default;
};

/// Holds 1024 choices: seven layers of a model with 128 batch sizes each. Each thread has its own table
/// (of_this_thread); a full table takes 56 KB.
class RecentChoices {
 public:
  /// The member that was chosen for an equal request before, or else the member that choose() chooses now. Throws only
  /// what choose() throws.
  template <class Choose>
  std::size_t find_or_choose(const ChoiceRequest& request, const Choose& choose) {
    const std::uint64_t hash = request.hash();
    const Entry* const known = table_.find(hash, [&](const Entry& entry) { return entry.request == request; });
    if (known != nullptr) return known->member;
    return table_.add(hash, [&](std::byte* at) { return new (at) Entry{request, choose()}; }).member;
  }

 private:
  struct Entry {
    ChoiceRequest request;
    std::size_t member;
  };
  RecentTable<Entry, 256, 4> table_;
};

}  // namespace cubit::ops
