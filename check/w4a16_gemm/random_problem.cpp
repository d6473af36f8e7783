// Makes up problems of w4a16_gemm: ordinary data, and data chosen to be hard. The same seed gives the same bytes on
// every machine.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "check/gemm_problem.hpp"
#include "check/made_up_data.hpp"
#include "check/random.hpp"
#include "check/w4a16_gemm/problem.hpp"
#include "ops/element/element.hpp"

namespace cubit::check::w4a16_gemm {
namespace {

/// Kinds of activations, weights, scales and zeros; see random_help().
enum class Pattern { normal, tiny_activations, extreme_scales, extreme_zeros, outlier_features, one_sign };
constexpr int kPatterns = 6;

struct Sizes {
  GemmSizes gemm;  ///< n: columns of the first layer
  std::int64_t n_2 = 0;
  std::int64_t n_3 = 0;
  Pattern pattern = Pattern::normal;
  LaunchNumbers launch;

  LayerColumns columns() const { return {gemm.n, n_2, n_3}; }
};

Sizes read_sizes(const W4a16Gemm& descriptor, const Numbers& numbers) {
  Sizes sizes;
  for (const auto& [name, value] : numbers) {
    if (sizes.gemm.set_size(name, value)) continue;
    if (name == "n_2" || name == "n_3") {
      (name == "n_2" ? sizes.n_2 : sizes.n_3) = whole_number(name, value, 0, 1 << 24);
      continue;
    }
    if (name == "pattern") {
      sizes.pattern = static_cast<Pattern>(whole_number(name, value, 0, kPatterns - 1));
    } else if (!sizes.launch.set(descriptor, name, value)) {
      throw Failure(Status::invalid_argument, fmt::format("size {}", name), "w4a16_gemm has no such size",
                    fmt::format("accepted: m, n, n_2, n_3, k, pattern, {}", LaunchNumbers::kNames));
    }
  }
  if (descriptor.layers > 1 && sizes.n_2 == 0) sizes.n_2 = sizes.gemm.n;
  if (descriptor.layers > 2 && sizes.n_3 == 0) sizes.n_3 = sizes.gemm.n;
  check_layers(descriptor, sizes.columns());
  check_sizes(descriptor, sizes.gemm.m, columns_of_layers(sizes.columns()), sizes.gemm.k);
  const auto m = static_cast<double>(sizes.gemm.m);
  const auto n = static_cast<double>(columns_of_layers(sizes.columns()));
  const auto k = static_cast<double>(sizes.gemm.k);
  require_made_up(sizes.gemm.size_text(), 2 * m * (n + k) + (descriptor.is_dense() ? 2 : 1) * n * k,
                  "ask for smaller sizes");
  return sizes;
}

/// Fills tensors in order from one stream of random numbers. Each value and each word takes one number.
class Maker {
 public:
  Maker(W4a16Gemm descriptor, Pattern pattern, std::uint64_t seed)
      : descriptor_(std::move(descriptor)), pattern_(pattern), random_(seed) {}

  /// Makes activations. Tiny activations are about 1e-4. With a gate in fp16 they are about 1e-2, because the product
  /// of two results would otherwise be about 1e-8, which fp16 cannot hold.
  float activation(Random& random, std::int64_t feature) const {
    const auto x = static_cast<float>(random.normal());
    switch (pattern_) {
      case Pattern::tiny_activations:
        return (descriptor_.is_gated() && descriptor_.element == Element::fp16 ? 1e-2f : 1e-4f) * x;
      case Pattern::outlier_features:
        return feature % 61 == 7 ? 40 * x + 60 : x;
      case Pattern::one_sign:
        return std::fabs(x) + 1;
      default:
        return x;
    }
  }
  /// Makes scales. Usual scales are some hundredths. Extreme scales range from the smallest subnormal to 32, or to 1/4
  /// for gates, whose output has to fit fp16. Scales of 8-bit weights are a sixteenth of that, so that weights have
  /// about the same size.
  float scale(Random& random, std::int64_t) const {
    const double uniform = random.uniform();
    const int more_bits = descriptor_.bits - 4;
    if (pattern_ == Pattern::extreme_scales)
      return static_cast<float>(std::exp2(-24 + ((descriptor_.is_gated() ? 22 : 29) - more_bits) * uniform));
    return static_cast<float>(std::ldexp(0.005 + 0.01 * uniform, -more_bits));
  }
  /// Makes dense weights of some hundredths, or with extreme scales of either sign from the smallest subnormal to 1/4.
  float weight(Random& random, std::int64_t) const {
    if (pattern_ != Pattern::extreme_scales) return static_cast<float>(0.03 * random.normal());
    const double uniform = 2 * random.uniform() - 1;
    return static_cast<float>(std::copysign(std::exp2(-24 + 22 * std::fabs(uniform)), uniform));
  }
  float addend(Random& random, std::int64_t) const { return static_cast<float>(random.normal()); }
  std::uint32_t word(Random& random) const { return static_cast<std::uint32_t>(random.bits()); }
  /// Makes a word of zeros. Usual zeros are about the middle of the range; extreme zeros are 0 or the largest value.
  std::uint32_t zeros(Random& random) const {
    std::uint32_t result = 0;
    const std::uint64_t bits = random.bits();
    const std::uint32_t largest = (1u << descriptor_.bits) - 1;
    for (int i = 0; i < word_weights(descriptor_); ++i) {
      const auto some = static_cast<std::uint32_t>(bits >> (3 * i) & 7);
      const std::uint32_t usual = (largest + 1) / 2 - 4 + some;
      result |= (pattern_ == Pattern::extreme_zeros ? some % 2 * largest : usual) << (descriptor_.bits * i);
    }
    return result;
  }

