#include "runtime/cpu/watch/shadow.hpp"

#include <algorithm>

namespace cubit::runtime::cpu {
namespace {

/// Nothing orders `now`, which knows `clock`, after `earlier`.
bool races(const Touch& earlier, const Touch& now, const Clock& clock) {
  if (earlier.agent == kNobody || earlier.agent == now.agent) return false;
  if ((earlier.bytes & now.bytes) == 0 || (earlier.is_strong && now.is_strong)) return false;
  return clock.at(earlier.agent) < earlier.time;
}

}  // namespace

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
}

const Touch* Shadow::conflicting_reader(std::uint64_t address, const Word& word, const Touch& now, const Clock& clock) {
  if (races(word.read, now, clock)) return &(found_ = word.read);
  if (!word.has_readers) return nullptr;
  for (const Touch& reader : readers_[address / kWordBytes]) {
    if (races(reader, now, clock)) return &(found_ = reader);
  }
  return nullptr;
}

void Shadow::forget_readers(std::uint64_t address, Word& word) {
  word.read = {};
  if (word.has_readers) readers_.erase(address / kWordBytes);
  word.has_readers = false;
}

const Touch* Shadow::read(std::uint64_t address, const Touch& now, const Clock& clock) {
  Word& word = at(address);
  const Touch* const earlier = races(word.write, now, clock) ? &(found_ = word.write) : nullptr;
  const Touch& last = word.read;
  const bool is_covered = last.agent == kNobody || clock.at(last.agent) >= last.time;
  if (is_covered || last.agent == now.agent) {
    const std::uint8_t bytes = last.agent == now.agent ? last.bytes : 0;
    word.read = now;
    word.read.bytes |= bytes;
    return earlier;
  }
  std::vector<Touch>& others = readers_[address / kWordBytes];
  // From the back: blocks run one after another, so the agent is one of the latest.
  const auto own = std::find_if(others.rbegin(), others.rend(), [&](const Touch& t) { return t.agent <= now.agent; });
  if (own == others.rend() || own->agent != now.agent) {
    others.insert(own.base(), now);
  } else {
    *own = now;
  }
  word.has_readers = true;
  return earlier;
}

const Touch* Shadow::write(std::uint64_t address, const Touch& now, const Clock& clock) {
  Word& word = at(address);
  const Touch* earlier = races(word.write, now, clock) ? &(found_ = word.write) : nullptr;
  if (earlier == nullptr) earlier = conflicting_reader(address, word, now, clock);
  forget_readers(address, word);
  word.write = now;
  word.written |= now.bytes;
  return earlier;
}

}  // namespace cubit::runtime::cpu
