// Shared-memory accesses that do not depend on a number format. Layouts are searched by the accesses of a stage, and
// the proofs that `explain` prints are about them.
#pragma once

#include <optional>
#include <string>

#include "codegen/tile_layout.hpp"

namespace cubit::ops::gemm {

using MaybeByte = std::optional<codegen::TileByte>;

/// Copies of `rows` rows of scales or zeros of `columns` columns, 8 columns per lane. One access of a warp copies
/// `rows_at_once` rows.
codegen::TileAccess row_copies(std::string name, int columns, int rows, int copy_bytes, int rows_at_once);

}  // namespace cubit::ops::gemm
