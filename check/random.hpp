// Random numbers that are the same on every machine, with every standard library and on any number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

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

  /// Normal with mean 0 and variance 1, within a factor of 1 ± 1.2e-7: the quantile of one uniform variate, by the
  /// rational functions of Wichura's algorithm AS 241 (1988). Variates lie from -6.4 to 6.4.
  double normal() {
    const double p = (static_cast<double>(bits() >> 32) + 0.5) * 0x1p-32;
    const double q = p - 0.5;
    if (std::fabs(q) <= 0.425) {
      const double r = 0.180625 - q * q;
      const double numerator = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179;
      const double denominator = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1;
      return q * numerator / denominator;
    }
    const double r = std::sqrt(-std::log(q < 0 ? p : 1 - p)) - 1.6;
    const double numerator = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777;
    const double denominator = (0.12021132975 * r + 0.73700164250) * r + 1;
    return std::copysign(numerator / denominator, q);
  }

  /// Does what `count` calls of bits(), uniform() or normal() do to the generator.
  void skip(std::int64_t count) { state_ += static_cast<std::uint64_t>(count) * kStep; }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

  std::uint64_t state_;
};

/// Calls make(i, random) for every i below `count`, with the random numbers that calls in order would get, and leaves
/// `random` as calls in order would leave it. Each call must draw exactly `draws` numbers by bits(), uniform() or
/// normal(). Blocks of calls run on several threads.
template <class Make>
void draw_in_order(Random& random, std::int64_t count, std::int64_t draws, const Make& make) {
  constexpr std::int64_t kBlockDraws = 4096;  // worth a thread
  const std::int64_t block = std::max<std::int64_t>(kBlockDraws / draws, 1);
  if (count <= block) {
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
