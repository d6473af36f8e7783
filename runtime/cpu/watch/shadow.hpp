// What is remembered of each word of two bytes of memory while a launch is checked: who wrote it last, who has read it since, which
// of its bytes have a value, and which an asynchronous copy has under way.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/cpu/watch/clock.hpp"

namespace cubit::runtime::cpu {

/// What is remembered as one: accesses of single bytes inside are told apart, but only the latest is kept.
inline constexpr std::uint64_t kWordBytes = 2;

/// One access of one lane, as far as a later one must know it.
struct Touch {
  Agent agent = kNobody;
  std::uint32_t time = 0;  ///< of the agent
  std::uint32_t site = 0;
  std::uint8_t lane = 0;
  std::uint8_t bytes = 0;  ///< bit i: byte i of the word
  bool is_strong = false;  ///< atomic, volatile, relaxed, acquire, release: not a race with its like
  bool is_write = false;
};

struct Word {
  Touch write;
  Touch read;                 ///< the latest; others that it is not ordered after are in Shadow::readers
  std::uint8_t written = 0;   ///< bit i: byte i has a value
  std::uint8_t arriving = 0;  ///< bit i: a copy to byte i is under way; `write` says whose
  std::uint8_t leaving = 0;   ///< bit i: a copy from byte i is under way; `read` says whose
  bool has_readers = false;
};

/// The words of one memory, by address.
class Shadow {
 public:
  Word& at(std::uint64_t address);
  void clear();

  /// What `now` must not do, seen from an agent that knows `clock`: the earlier access it races with, or null. Then the
  /// access is remembered.
  const Touch* read(std::uint64_t address, const Touch& now, const Clock& clock);
  const Touch* write(std::uint64_t address, const Touch& now, const Clock& clock);

 private:
  static constexpr std::size_t kPageWords = 1024;
  using Page = std::array<Word, kPageWords>;

  const Touch* conflicting_reader(std::uint64_t address, const Word& word, const Touch& now, const Clock& clock);
  void forget_readers(std::uint64_t address, Word& word);

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::uint64_t latest_number_ = ~std::uint64_t{0};
  Page* latest_ = nullptr;
  std::unordered_map<std::uint64_t, std::vector<Touch>> readers_;  ///< by word
  Touch found_;
};

}  // namespace cubit::runtime::cpu
