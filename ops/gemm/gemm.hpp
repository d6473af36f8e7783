// What the host side of every GEMM knows of its operator: the common part of a descriptor, and the sizes and tensors of
// a launch.
//
// A GEMM computes output[m, n] = function(activations[m, k] x weights[k, n] + bias) + residual. ops/gemm/ plans its
// kernels, chooses schedules by one performance model, sizes workspaces and encodes launches. An operator, such as
// w4a16_gemm, parses and checks its own descriptor and arguments, and describes them to ops/gemm/ by plain structs:
//
//   GemmDescriptor                    tiles, bits of both operands, groups of scales, epilogue
//   Problem                           sizes, strides and tensors of one launch
//   mma_sync::Weights, sm90::Weights  what a weight format puts into a kernel: layouts and lanes' loads of a stage, the
//   sm90_persistent::Weights          template's role, registers, and the constants of the performance model
//   WeightTensors                     a launch's weights and scales, with their tensor maps
//
// A family of ops/gemm/ makes from these a plan, a KernelSource, a report and launches. Which descriptors a family
// serves, and which is preferred, is the operator's policy.
#pragma once

#include <cubit/element.hpp>
#include <cubit/gemm_function.hpp>

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>

#include "codegen/architecture.hpp"

namespace cubit::ops::gemm {

/// Rows of the output and columns of the weights that a thread block computes.
struct Tile {
  int rows;
  int columns;
};

/// Scales, and perhaps zeros, that neighbouring values along k of one column share. The main loop applies them.
struct Groups {
  int size = 0;               ///< values along k of a group, the last of which may be shorter; 0: one group is all of k
  bool is_indexed = false;    ///< a tensor names the group of each k, so that neighbours along k share no group
  bool stores_zeros = false;  ///< else every zero is zero_offset
  int zero_offset = 0;        ///< added to a stored zero to get the zero that is meant
};

/// The part of a descriptor that all GEMMs have, as the operator states it. A thread block computes tile_m rows of the
/// output and tile_n columns of the weights.
struct GemmDescriptor {
  std::string text;  ///< canonical, for error messages and as the first line of the plan header
  int tile_m = 0;
  int tile_n = 0;
  int weight_bits = 16;                                    ///< of one weight
  int activation_bits = 16;                                ///< of one activation
  codegen::MmaType product_type = codegen::MmaType::fp16;  ///< of the operands of products; fp16 stands for bf16, too
  int sum_bytes = 4;                                       ///< of one accumulated sum, fp32 or s32
  std::optional<Groups> groups = {};                       ///< nothing: the loop applies no scales
  int output_bytes = 2;                                    ///< of one element of the output
  int output_alignment = 16;                               ///< bytes that divide the stride of the output's rows
  int most_k = 1 << 30;                                    ///< the largest k of a launch
  Element element = Element::fp16;  ///< type of bias and residual, and of a dequantised or 16-bit output
  GemmFunction function = GemmFunction::none;
  bool bias = false;
  bool residual = false;
  bool batch_invariant = false;  ///< the order in which k is added up follows from n and k alone
  bool atomic_splits = false;    ///< launches may ask for split-K slices that atomics add
  int layers = 1;                ///< weights with columns of their own, whose products share the activations

  bool is_gated() const { return function == GemmFunction::silu_gate; }
};

bool is_narrow(const GemmDescriptor& descriptor);     ///< blocks have fewer than 256 columns
bool stores_zeros(const GemmDescriptor& descriptor);  ///< groups have zeros in a tensor
bool has_indexed_groups(const GemmDescriptor& descriptor);
/// Scales and zeros are copied with the weights of their k's: groups exist, are not all of k, and are not indexed.
bool stages_scales(const GemmDescriptor& descriptor);
/// One group is all of k, so that scales and zeros are copied once, behind the stages.
bool has_one_group(const GemmDescriptor& descriptor);
int groups_of(const GemmDescriptor& descriptor, int k);       ///< of all of k; 1 without groups
int output_columns(const GemmDescriptor& descriptor, int n);  ///< of n columns of the weights

/// How the blocks of a launch share the work. The values are those of the operators' public enumerations.
enum class Decomposition : int {
  automatic = 0,
  data_parallel = 1,   ///< a block computes all of k
  split_k = 2,         ///< blocks share k, and the last block adds up the partial sums in order
  stream_k = 3,        ///< blocks have balanced shares of all tiles' stages
  split_k_atomic = 4,  ///< as split_k, but atomics add up the partial sums in the order in which they arrive
};
inline constexpr Decomposition kMostDecomposition = Decomposition::split_k_atomic;
inline constexpr int kMostSplits = 256;  ///< that a launch can ask for
inline constexpr int kMostLayers = 3;    ///< whose weights one launch multiplies by the same activations

/// One launch: sizes that the host knows, and device pointers. Strides are from row to row, in elements.
struct Problem {
  int m = 0;  ///< rows of activations and output
  int n = 0;  ///< columns of the weights, of all layers together; a gated output has half as many
  int k = 0;
  Decomposition decomposition = Decomposition::automatic;
  int splits = 0;  ///< split-K factor; 0: chosen
  std::int64_t activation_stride = 0;
  std::int64_t residual_stride = 0;
  std::int64_t output_stride = 0;
  const void* activations = nullptr;  ///< [m, k]
  const void* bias = nullptr;         ///< [n], or of the first layer's columns
  const void* residual = nullptr;     ///< [m, output columns]
  void* output = nullptr;             ///< [m, output columns]
  bool constant_weights = false;      ///< no kernel that may still run at the launch writes the weights
  int groups = 0;  ///< rows of scales and zeros where g_idx names the group of each k; 0: as many as k has
  /// Columns of the second and of the third layer, which are the last of n; 0: there is no such layer.
  std::array<int, kMostLayers - 1> more_columns = {};

  /// Columns of layer `layer`, of kMostLayers.
  int layer_columns(int layer) const {
    return layer > 0 ? more_columns[layer - 1] : n - std::accumulate(more_columns.begin(), more_columns.end(), 0);
  }
};

inline constexpr int kMostColumnTiles = 65535;  ///< the second dimension of a grid

/// Columns of all layers whose tiles are sure to fit a grid: each layer's last tile may have few columns.
int most_columns(const GemmDescriptor& descriptor);

/// Throws Failure(invalid_argument) for sizes that the descriptor or a grid rules out; `n`: of all layers together.
/// With tile_n = 0 the rules of one tile_n are left out.
void check_sizes(const GemmDescriptor& descriptor, std::int64_t m, std::int64_t n, std::int64_t k);

/// Throws Failure(invalid_argument) if `decomposition` has no such value, or if no kernel of the descriptor has that
/// decomposition.
void check_decomposition(const GemmDescriptor& descriptor, Decomposition decomposition);

/// Throws Failure(invalid_argument) if an address is not a multiple of 16 bytes, in which kernels read and write.
void require_16_bytes(const char* name, const void* data);
/// Throws Failure(invalid_argument) if a stride, in elements, is not a multiple of `alignment` bytes, or out of range.
void require_stride(const char* name, std::int64_t stride, int element_bytes = 2, int alignment = 16);
/// Throws Failure(invalid_argument) for addresses and strides of activations, bias, residual and output that no kernel
/// takes. Which of the pointers may be null is checked elsewhere: see PointerChecks.
void check_tensors(const GemmDescriptor& descriptor, const Problem& problem);

}  // namespace cubit::ops::gemm
