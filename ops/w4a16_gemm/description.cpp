// Descriptor and arguments as ops/gemm sees them.
#include "ops/w4a16_gemm/description.hpp"

#include "ops/gemm/boxes.hpp"
#include "ops/gemm/launch.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

using Arguments = cubit_w4a16_gemm_arguments;

constexpr bool has_value(cubit_w4a16_decomposition here, gemm::Decomposition there) {
  return static_cast<int>(here) == static_cast<int>(there);
}
static_assert(has_value(CUBIT_W4A16_AUTOMATIC, gemm::Decomposition::automatic) &&
              has_value(CUBIT_W4A16_DATA_PARALLEL, gemm::Decomposition::data_parallel) &&
              has_value(CUBIT_W4A16_SPLIT_K, gemm::Decomposition::split_k) &&
              has_value(CUBIT_W4A16_STREAM_K, gemm::Decomposition::stream_k) &&
              has_value(CUBIT_W4A16_SPLIT_K_ATOMIC, gemm::Decomposition::split_k_atomic));

/// Words are a matrix [k / 8, n], and words by n a matrix [k, n / 8].
runtime::TensorMap map_of_weights(const W4a16Gemm& descriptor, const codegen::TileLayout& words,
                                  const Arguments& arguments) {
  const std::int64_t n = arguments.n;
  const std::int64_t k = arguments.k;
  if (descriptor.is_dense()) {
    const std::int64_t row_bytes = 2 * row_stride_of_weights(arguments);
    return gemm::weight_rows_map(describe(descriptor), arguments.weight, n, k, row_bytes, words);
  }
  if (!has_words_by_n(descriptor)) return gemm::box_map(arguments.qweight, 4, n, k / 8, 4 * n, words);
  runtime::TensorMap map = gemm::box_map(arguments.qweight, 4, n / 8, k, n / 2, words);
  // A narrow block's part of a row is less than a cache line. Its neighbours read the rest at about the same time.
  if (is_narrow(descriptor)) map.l2_bytes = 128;
  return map;
}

/// The launch's words, scales and zeros, with tensor maps if the block copies words in boxes.
gemm::WeightTensors weight_tensors(const W4a16Gemm& descriptor, const gemm::BlockPlan& block,
                                   const Arguments& arguments) {
  gemm::WeightTensors tensors{.words = descriptor.is_dense() ? arguments.weight : arguments.qweight,
                              .scales = arguments.scales,
                              .zeros = arguments.qzeros,
                              .group_of_k = arguments.g_idx,
                              .groups = arguments.groups > 0 ? arguments.groups : groups_of(descriptor, arguments.k)};
  tensors.more = {{{arguments.qweight_2, arguments.scales_2, arguments.qzeros_2, arguments.bias_2},
                   {arguments.qweight_3, arguments.scales_3, arguments.qzeros_3, arguments.bias_3}}};
  const gemm::StageTiles& tiles = block.tiles;
  if (tiles.words.part_bytes != 0) tensors.word_map = map_of_weights(descriptor, tiles.words, arguments);
  if (tiles.scales.part_bytes != 0) {
    const std::int64_t n = arguments.n;
    tensors.scale_map = gemm::box_map(arguments.scales, 2, n, groups_of(descriptor, arguments.k), 2 * n, tiles.scales);
  }
  return tensors;
}

}  // namespace

const gemm::Translation<W4a16Gemm, Arguments> kTranslation = {.struct_name = "cubit_w4a16_gemm_arguments",
                                                              .describe = describe,
                                                              .pointer_checks = pointer_checks,
                                                              .problem = problem_of,
                                                              .check_tensors = check_tensors,
                                                              .weights = weight_tensors};

gemm::GemmDescriptor describe(const W4a16Gemm& descriptor) {
  const gemm::Groups groups = {.size = descriptor.group_size,
                               .is_indexed = descriptor.activation_order,
                               .stores_zeros = stores_zeros(descriptor),
                               .zero_offset = zero_offset(descriptor)};
  return {.text = descriptor.text(),
          .tile_m = descriptor.tile_m,
          .tile_n = descriptor.tile_n,
          .weight_bits = descriptor.is_dense() ? 16 : descriptor.bits,
          .groups = descriptor.is_dense() ? std::nullopt : std::optional(groups),
          .element = descriptor.element,
          .function = descriptor.function,
          .bias = descriptor.bias,
          .residual = descriptor.residual,
          .batch_invariant = descriptor.batch_invariant,
          .atomic_splits = descriptor.atomic_splits,
          .layers = descriptor.layers};
}

gemm::Problem problem_of(const W4a16Gemm& descriptor, const cubit_w4a16_gemm_arguments& arguments) {
  check_layers(descriptor, {arguments.n, arguments.n_2, arguments.n_3});
  return {.m = arguments.m,
          .n = arguments.n + arguments.n_2 + arguments.n_3,
          .k = arguments.k,
          .decomposition = static_cast<gemm::Decomposition>(arguments.decomposition),
          .splits = arguments.splits,
          .activation_stride = arguments.activation_stride,
          .residual_stride = arguments.residual_stride,
          .output_stride = arguments.output_stride,
          .activations = arguments.activations,
          .bias = arguments.bias,
          .residual = arguments.residual,
          .output = arguments.output,
          .groups = descriptor.activation_order ? arguments.groups : 0,
          .more_columns = {arguments.n_2, arguments.n_3}};
}

gemm::Schedule choose_schedule(const gemm::BlockPlan& block, const cubit_w4a16_gemm_arguments& arguments,
                               const runtime::DeviceFacts& device) {
  return gemm::choose_schedule(block, problem_of({}, arguments), device);
}

}  // namespace cubit::ops::w4a16_gemm
