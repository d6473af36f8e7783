// Implements the shadow memory: finds races between accesses, and records accesses.
#include "runtime/cpu/watch/shadow.hpp"

#include <algorithm>

#include "runtime/cpu/watch/happens_before.hpp"

namespace cubit::runtime::cpu {

namespace {

constexpr std::uint8_t kAllBytes = (1u << kWordBytes) - 1;

/// Merges an agent's earlier access into its latest access. A weak access stays weak as long as no agent can know one
/// access without the other.
Touch joined(const Touch& earlier, Touch now) {
  if (earlier.agent != now.agent) return now;
  now.bytes |= earlier.bytes;
  if (earlier.time == now.time) now.is_strong = now.is_strong && earlier.is_strong;
  return now;
}

}  // namespace

/// PTX ISA, "Morally Strong Operations": the accesses overlap completely, and the scope of each includes the other.
bool Shadow::are_strong_together(const Touch& earlier, const Touch& now) const {
  if (!earlier.is_strong || !now.is_strong || earlier.extent != now.extent) return false;
  return order_ == nullptr || std::min(earlier.scope, now.scope) >= order_->distance(now.agent, earlier.agent);
}

/// True if nothing orders `now`, whose agent knows `clock`, after `earlier`.
bool Shadow::races(const Touch& earlier, const Touch& now, const Clock& clock) const {
  if (earlier.agent == kNobody || earlier.agent == now.agent || (earlier.bytes & now.bytes) == 0) return false;
  return clock.at(earlier.agent) < earlier.time && !are_strong_together(earlier, now);
}

Word& Shadow::at(std::uint64_t address) {
  const std::uint64_t index = address / kWordBytes;
  const std::uint64_t number = index / kPageWords;
  if (number != latest_number_) {
    std::unique_ptr<Page>& page = pages_[number];
    if (!page) page = std::make_unique<Page>();
    latest_ = page.get();
    latest_number_ = number;
  }
  return (*latest_)[index % kPageWords];
}

void Shadow::clear() {
  for (auto& [number, page] : pages_) page->fill(Word{});
  readers_.clear();
  writers_.clear();
}

const std::vector<Touch>* Shadow::others_of(const Others& all, std::uint64_t address, bool are_any) const {
  return are_any ? &all.at(address / kWordBytes) : nullptr;
}

const Touch* Shadow::conflicting(const Touch& latest, const std::vector<Touch>* others, const Touch& now,
                                 const Clock& clock) {
  if (races(latest, now, clock)) return &(found_ = latest);
  if (others == nullptr) return nullptr;
  const auto other = std::find_if(others->begin(), others->end(), [&](const Touch& t) { return races(t, now, clock); });
  return other == others->end() ? nullptr : &(found_ = *other);
}

void Shadow::forget_readers(std::uint64_t address, Word& word) {
  word.read = {};
  if (word.has_readers) readers_.erase(address / kWordBytes);
  word.has_readers = false;
}

/// Called before `now` becomes the latest write. Keeps other writes of bytes that `now` does not touch, and strong
/// writes that `now` is not ordered after.
void Shadow::keep_other_writes(std::uint64_t address, Word& word, const Touch& now, const Clock& clock) {
  const auto is_unknown = [&](const Touch& write) {
    return write.agent != now.agent && clock.at(write.agent) < write.time;
  };
  const Touch& last = word.write;
  if (!word.has_writers && (last.agent == kNobody || (!is_unknown(last) && (last.bytes & ~now.bytes) == 0))) return;
  std::vector<Touch>& kept = writers_[address / kWordBytes];
  std::erase_if(kept, [&](const Touch& write) {
    return write.agent == last.agent && (write.bytes & ~last.bytes) == 0 && (write.is_strong || !last.is_strong);
  });
  if (last.agent != kNobody) kept.push_back(last);
  for (Touch& write : kept) {
    if (!is_unknown(write)) write.bytes = static_cast<std::uint8_t>(write.bytes & ~now.bytes);
  }
  std::erase_if(kept, [](const Touch& write) { return write.bytes == 0; });
  word.has_writers = !kept.empty();
  if (kept.empty()) writers_.erase(address / kWordBytes);
}

void Shadow::land(std::uint64_t address, Agent issuer, Agent copier, std::uint32_t time) {
  Word& word = at(address);
  const auto move = [&](Touch& write) {
    if (write.agent != issuer) return;
    write.agent = copier;
    write.time = time;
  };
  move(word.write);
  if (!word.has_writers) return;
  for (Touch& write : writers_[address / kWordBytes]) move(write);
}

const Touch* Shadow::read(std::uint64_t address, const Touch& now, const Clock& clock) {
  Word& word = at(address);
  const Touch* const earlier = conflicting(word.write, others_of(writers_, address, word.has_writers), now, clock);
  const Touch& last = word.read;
  const bool is_known = clock.at(last.agent) >= last.time && (last.bytes & ~now.bytes) == 0;
  const bool is_covered = last.agent == kNobody || is_known;
  if (is_covered || last.agent == now.agent) {
    word.read = joined(last, now);
    return earlier;
  }
  std::vector<Touch>& others = readers_[address / kWordBytes];
  // Searches from the back, because blocks run one after another and the agent is one of the latest.
  const auto own = std::find_if(others.rbegin(), others.rend(), [&](const Touch& t) { return t.agent <= now.agent; });
  if (own == others.rend() || own->agent != now.agent) {
    others.insert(own.base(), now);
  } else {
    *own = joined(*own, now);
  }
  word.has_readers = true;
  return earlier;
}

const Touch* Shadow::write(std::uint64_t address, const Touch& now, const Clock& clock) {
  Word& word = at(address);
  const Touch* earlier = conflicting(word.write, others_of(writers_, address, word.has_writers), now, clock);
  if (earlier == nullptr) earlier = conflicting(word.read, others_of(readers_, address, word.has_readers), now, clock);
  if (now.bytes == kAllBytes) forget_readers(address, word);
  keep_other_writes(address, word, now, clock);
  word.write = joined(word.write, now);
  word.write.bytes = now.bytes;
  word.written |= now.bytes;
  return earlier;
}

}  // namespace cubit::runtime::cpu
