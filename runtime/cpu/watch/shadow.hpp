// Shadow memory of a checked launch. For each 2-byte word it records the last writer, the readers since then, which
// bytes have a value, and which bytes an asynchronous copy is accessing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/cpu/watch/clock.hpp"

namespace cubit::runtime::cpu {

class HappensBefore;

/// Granularity of the shadow memory. Accesses of the two bytes of a word are distinguished by a mask.
inline constexpr std::uint64_t kWordBytes = 2;

/// One access by one lane, with the facts that later accesses need.
struct Touch {
  Agent agent = kNobody;
  std::uint32_t time = 0;  ///< time of the agent
  std::uint32_t site = 0;
  std::uint8_t lane = 0;
  std::uint8_t bytes = 0;   ///< bit i: byte i of the word
  std::uint8_t extent = 0;  ///< size of the accessed scalar, and which word of the scalar this is
  bool is_write : 1 = false;
  bool is_strong : 1 = false;  ///< atomic, volatile, relaxed, acquire or release: two strong accesses do not race
  std::uint8_t scope : 2 = 0;  ///< for a strong access: a Scope
};

/// The recorded facts of one memory word.
struct Word {
  Touch write;
  Touch read;                 ///< the latest read; earlier reads that are not ordered before it are in Shadow::readers_
  std::uint8_t written = 0;   ///< bit i: byte i has a value
  std::uint8_t arriving = 0;  ///< bit i: a copy to byte i is in flight; `write` names the copy
  std::uint8_t leaving = 0;   ///< bit i: a copy from byte i is in flight; `read` names the copy
  bool has_readers = false;
  bool has_writers = false;  ///< Shadow::writers_ holds writes that `write` did not replace
  bool is_mbarrier = false;  ///< part of a live mbarrier
};

/// The shadow words of one memory, by address.
class Shadow {
 public:
  Shadow() = default;
  explicit Shadow(const HappensBefore& order) : order_(&order) {}  ///< `order` knows the scope that contains two agents

  Word& at(std::uint64_t address);
  void clear();

  /// Checks and records the access `now` of an agent that knows `clock`. Returns an earlier access that races with
  /// `now`, or nullptr.
  const Touch* read(std::uint64_t address, const Touch& now, const Clock& clock);
  const Touch* write(std::uint64_t address, const Touch& now, const Clock& clock);
  /// Records that a copy of `issuer` has written, at a time of the agent `copier`.
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
  const HappensBefore* order_ = nullptr;  ///< nullptr: all agents are in one block
  Touch found_;
};

}  // namespace cubit::runtime::cpu
