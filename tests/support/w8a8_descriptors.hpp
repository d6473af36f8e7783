// Descriptors of w8a8_gemm in which every pair of values of two fields occurs that the descriptor's rules allow.
#pragma once

#include <cubit/w8a8_gemm.hpp>

#include <string>
#include <vector>

#include "tests/support/pairwise.hpp"

namespace cubit::tests {

constexpr int kW8a8TileRows[] = {8, 16, 32, 64, 128, 192, 256};
constexpr const char* kW8a8Families[] = {"auto", "sm80", "sm75"};
inline const std::vector<int> kW8a8Counts = {2, 2, 5, 7, 6, 2, 2, 2, 2, 2, 3, 2, 3};

inline W8a8Gemm w8a8_descriptor(const Combination& values) {
  W8a8Gemm descriptor;
  descriptor.element = static_cast<W8Element>(values[0]);
  descriptor.accumulate = static_cast<Fp8Accumulation>(values[1]);
  descriptor.output = static_cast<W8Output>(values[2]);
  descriptor.tile_m = kW8a8TileRows[values[3]];
  descriptor.function = static_cast<GemmFunction>(values[4]);
  descriptor.activation_scale = static_cast<TokenScale>(values[5]);
  descriptor.weight_scale = static_cast<ChannelScale>(values[6]);
  descriptor.bias = values[7] != 0;
  descriptor.residual = values[8] != 0;
  descriptor.addend = static_cast<Element>(values[9]);
  descriptor.family = kW8a8Families[values[10]];
  descriptor.zero_points = values[11] != 0;
  descriptor.second_output = static_cast<SecondOutput>(values[12]);
  return descriptor;
}

/// By the rules that docs/operators/w8a8_gemm.md states.
inline bool is_legal_w8a8(const Combination& values) {
  const W8a8Gemm descriptor = w8a8_descriptor(values);
  const W8a8Gemm standard;
  const bool has_addend = descriptor.has_byte_output() && (descriptor.bias || descriptor.residual);
  if (descriptor.promotes() && (descriptor.element == W8Element::int8 || descriptor.tile_m > 128)) return false;
  if (descriptor.addend != standard.addend && !has_addend) return false;
  if (descriptor.family == "sm80" && descriptor.tile_m > 64) return false;
  if (descriptor.family == "sm75" && (descriptor.element != W8Element::int8 || descriptor.tile_m > 64)) return false;
  const bool has_halves = descriptor.output == W8Output::fp16 || descriptor.output == W8Output::bf16;
  if (descriptor.has_second_output() && !has_halves) return false;
  if (descriptor.zero_points && descriptor.element != W8Element::int8) return false;
  if (descriptor.output != W8Output::int32) return true;
  return descriptor.element == W8Element::int8 && descriptor.function == GemmFunction::none && !descriptor.bias &&
         !descriptor.residual && descriptor.activation_scale == standard.activation_scale &&
         descriptor.weight_scale == standard.weight_scale && !descriptor.zero_points;
}

inline std::vector<W8a8Gemm> pairwise_w8a8_descriptors() {
  std::vector<W8a8Gemm> descriptors;
  for (const Combination& values : pairwise_cover(kW8a8Counts, is_legal_w8a8))
    descriptors.push_back(w8a8_descriptor(values));
  return descriptors;
}

}  // namespace cubit::tests
