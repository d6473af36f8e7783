// Shared-memory accesses that do not depend on a number format.
#include "ops/gemm/accesses.hpp"

#include <utility>

namespace cubit::ops::gemm {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;

TileAccess row_copies(std::string name, int columns, int rows, int copy_bytes, int rows_at_once) {
  const int lanes = columns / 8;
  return {std::move(name), AccessKind::store, copy_bytes, (rows + rows_at_once - 1) / rows_at_once,
          [=](int instance, int lane) -> MaybeByte {
            const int row = instance * rows_at_once + lane / lanes;
            if (row >= rows || lane >= rows_at_once * lanes) return std::nullopt;
            return TileByte{row, copy_bytes * (lane % lanes)};
          }};
}

}  // namespace cubit::ops::gemm
