// Proves that random numbers drawn by several threads are those of one thread, and that normal ones are normal.
#include "check/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace cubit::check {
namespace {

/// What calls of `draw` in order give, and the number that the generator gives next.
template <class Draw>
std::vector<double> drawn_in_order(std::int64_t count, const Draw& draw) {
  Random random(7);
  std::vector<double> numbers(count + 1);
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = draw(random);
  numbers[count] = random.normal();
  return numbers;
}

template <class Draw>
std::vector<double> drawn_by_threads(std::int64_t count, std::int64_t draws, const Draw& draw) {
  Random random(7);
  std::vector<double> numbers(count + 1);
  draw_in_order(random, count, draws, [&](std::int64_t i, Random& own) { numbers[i] = draw(own); });
  numbers[count] = random.normal();
  return numbers;
}

TEST(RandomNumbers, AreTheSameOnAnyNumberOfThreads) {
  for (const std::int64_t count : {0, 1, 4096, 4097, 50001}) {
    const auto normal = [](Random& random) { return random.normal(); };
    EXPECT_EQ(drawn_by_threads(count, 1, normal), drawn_in_order(count, normal)) << count;
    const auto uniform = [](Random& random) { return random.uniform(); };
    EXPECT_EQ(drawn_by_threads(count, 1, uniform), drawn_in_order(count, uniform)) << count;
    const auto three = [](Random& random) { return random.normal() + 3 * random.normal() + 9 * random.normal(); };
    EXPECT_EQ(drawn_by_threads(count, 3, three), drawn_in_order(count, three)) << count;
  }
}

/// Moments and tails of a normal distribution. Six standard deviations of each estimate are allowed.
TEST(RandomNumbers, AreNormal) {
  constexpr int kCount = 1000000;
  Random random(5);
  double sum = 0;
  double squares = 0;
  int beyond_two = 0;
  int beyond_four = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    beyond_two += std::fabs(x) > 2;
    beyond_four += x < -4 || x > 4;
  }
  EXPECT_NEAR(sum / kCount, 0, 6 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 6 * std::sqrt(2.0 / kCount));
  const auto expect_share = [](int found, double beyond) {
    const double share = std::erfc(beyond / std::sqrt(2.0));
    EXPECT_NEAR(found, share * kCount, 6 * std::sqrt(share * kCount)) << beyond;
  };
  expect_share(beyond_two, 2);
  expect_share(beyond_four, 4);
}

}  // namespace
}  // namespace cubit::check
