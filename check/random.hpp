// Random numbers that are the same on every machine, with every standard library and on any number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/parallel.hpp"

namespace cubit::check {

/// The generator SplitMix64 (Steele, Lea, Flood 2014), with uniform and normal variates.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += kStep;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  /// Normal with mean 0 and variance 1 (Box-Muller). The second variate is kept for the next call.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

  bool has_spare() const { return has_spare_; }
  /// Does what `count` calls of bits() or uniform() do to the generator. That is also what an even number of calls of
  /// normal() does, unless the generator has a spare variate.
  void skip(std::int64_t count) { state_ += static_cast<std::uint64_t>(count) * kStep; }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

  std::uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

/// Calls make(i, random) for every i below `count`, with the random numbers that calls in order would get, and leaves
/// `random` as calls in order would leave it. Each call must draw exactly `draws` numbers by bits(), uniform() or
/// normal(). Blocks of calls run on several threads.
template <class Make>
void draw_in_order(Random& random, std::int64_t count, std::int64_t draws, const Make& make) {
  constexpr std::int64_t kBlockDraws = 4096;  // worth a thread
  // Variates of normal() come in pairs, so a block is even.
  const std::int64_t block = 2 * std::max<std::int64_t>(kBlockDraws / 2 / draws, 1);
  if (random.has_spare() || count <= block) {
    for (std::int64_t i = 0; i < count; ++i) make(i, random);
    return;
  }
  const Random first = random;
  parallel_for((count + block - 1) / block, [&](std::int64_t index) {
    Random own = first;
    own.skip(index * block * draws);
    const std::int64_t end = std::min(count, (index + 1) * block);
    for (std::int64_t i = index * block; i < end; ++i) make(i, own);
    if (end == count) random = own;
  });
}

}  // namespace cubit::check
