#include "ops/launch/recent_table.hpp"

namespace cubit::ops {

std::uint64_t hash_of(const std::array<std::uint64_t, 4>& numbers, std::span<const std::byte> bytes) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const auto mixed = [](std::uint64_t chain, std::uint64_t word) {
    chain = (chain ^ word) * kFactor;
    return chain ^ chain >> 32;
  };
  const auto word = [&](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, kWord);
    return value;
  };
  auto [a, b, c, d] = numbers;
  std::size_t at = 0;
  for (; at + 4 * kWord <= bytes.size(); at += 4 * kWord) {
    a = mixed(a, word(at));
    b = mixed(b, word(at + kWord));
    c = mixed(c, word(at + 2 * kWord));
    d = mixed(d, word(at + 3 * kWord));
  }
  for (; at < bytes.size(); at += kWord) a = mixed(a, word(at));
  return mixed(mixed(mixed(a, b), c), d) | 1;
}

}  // namespace cubit::ops
