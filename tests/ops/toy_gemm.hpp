// An operator that tests make up for ops/gemm: 8-bit activations [m, k] and 8-bit weights [n, k] with sums of 32 bits
// and no groups of scales.
#pragma once

#include <optional>
#include <vector>

#include "ops/gemm/mma_sync/kernel.hpp"
#include "tests/support/launches.hpp"

namespace cubit::ops::gemm::toy {

inline constexpr int kStageK = 128;

inline GemmDescriptor describe(int tile_m) {
  return {.text = "toy",
          .tile_m = tile_m,
          .tile_n = 256,
          .weight_bits = 8,
          .activation_bits = 8,
          .product_type = codegen::MmaType::int8};
}

inline Problem problem_of(int m, int n, int k) {
  return {.m = m,
          .n = n,
          .k = k,
          .activation_stride = k + 64,
          .output_stride = n,
          .activations = tests::address(0x1000),
          .output = tests::address(0x2000)};
}

/// ldmatrix.x4 of 16 rows of 32 bytes.
inline codegen::TileAccess ldmatrix(const char* name, int row_blocks) {
  return {
      name, codegen::AccessKind::ldmatrix, 16, row_blocks * kStageK / 32,
      [=](int instance, int lane) -> std::optional<codegen::TileByte> {
        return codegen::TileByte{instance % row_blocks * 16 + lane % 16, instance / row_blocks * 32 + lane / 16 * 16};
      }};
}

/// For tiles of a multiple of 16 rows.
inline mma_sync::Weights mma_sync_weights(int tile_m = 16) {
  mma_sync::Weights weights;
  weights.words.rows = 256;
  weights.words.row_bytes = kStageK;
  weights.accesses.words = {ldmatrix("ldmatrix of weights", 16)};
  weights.accesses.activations = {ldmatrix("ldmatrix of activations", tile_m / 16)};
  weights.role = {"weight_format/w8_words_by_k.cuh", "Toy"};
  weights.activations = {"gemm/matrix_activations.cuh", "ToyActivations"};
  weights.product = {"gemm/mma_product.cuh", "ToyProduct"};
  weights.times = WideTimes{.stage = 0.5, .merge_slice = 0.3};
  return weights;
}

}  // namespace cubit::ops::gemm::toy
