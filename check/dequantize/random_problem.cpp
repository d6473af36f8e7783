#include "check/dequantize/random_problem.hpp"

#include <cubit/matrix_layout.hpp>

#include <cstring>
#include <limits>
#include <utility>

#include "check/random.hpp"

namespace cubit::check::dequantize {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A tensor whose element i is make(i, random); each call draws one number.
template <class Value, class Make>
void add_values(Tensors& tensors, Tensor tensor, std::uint64_t seed, Make make) {
  const std::int64_t count = tensor.elements();
  auto storage = std::make_unique<char[]>(count * sizeof(Value));
  Random random(seed);
  draw_in_order(random, count, 1, [&](std::int64_t i, Random& own) {
    const Value value = make(i, own);
    std::memcpy(storage.get() + i * sizeof value, &value, sizeof value);
  });
  tensors.add(std::move(tensor), std::move(storage));
}

/// Integers of all magnitudes, among which are the smallest and the largest.
std::int32_t made_up_sum(Random& random) {
  const std::uint64_t bits = random.bits();
  if (bits % 997 == 0) return std::numeric_limits<std::int32_t>::min();
  if (bits % 997 == 1) return std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(bits >> 32) >> (bits % 8 + 12);
}

void add_input(Tensors& tensors, const Dequantize& descriptor, const quantisation::RowSizes& sizes,
               std::uint64_t seed) {
  std::vector<std::int64_t> shape = {sizes.rows, sizes.columns};
  if (descriptor.layout == RowLayout::col32)
    shape = {sizes.columns / kLayoutBlockColumns, sizes.rows, kLayoutBlockColumns};
  if (descriptor.input == QuantisedInteger::int8) {
    add_values<std::int8_t>(tensors, dense("input", "I8", shape, nullptr), seed,
                            [](std::int64_t, Random& random) { return static_cast<std::int8_t>(random.bits()); });
  } else {
    add_values<std::int32_t>(tensors, dense("input", "I32", shape, nullptr), seed,
                             [](std::int64_t, Random& random) { return made_up_sum(random); });
  }
}

}  // namespace

Tensors made_up_tensors(const Dequantize& descriptor, const quantisation::RowSizes& sizes, std::uint64_t seed) {
  Tensors tensors;
  add_input(tensors, descriptor, sizes, seed);
  const bool has_rows = descriptor.scale == ScaleScope::token;
  const double usual = descriptor.input == QuantisedInteger::int8 ? 0.03 : 1e-5;
  constexpr float kOverflowing = 1e4;
  add_values<float>(tensors, dense("scale", "F32", {has_rows ? sizes.rows : 1}, nullptr), seed + 1,
                    [&](std::int64_t row, Random& random) {
                      const auto scale = static_cast<float>(usual * (0.5 + random.uniform()));
                      if (!has_rows || !sizes.special || row % 4 < 2) return scale;
                      return row % 4 == 2 ? kNan : kOverflowing;
                    });
  const auto spread = [](std::int64_t, Random& random) { return static_cast<float>(0.5 + random.uniform()); };
  const std::int64_t scales = descriptor.weight_scale == WeightScale::channel ? sizes.columns : 1;
  if (descriptor.weight_scale != WeightScale::none)
    add_values<float>(tensors, dense("weight_scale", "F32", {scales}, nullptr), seed + 2, spread);
  const std::string_view type = element_type(descriptor.output);
  const auto residual = [&](std::int64_t index, Random& random) {
    const auto drawn = static_cast<float>(4 * random.uniform() - 2);
    const bool is_special = sizes.special && index / sizes.columns % 4 == 1;
    if (is_special && index % 13 == 0) return from_float(descriptor.output, index % 2 == 0 ? kNan : -kInfinity);
    return from_float(descriptor.output, drawn);
  };
  const auto bias = [&](std::int64_t column, Random& random) {
    const auto drawn = static_cast<float>(4 * random.uniform() - 2);
    return from_float(descriptor.output, sizes.special && column % 29 == 5 ? kNan : drawn);
  };
  if (descriptor.bias)
    add_values<std::uint16_t>(tensors, dense("bias", type, {sizes.columns}, nullptr), seed + 3, bias);
  if (descriptor.residual) {
    add_values<std::uint16_t>(tensors, dense("residual", type, {sizes.rows, sizes.columns}, nullptr), seed + 4,
                              residual);
  }
  return tensors;
}

}  // namespace cubit::check::dequantize
