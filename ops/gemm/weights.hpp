// The weight operand of a kernel, as an operator describes it to every kernel family.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/tile_layout.hpp"
#include "ops/gemm/model.hpp"

namespace cubit::ops::gemm {

/// A role of a template: a header of templates/ and the type in it that plays the role.
struct Role {
  std::string_view header;
  std::string type;
  std::string_view inner_header = {};  ///< of a type that `type` takes as an argument; empty if there is none
};

/// Shared-memory accesses to the tensors of a pipeline stage.
struct StageAccesses {
  std::vector<codegen::TileAccess> words, activations, scales, zeros;
};

/// What a weight format puts into a kernel. Each kind of kernel adds what it needs: mma_sync::Weights, sm90::Weights,
/// sm90_persistent::Weights. A plain value, which the operator computes from its descriptor and nothing else.
struct WeightOperand {
  int stage_k = 128;  ///< values along k of a pipeline stage
  /// Tiles of a stage: the weights of tile_n columns (of half of them in a block of sm90_persistent), and one row for
  /// each group. mma_sync searches the layout of `words`, of which the operator gives `rows` and `row_bytes` alone.
  codegen::TileLayout words, scales, zeros;
  /// Where g_idx names the group of each k, a block can keep the scales and zeros of its columns in a table in shared
  /// memory: bytes of a group in that table. 0: there is no table.
  int group_row_bytes = 0;
  StageAccesses accesses;  ///< of the lanes; where threads copy a tensor, the kernel adds the copies
  Role role;               ///< reads words from shared memory and makes operands of them
  Role activations;        ///< reads activations in the order along k of the words
  /// Turns sums into stored outputs. Nothing: the epilogue of 16-bit outputs by the descriptor's function, bias and
  /// residual, GemmEpilogue or in family sm90_persistent StagedEpilogue.
  std::optional<Role> epilogue = {};
  /// Turns accumulators into sums and sums into values, with scales per row and per column: see
  /// templates/gemm/scaling.cuh. Nothing: by the descriptor's groups. Families sm75, sm80 and sm90_persistent take
  /// the role, and their kernels then have the arguments of bytes (byte_gemm/).
  std::optional<Role> row_scaling = {};
  Times times;  ///< constants of the performance model
  /// What a row stride of 0 breaks where a tensor map reads rows of activations, for the error message.
  const char* stride_rule =
      "a tensor map reads the rows of activations, and its stride must be a multiple of 16 bytes from 16 on";
  std::vector<const char*> fragments = {};  ///< in addition to the fragments of the kernel's products
};

}  // namespace cubit::ops::gemm
