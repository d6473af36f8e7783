// Shared-memory accesses that the loops of several kernel families make. Layouts are searched by these accesses, and
// the proofs that `explain` prints are about them.
#pragma once

#include <optional>
#include <string>

#include "codegen/tile_layout.hpp"
#include "ops/w4a16_gemm/plan.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {

using MaybeByte = std::optional<codegen::TileByte>;

inline constexpr int kStageSteps = gemm_lanes::kStageK / gemm_lanes::kStepK;  ///< steps of 32 k's in a stage

inline codegen::TileByte byte_at(gemm_lanes::Place place) { return {place.row, place.byte}; }

/// Copies of rows of scales or zeros, 8 columns per lane. `rows_at_once`: rows that one warp copies with one access.
codegen::TileAccess row_copies(std::string name, const W4a16Gemm& descriptor, int copy_bytes, int rows_at_once);

codegen::TileAccess ldmatrix_of_words(int strips);       ///< words by n
codegen::TileAccess ldmatrix_of_activations(int tiles);  ///< activations that meet words by n, tiles of 8 rows
codegen::TileAccess loads_of_scales(const BlockPlan& block);
codegen::TileAccess loads_of_zeros(const BlockPlan& block);

}  // namespace cubit::ops::w4a16_gemm
