// Shared-memory accesses and roles of the weight formats that several kernel families have.
#pragma once

#include <string_view>

#include "codegen/tile_layout.hpp"
#include "ops/gemm/accesses.hpp"
#include "ops/gemm/weights.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {

using gemm::MaybeByte;

inline constexpr int kStageSteps = gemm_lanes::kStageK / gemm_lanes::kStepK;  ///< steps of 32 k's in a stage

inline codegen::TileByte byte_at(gemm_lanes::Place place) { return {place.row, place.byte}; }

inline int strips_of(const W4a16Gemm& descriptor) { return descriptor.tile_n / gemm_lanes::kStripColumns; }

codegen::TileAccess ldmatrix_of_words(const W4a16Gemm& descriptor);  ///< words by n
codegen::TileAccess ldmatrix_of_activations(int tiles);  ///< activations that meet words by n, tiles of 8 rows
codegen::TileAccess loads_of_scales(const W4a16Gemm& descriptor);
codegen::TileAccess loads_of_zeros(const W4a16Gemm& descriptor);

/// A role of templates/weight_format/ that reads words from shared memory: `type` without its template arguments.
/// `more_arguments` follow the usual arguments.
gemm::Role format_role(std::string_view header, std::string_view type, std::string_view more_arguments = "");

/// Reads activations in the order along k of the descriptor's words. `spread`: see gemm/word_activations.cuh.
gemm::Role activation_role(const W4a16Gemm& descriptor, bool spread);

}  // namespace cubit::ops::w4a16_gemm
