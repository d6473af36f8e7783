// The w4a16_gemm descriptors that tests cover: all of them, or a list that covers every pair of values of every two
// fields.
#pragma once

#include <cubit/w4a16_gemm.hpp>

#include <string_view>
#include <vector>

#include "tests/support/pairwise.hpp"

namespace cubit::tests {

/// Makes a descriptor from one value per field. `family` is one of the fields. See is_legal_gemm.
inline W4a16Gemm gemm_descriptor(const Combination& c) {
  static constexpr int kGroups[] = {32, 64, 128, 0, 16};
  static constexpr int kTiles[] = {8, 16, 32, 64, 128, 192, 256, 80, 144};
  static constexpr int kColumns[] = {256, 64, 32, 128, 224, 96, 160};
  static constexpr const char* kFamilies[] = {"auto", "sm75", "sm80", "sm90", "sm90_persistent"};
  return {.format = static_cast<W4Format>(c[0]),
          .bits = c[10] == 0 ? 4 : 8,
          .group_size = kGroups[c[1]],
          .element = c[2] == 0 ? Element::fp16 : Element::bf16,
          .tile_m = kTiles[c[3]],
          .tile_n = kColumns[c[12]],
          .activation_order = c[4] != 0,
          .function = static_cast<GemmFunction>(c[5]),
          .bias = c[6] != 0,
          .residual = c[7] != 0,
          .layers = 1 + c[14],
          .alignment = c[8] == 0 ? 16 : 4,
          .batch_invariant = c[9] != 0,
          .atomic_splits = c[13] != 0,
          .family = kFamilies[c[11]]};
}
inline const std::vector<int> kGemmCounts = {5, 5, 2, 9, 2, 6, 2, 2, 2, 2, 2, 5, 7, 2, 3};

/// Whether family sm90_persistent alone has such tiles or weights, or the descriptor names that family.
inline bool is_persistent_gemm(const W4a16Gemm& descriptor) {
  return descriptor.family == "sm90_persistent" || descriptor.tile_m > 64 || descriptor.is_dense();
}

inline bool is_legal_gemm(const Combination& c) {
  const W4a16Gemm descriptor = gemm_descriptor(c);
  const bool awq = descriptor.format == W4Format::awq;
  if (descriptor.bits == 8 && (awq || descriptor.tile_m > 32)) return false;
  if (descriptor.alignment != 16 && !awq) return false;
  if (descriptor.layers > 1) {
    const bool is_of_mma_sync = !is_persistent_gemm(descriptor) && descriptor.family != "sm90" &&
                                (descriptor.tile_n == 256 || descriptor.tile_n <= 64);
    if (!is_of_mma_sync || (descriptor.is_gated() && descriptor.layers > 2)) return false;
  }
  const W4a16Gemm standard;
  if (descriptor.is_dense() && (descriptor.bits != standard.bits || descriptor.group_size != standard.group_size))
    return false;
  if (is_persistent_gemm(descriptor)) {
    const bool is_named = descriptor.family == "auto" || descriptor.family == "sm90_persistent";
    const bool takes_order = !descriptor.activation_order || (!awq && descriptor.group_size != 0);
    return is_named && descriptor.tile_m >= (descriptor.is_dense() ? 16 : 64) && descriptor.tile_n == 256 &&
           descriptor.bits == 4 && descriptor.alignment == 16 && takes_order &&
           !(descriptor.is_dense() && descriptor.activation_order) && !descriptor.atomic_splits &&
           !descriptor.batch_invariant && (descriptor.activation_order || descriptor.group_size != 16);
  }
  if (descriptor.activation_order && (awq || descriptor.group_size == 0)) return false;
  if (descriptor.atomic_splits && (descriptor.batch_invariant || descriptor.tile_n < 256)) return false;
  if (descriptor.tile_n < 256) {
    if (descriptor.family == "sm75" || descriptor.tile_m > 16 || descriptor.batch_invariant) return false;
    if (descriptor.is_gated() && descriptor.tile_n == 32) return false;
    const bool is_row_too_short = awq && descriptor.tile_n == 32;
    const bool has_boxes = !is_row_too_short && descriptor.alignment == 16 && descriptor.bits == 4 &&
                           !descriptor.activation_order && descriptor.group_size != 16 &&
                           (descriptor.tile_n == 128 || !descriptor.is_gated());
    const bool is_sm90_alone = descriptor.tile_n > 64;
    const bool is_gptq = descriptor.format == W4Format::gptq || descriptor.format == W4Format::gptq_v2;
    const bool is_one_with_room =
        descriptor.element == Element::fp16 && is_gptq && (descriptor.group_size == 128 || descriptor.group_size == 0);
    if (descriptor.tile_n == 224 && descriptor.tile_m == 16 && !is_one_with_room) return false;
    if (is_sm90_alone && (!has_boxes || descriptor.family == "sm80")) return false;
    if (descriptor.family == "sm90" && !has_boxes) return false;
  }
  if (descriptor.family == "sm75" && descriptor.element != Element::fp16) return false;
  if (descriptor.family != "sm90") return true;
  return !descriptor.activation_order && !descriptor.batch_invariant && descriptor.bits == 4 &&
         descriptor.alignment == 16 && descriptor.group_size != 16;
}

namespace detail {
inline std::vector<W4a16Gemm> gemm_descriptors_of(const std::vector<Combination>& combinations) {
  std::vector<W4a16Gemm> descriptors;
  for (const Combination& c : combinations) descriptors.push_back(gemm_descriptor(c));
  return descriptors;
}
}  // namespace detail

/// Of one layer.
inline std::vector<W4a16Gemm> all_gemm_descriptors() {
  return detail::gemm_descriptors_of(
      all_combinations(kGemmCounts, [](const Combination& c) { return c[14] == 0 && is_legal_gemm(c); }));
}

/// Pairwise cover. Some descriptors name a family that only some architectures have.
inline const std::vector<W4a16Gemm>& pairwise_gemm_descriptors() {
  static const std::vector<W4a16Gemm> descriptors =
      detail::gemm_descriptors_of(pairwise_cover(kGemmCounts, is_legal_gemm));
  return descriptors;
}

/// Covers every pair of values of all other fields that the given family accepts.
inline std::vector<W4a16Gemm> pairwise_gemm_descriptors_of(std::string_view family) {
  return detail::gemm_descriptors_of(pairwise_cover(
      kGemmCounts, [&](const Combination& c) { return gemm_descriptor(c).family == family && is_legal_gemm(c); }));
}

}  // namespace cubit::tests
