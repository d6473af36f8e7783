// What is remembered of each word of two bytes of memory while a launch is checked: who wrote it last, who has read it
// since, which of its bytes have a value, and which an asynchronous copy has under way.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/cpu/watch/clock.hpp"

namespace cubit::runtime::cpu {

class HappensBefore;

/// What is remembered as one; accesses of single bytes inside are told apart.
inline constexpr std::uint64_t kWordBytes = 2;

/// One access of one lane, as far as a later one must know it.
struct Touch {
  Agent agent = kNobody;
  std::uint32_t time = 0;  ///< of the agent
  std::uint32_t site = 0;
  std::uint8_t lane = 0;
  std::uint8_t bytes = 0;   ///< bit i: byte i of the word
  std::uint8_t extent = 0;  ///< size of the scalar that is accessed, and which word of it this is
  bool is_write : 1 = false;
  bool is_strong : 1 = false;  ///< atomic, volatile, relaxed, acquire, release: not a race with its like
  std::uint8_t scope : 2 = 0;  ///< of a strong one: a Scope
};

struct Word {
  Touch write;
  Touch read;                 ///< the latest; others that it is not ordered after are in Shadow::readers
  std::uint8_t written = 0;   ///< bit i: byte i has a value
  std::uint8_t arriving = 0;  ///< bit i: a copy to byte i is under way; `write` says whose
  std::uint8_t leaving = 0;   ///< bit i: a copy from byte i is under way; `read` says whose
  bool has_readers = false;
  bool has_writers = false;  ///< Shadow::writers: that `write` did not replace
  bool is_mbarrier = false;  ///< part of a live one
};

/// The words of one memory, by address.
class Shadow {
 public:
  Shadow() = default;
  explicit Shadow(const HappensBefore& order) : order_(&order) {}  ///< who knows how far agents are apart

  Word& at(std::uint64_t address);
  void clear();

  /// What `now` must not do, seen from an agent that knows `clock`: the earlier access it races with, or null. Then the
  /// access is remembered.
  const Touch* read(std::uint64_t address, const Touch& now, const Clock& clock);
  const Touch* write(std::uint64_t address, const Touch& now, const Clock& clock);
  /// What `issuer` has a copy write is written at a moment of the copier's.
  void land(std::uint64_t address, Agent issuer, Agent copier, std::uint32_t time);

 private:
  static constexpr std::size_t kPageWords = 1024;
  using Page = std::array<Word, kPageWords>;

  using Others = std::unordered_map<std::uint64_t, std::vector<Touch>>;  ///< by word

  bool races(const Touch& earlier, const Touch& now, const Clock& clock) const;
  bool are_strong_together(const Touch& earlier, const Touch& now) const;
  const Touch* conflicting(const Touch& latest, const std::vector<Touch>* others, const Touch& now, const Clock& clock);
  const std::vector<Touch>* others_of(const Others& all, std::uint64_t address, bool are_any) const;
  void keep_other_writes(std::uint64_t address, Word& word, const Touch& now, const Clock& clock);
  void forget_readers(std::uint64_t address, Word& word);

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::uint64_t latest_number_ = ~std::uint64_t{0};
  Page* latest_ = nullptr;
  Others readers_;
  Others writers_;
  const HappensBefore* order_ = nullptr;  ///< null: all agents are of one block
  Touch found_;
};

}  // namespace cubit::runtime::cpu
