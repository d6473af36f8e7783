// Proves that random numbers drawn by several threads are those of one thread.
#include "check/random.hpp"

#include <gtest/gtest.h>

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

TEST(RandomNumbers, AreInOrderBehindASpareVariate) {
  constexpr std::int64_t kCount = 10000;
  Random random(5);
  std::vector<double> expected(kCount + 1);
  for (double& number : expected) number = random.normal();
  Random other(5);
  std::vector<double> numbers = {other.normal()};
  numbers.resize(kCount + 1);
  draw_in_order(other, kCount, 1, [&](std::int64_t i, Random& own) { numbers[i + 1] = own.normal(); });
  EXPECT_EQ(numbers, expected);
}

}  // namespace
}  // namespace cubit::check
