// Implements the reference of w4a16_gemm weight by weight, as the formats define the weights.
#include <cstddef>

#include "check/w4a16_gemm/reference.hpp"
#include "ops/element/element.hpp"

namespace cubit::check::w4a16_gemm {
namespace {

/// The value at index `place` of a word that holds values of `bits` bits.
int field_of(std::uint32_t word, int bits, int place) {
  return static_cast<int>(word >> (bits * place) & ((1u << bits) - 1));
}

/// The value of column n in a row of words, each of which holds neighbouring columns.
int field_by_n(const W4a16Gemm& descriptor, const std::uint32_t* row, int n) {
  constexpr int kAwqNibble[] = {0, 4, 1, 5, 2, 6, 3, 7};  // the inverse of AWQ's order 0, 2, 4, 6, 1, 3, 5, 7
  const int in_word = word_weights(descriptor);
  const int place = descriptor.format == W4Format::awq ? kAwqNibble[n % 8] : n % in_word;
  return field_of(row[n / in_word], descriptor.bits, place);
}

int stored_weight(const W4a16Gemm& descriptor, const PackedWeights& weights, int k, int n) {
  const auto columns = static_cast<std::size_t>(weights.n);
  if (descriptor.format == W4Format::awq) return field_by_n(descriptor, weights.qweight + k * (columns / 8), n);
  const int in_word = word_weights(descriptor);
  return field_of(weights.qweight[k / in_word * columns + n], descriptor.bits, k % in_word);
}

}  // namespace

double weight_at(const W4a16Gemm& descriptor, const PackedWeights& weights, int k, int n) {
  double weight = 0;
  weights_of_column(descriptor, weights, n, k, {&weight, 1});
  return weight;
}

void weights_of_column(const W4a16Gemm& descriptor, const PackedWeights& weights, int n, int first_k,
                       std::span<double> values) {
  if (descriptor.is_dense()) {
    const std::uint16_t* const row = weights.dense + static_cast<std::ptrdiff_t>(n) * weights.k + first_k;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_double(descriptor.element, row[i]);
    return;
  }
  const auto columns = static_cast<std::size_t>(weights.n);
  int last_group = -1;  // the group of `zero` and `scale`
  int zero = 0;
  double scale = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int k = first_k + static_cast<int>(i);
    int group = descriptor.group_size == 0 ? 0 : k / descriptor.group_size;
    if (descriptor.activation_order) group = weights.g_idx[k];
    if (group != last_group) {
      last_group = group;
      zero = zero_offset(descriptor);
      if (stores_zeros(descriptor)) {
        const std::size_t row_words = columns / word_weights(descriptor);
        zero += field_by_n(descriptor, weights.qzeros + group * row_words, n);
      }
      scale = to_double(Element::fp16, weights.scales[group * columns + n]);
    }
    values[i] = (stored_weight(descriptor, weights, k, n) - zero) * scale;
  }
}

}  // namespace cubit::check::w4a16_gemm