  void words(std::string_view name, std::int64_t rows, std::int64_t columns,
             std::uint32_t (Maker::*next)(Random&) const) {
    auto data = std::make_unique<char[]>(4 * rows * columns);
    draw_in_order(random_, rows * columns, 1, [&](std::int64_t i, Random& draws) {
      const std::uint32_t word = (this->*next)(draws);
      std::memcpy(data.get() + 4 * i, &word, 4);
    });
    inputs.add(dense(std::string(name), "I32", {rows, columns}, nullptr), std::move(data));
  }

  /// Adds a tensor of 16-bit values. `next` makes a value from its index in the row.
  void halves(std::string_view name, Element element, std::vector<std::int64_t> shape,
              float (Maker::*next)(Random&, std::int64_t) const) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    auto data = std::make_unique<char[]>(2 * count);
    draw_in_order(random_, count, 1, [&](std::int64_t i, Random& draws) {
      const std::uint16_t bits = from_float(element, (this->*next)(draws, i % shape.back()));
      std::memcpy(data.get() + 2 * i, &bits, 2);
    });
    inputs.add(dense(std::string(name), element_type(element), std::move(shape), nullptr), std::move(data));
  }

  /// Adds the packed weights of a layer of `n` columns.
  void weights_of_layer(int layer, std::int64_t n, std::int64_t k) {
    const int in_word = word_weights(descriptor_);
    const bool by_n = descriptor_.format == W4Format::awq;
    const std::int64_t groups = groups_of(descriptor_, static_cast<int>(k));
    words(name_in_layer("qweight", layer), by_n ? k : k / in_word, by_n ? n / in_word : n, &Maker::word);
    halves(name_in_layer("scales", layer), Element::fp16, {groups, n}, &Maker::scale);
    if (stores_zeros(descriptor_)) words(name_in_layer("qzeros", layer), groups, n / in_word, &Maker::zeros);
  }
  void bias_of_layer(int layer, std::int64_t n) {
    if (descriptor_.bias) halves(name_in_layer("bias", layer), descriptor_.element, {n}, &Maker::addend);
  }

  /// Makes g_idx: a random order in which every group has as many k as in the order of k.
  void groups(std::int64_t k) {
    std::vector<std::int32_t> group(k);
    for (std::int64_t i = 0; i < k; ++i) group[i] = static_cast<std::int32_t>(i / descriptor_.group_size);
    for (std::int64_t i = k - 1; i > 0; --i) std::swap(group[i], group[random_.bits() % (i + 1)]);
    auto data = std::make_unique<char[]>(4 * k);
    std::memcpy(data.get(), group.data(), 4 * k);
    inputs.add(dense("g_idx", "I32", {k}, nullptr), std::move(data));
  }

  Tensors inputs;

 private:
  W4a16Gemm descriptor_;
  Pattern pattern_;
  Random random_;
};

}  // namespace

std::string random_help() {
  return "m, n, k, n_2 and n_3 (columns of the second and of the third layer, else n), pattern (0 normal, 1 "
         "activations of 1e-4 (1e-2 for a gate in fp16), 2 extreme scales or "
         "dense weights, 3 extreme zeros, 4 outlier features, 5 activations of one sign), decomposition, splits";
}

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const W4a16Gemm descriptor = parse(text);
  const Sizes sizes = read_sizes(descriptor, numbers);
  const auto [m, n, k] = sizes.gemm;
  Maker maker(descriptor, sizes.pattern, seed);
  maker.halves("activations", descriptor.element, {m, k}, &Maker::activation);
  if (descriptor.is_dense()) {
    maker.halves("weight", descriptor.element, {n, k}, &Maker::weight);
  } else {
    maker.weights_of_layer(0, n, k);
  }
  if (descriptor.activation_order) maker.groups(k);
  maker.bias_of_layer(0, n);
  const std::int64_t columns = output_columns(descriptor, static_cast<int>(columns_of_layers(sizes.columns())));
  if (descriptor.residual) maker.halves("residual", descriptor.element, {m, columns}, &Maker::addend);
  for (int layer = 1; layer < descriptor.layers; ++layer) {
    maker.weights_of_layer(layer, sizes.columns()[layer], k);
    maker.bias_of_layer(layer, sizes.columns()[layer]);
  }
  return std::make_unique<GemmProblem>(descriptor, std::move(maker.inputs), sizes.launch);
}

}  // namespace cubit::check::w4a16_gemm
