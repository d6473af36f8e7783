#include "check/random_rows.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "check/random.hpp"

namespace cubit::check {
namespace {

constexpr int kTies = 3;  ///< the only pattern whose rows draw different numbers of random numbers

void fill_row(int pattern, Random& random, std::int64_t index, std::vector<float>& row) {
  if (pattern != kTies) {
    for (float& x : row) x = static_cast<float>(random.normal());
  } else {
    random.skip(static_cast<std::int64_t>(row.size()));  // the seed's numbers stay those of earlier versions
  }
  switch (pattern) {
    case 1:
      for (std::size_t channel = 3; channel < row.size(); channel += 29) row[channel] = row[channel] * 4 - 60;
      break;
    case 2:
      if (index % 3 != 0) row.assign(row.size(), row[0]);
      break;
    case kTies:  // a group's range is 15, so halves are ties of the 4-bit quantiser; zeros have both signs
      for (float& x : row) x = 0.5f * static_cast<float>(random.bits() % 31);
      for (std::size_t channel = 0; channel < row.size(); channel += 16) row[channel + 7] = 15;
      for (float& x : row) x = x == 0 && random.bits() % 2 == 0 ? -0.f : x;
      break;
    case 4:
      for (float& x : row) x *= 1e-7f;
      break;
    case 5:
      for (float& x : row) x *= index % 4 == 3 ? 1e25f : 20000.f;
      break;
    default:
      break;
  }
}

}  // namespace

std::unique_ptr<char[]> random_rows(Element element, std::int64_t rows, int channels, int pattern, std::uint64_t seed) {
  // At most this many distinct rows are made. The number is prime, so that sequences differ.
  constexpr std::int64_t kDistinctRows = 16381;
  Random random(seed);
  const std::int64_t row_bytes = 2 * channels;
  auto data = std::make_unique_for_overwrite<char[]>(rows * row_bytes);
  const auto make_row = [&](std::int64_t i, Random& draws) {
    std::vector<float> row(channels);
    fill_row(pattern, draws, i, row);
    if (element == Element::fp16)
      std::for_each(row.begin(), row.end(), [](float& x) { x = std::clamp(x, -65504.f, 65504.f); });
    for (int channel = 0; channel < channels; ++channel) {
      const std::uint16_t bits = ops::from_float(element, row[channel]);
      std::memcpy(data.get() + i * row_bytes + 2 * channel, &bits, sizeof bits);
    }
  };
  const std::int64_t distinct = std::min(rows, kDistinctRows);
  if (pattern == kTies) {
    for (std::int64_t i = 0; i < distinct; ++i) make_row(i, random);
  } else {
    draw_in_order(random, distinct, channels, make_row);
  }
  const auto repeat = [&](std::int64_t offset) {
    const std::int64_t i = distinct + offset;
    std::memcpy(data.get() + i * row_bytes, data.get() + i % kDistinctRows * row_bytes, row_bytes);
  };
  constexpr std::int64_t kRepeatedRowsOfThread = 1024;
  parallel_for(rows - distinct, repeat, kRepeatedRowsOfThread);
  return data;
}

}  // namespace cubit::check
