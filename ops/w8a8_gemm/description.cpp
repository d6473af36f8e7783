// Descriptor and arguments as ops/gemm sees them.
#include "ops/argument_checks.hpp"
#include "ops/gemm/boxes.hpp"
#include "ops/w8a8_gemm/w8a8_gemm.hpp"

namespace cubit::ops::w8a8_gemm {
namespace {

using Arguments = cubit_w8a8_gemm_arguments;

constexpr bool has_value(cubit_w8a8_decomposition here, gemm::Decomposition there) {
  return static_cast<int>(here) == static_cast<int>(there);
}
static_assert(has_value(CUBIT_W8A8_AUTOMATIC, gemm::Decomposition::automatic) &&
              has_value(CUBIT_W8A8_DATA_PARALLEL, gemm::Decomposition::data_parallel) &&
              has_value(CUBIT_W8A8_SPLIT_K, gemm::Decomposition::split_k) &&
              has_value(CUBIT_W8A8_STREAM_K, gemm::Decomposition::stream_k) &&
              has_value(CUBIT_W8A8_SPLIT_K_ATOMIC, gemm::Decomposition::split_k_atomic));

gemm::Problem problem_of(const W8a8Gemm& /*descriptor*/, const Arguments& arguments) {
  return {.m = arguments.m,
          .n = arguments.n,
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
          .constant_weights = arguments.constant_weights != 0};
}

void check_tensors(const W8a8Gemm& descriptor, const Arguments& arguments) {
  require_argument(arguments.constant_weights == 0 || arguments.constant_weights == 1, "constant_weights",
                   "it must be 0 or 1", arguments.constant_weights);
  gemm::require_16_bytes("weights", arguments.weights);
  require_alignment("activation_scales", arguments.activation_scales, nullptr, 0, 1, 4, "align it");
  require_alignment("weight_scales", arguments.weight_scales, nullptr, 0, 1,
                    descriptor.weight_scale == ChannelScale::channel ? 16 : 4, "align it");
  require_alignment("activation_zeros", arguments.activation_zeros, nullptr, 0, 1, 4, "align it");
  gemm::require_16_bytes("weight_sums", arguments.weight_sums);
  require_alignment("output_scale", arguments.output_scale, nullptr, 0, 1, 4, "align it");
  if (!descriptor.has_second_output()) return;
  gemm::require_16_bytes("second_output", arguments.second_output);
  require_alignment("second_scale", arguments.second_scale, nullptr, 0, 1, 4, "align it");
  gemm::require_stride("second_stride", arguments.second_stride, 1, 8);
  WrittenDimension rows[] = {{"second_stride", -1, arguments.m, arguments.second_stride}};
  require_apart(rows, output_columns(descriptor, arguments.n));
}

gemm::WeightTensors weight_tensors(const W8a8Gemm&, const gemm::BlockPlan& block, const Arguments& arguments) {
  gemm::WeightTensors tensors{
      .words = arguments.weights,
      .scales = arguments.weight_scales,
      .bytes = {arguments.activation_scales, arguments.output_scale, arguments.activation_zeros, arguments.weight_sums,
                arguments.second_scale, arguments.second_output, arguments.second_stride}};
  if (block.is_persistent)
    tensors.word_map = gemm::weight_rows_map(block.descriptor, arguments.weights, arguments.n, arguments.k, arguments.k,
                                             block.tiles.words);
  return tensors;
}

}  // namespace

const gemm::Translation<W8a8Gemm, Arguments> kTranslation = {.struct_name = "cubit_w8a8_gemm_arguments",
                                                             .describe = describe,
                                                             .pointer_checks = pointer_checks,
                                                             .problem = problem_of,
                                                             .check_tensors = check_tensors,
                                                             .weights = weight_tensors};

gemm::GemmDescriptor describe(const W8a8Gemm& descriptor) {
  // 131056 products of -128 and -128 are the largest multiple of 16 whose sum 32 bits hold.
  constexpr int kMostK = 131056;
  const bool is_int8 = descriptor.element == W8Element::int8;
  return {.text = descriptor.text(),
          .tile_m = descriptor.tile_m,
          .tile_n = descriptor.tile_n,
          .weight_bits = 8,
          .activation_bits = 8,
          .product_type = is_int8 ? codegen::MmaType::int8 : codegen::MmaType::e4m3,
          .output_bytes = output_bytes(descriptor),
          .output_alignment = descriptor.has_byte_output() ? 8 : 16,
          .most_k = kMostK,
          .element = addend_type(descriptor),
          .function = descriptor.function,
          .bias = descriptor.bias,
          .residual = descriptor.residual,
          .atomic_splits = descriptor.atomic_splits};
}

}  // namespace cubit::ops::w8a8_gemm
