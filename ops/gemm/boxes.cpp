// Layouts and tensor maps of TMA box copies.
#include "ops/gemm/boxes.hpp"

#include <bit>

#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::gemm {
namespace {

/// A tensor map swizzles the rows of a box by chunks of 16 bytes within 16, 32, 64 or 128 bytes.
runtime::TensorSwizzle swizzle_of(const codegen::TileLayout& layout) {
  using runtime::TensorSwizzle;
  constexpr TensorSwizzle kOfBits[] = {TensorSwizzle::none, TensorSwizzle::span32, TensorSwizzle::span64,
                                       TensorSwizzle::span128};
  return kOfBits[layout.swizzle.bits];
}

}  // namespace

codegen::TileLayout box_layout(int rows, int row_bytes, int box_bytes) {
  const bool is_swizzled = box_bytes == 32 || box_bytes == 64 || box_bytes == 128;
  const int bits = is_swizzled ? std::countr_zero(static_cast<unsigned>(box_bytes / 16)) : 0;
  return {rows, row_bytes, box_bytes, {bits, 4, 7}, box_bytes};
}

codegen::TileLayout plain_box_layout(int rows, int row_bytes, int box_bytes) {
  return {rows, row_bytes, box_bytes, {}, box_bytes};
}

int box_columns(const GemmDescriptor& descriptor) {
  return is_narrow(descriptor) ? output_columns(descriptor, descriptor.tile_n) : gemm_lanes::kBlockColumns / 2;
}

runtime::TensorMap box_map(const void* base, int element_bytes, std::int64_t columns, std::int64_t rows,
                           std::int64_t row_bytes, const codegen::TileLayout& layout) {
  runtime::TensorMap map;
  map.base = reinterpret_cast<std::uintptr_t>(base);
  map.element_bytes = element_bytes;
  map.rank = 2;
  map.sizes = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)};
  map.strides = {static_cast<std::uint64_t>(row_bytes)};
  map.box = {static_cast<std::uint32_t>(layout.part_bytes / element_bytes), static_cast<std::uint32_t>(layout.rows)};
  map.swizzle = swizzle_of(layout);
  return map;
}

std::int64_t map_row_bytes(std::int64_t rows, std::int64_t columns, std::int64_t stride, int element_bytes) {
  return rows == 1 ? (element_bytes * columns + 15) / 16 * 16 : element_bytes * stride;
}

runtime::TensorMap activation_map(const GemmDescriptor& descriptor, const Problem& problem,
                                  const codegen::TileLayout& layout) {
  const int bytes = descriptor.activation_bits / 8;
  return box_map(problem.activations, bytes, problem.k, problem.m,
                 map_row_bytes(problem.m, problem.k, problem.activation_stride, bytes), layout);
}

runtime::TensorMap weight_rows_map(const GemmDescriptor& descriptor, const void* base, std::int64_t n, std::int64_t k,
                                   std::int64_t row_bytes, const codegen::TileLayout& layout) {
  runtime::TensorMap map = box_map(base, descriptor.weight_bits / 8, k, n, row_bytes, layout);
  if (!descriptor.is_gated()) return map;
  constexpr int kRows = 8;
  const auto rows = static_cast<std::uint64_t>(n);
  const std::uint64_t row = map.strides[0];
  map.rank = 4;
  map.sizes = {map.sizes[0], kRows, 2, rows / (2 * kRows)};
  map.strides = {row, rows / 2 * row, kRows * row};
  map.box = {map.box[0], kRows, 2, static_cast<std::uint32_t>(layout.rows / (2 * kRows))};
  return map;
}

void add_map(Launch& launch, const runtime::TensorMap& map) {
  launch.parameter_bytes = runtime::map_offset(launch.parameter_bytes);
  launch.maps.add(launch.parameter_bytes, map);
  launch.parameter_bytes += sizeof(runtime::EncodedTensorMap);
}

}  // namespace cubit::ops::gemm
