// Tensors made from numbers, for tests.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <random>
#include <span>
#include <vector>

namespace cubit::calibrate {

template <class Value>
Tensor tensor_of(const char* type, const std::vector<std::int64_t>& shape, const std::vector<Value>& values) {
  return {type, shape, std::as_bytes(std::span(values))};
}

inline std::vector<float> normal_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.25F, 2);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// Adds the values as one batch.
inline void add_all(Statistics& statistics, const std::vector<float>& values, std::int64_t channels) {
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(values.size()) / channels, channels};
  statistics.add(tensor_of("F32", shape, values));
}

}  // namespace cubit::calibrate
