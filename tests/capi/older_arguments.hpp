// Argument structs as callers have them that were compiled against an older header of the library.
#pragma once

#include <cubit/convert_layout.h>
#include <cubit/dequantize.h>
#include <cubit/gate_quantize.h>
#include <cubit/gqa_decode.h>
#include <cubit/kv_append.h>
#include <cubit/kv_gather.h>
#include <cubit/merge.h>
#include <cubit/norm_quantize.h>
#include <cubit/quantize.h>
#include <cubit/stream_copy.h>
#include <cubit/stream_read.h>
#include <cubit/w4_quantize.h>
#include <cubit/w4a16_gemm.h>
#include <cubit/w8a8_gemm.h>
#include <cubit/weight_sums.h>

#include <cstddef>
#include <cstdint>

namespace cubit {

// The structs of older headers, written out: each ends before members that the library has.
struct OldGqaDecode {  // without everything from score modifications on
  std::size_t size;
  const void *query, *key, *value;
  const std::int32_t* lengths;
  void* output;
  float* lse;
  std::int64_t query_strides[2], key_strides[3], value_strides[3], output_strides[2];
  std::int32_t batch, kv_heads, max_length;
  float softmax_scale;
  std::int32_t splits;
};
struct OldKvAppend {  // without `scales`
  std::size_t size;
  const void *key, *value;
  std::int64_t key_strides[3], value_strides[3];
  cubit_kv_cache cache;
  const std::int32_t *lengths, *positions, *counts;
  const float *cosines, *sines;
  std::int64_t rotary_stride;
  std::int32_t rotary_dim, batch, tokens;
};
struct OldKvGather {  // without `scales`
  std::size_t size;
  void *key, *value;
  std::int64_t key_strides[3], value_strides[3];
  cubit_kv_cache cache;
  const std::int32_t *from, *to;
  std::int32_t batch, tokens;
};
struct OldMerge {  // without `heads`, which has no default
  std::size_t size;
  const void* partial_outputs;
  const float* partial_lse;
  void* output;
  float* lse;
  std::int64_t partial_output_strides[3], partial_lse_strides[3], output_strides[2], lse_strides[2];
  std::int32_t parts, rows;
};
struct OldConvertLayout {  // without `rows` and `columns`, of which the latter has no default
  std::size_t size;
  const void* input;
  void* output;
  std::int64_t input_stride, output_stride;
};
struct OldDequantize {  // without `rows` and `columns`, of which the latter has no default
  std::size_t size;
  const void* input;
  const float *scale, *weight_scale;
  const void *bias, *residual;
  void* output;
  std::int64_t input_stride, residual_stride, output_stride;
};
struct OldGateQuantize {  // without `rows` and `columns`, which have no default
  std::size_t size;
  const void *gate, *up;
  cubit_quantised_rows result;
  std::int64_t gate_stride, up_stride;
};
struct OldNormQuantize {  // without `epsilon`, which has no default
  std::size_t size;
  const void *input, *residual;
  void* sum;
  const void *weight, *bias;
  cubit_quantised_rows result;
  std::int64_t input_stride, residual_stride, sum_stride;
  std::int32_t rows, columns;
};
struct OldQuantize {  // without `rows` and `columns`, which have no default
  std::size_t size;
  const void* input;
  cubit_quantised_rows result;
  std::int64_t input_stride;
};
struct OldW4Quantize {  // without `n` and `k`, which have no default
  std::size_t size;
  const void* weights;
  void *qweight, *qzeros, *scales;
  float *max_error, *rms_error;
  std::int64_t weight_stride;
};
struct OldW4a16Gemm {  // without `splits`
  std::size_t size;
  const void *activations, *qweight, *qzeros, *scales;
  const std::int32_t* g_idx;
  const void *bias, *residual;
  void* output;
  std::int64_t activation_stride, residual_stride, output_stride;
  std::int32_t m, n, k, decomposition;
};
struct OldW8a8Gemm {  // without `splits`
  std::size_t size;
  const void *activations, *weights;
  const float *activation_scales, *weight_scales, *output_scale;
  const void *bias, *residual;
  void* output;
  std::int64_t activation_stride, residual_stride, output_stride;
  std::int32_t m, n, k, decomposition;
};
struct OldWeightSums {  // without `n` and `k`, which have no default
  std::size_t size;
  const void* weights;
  std::int32_t* sums;
};
struct OldStreamCopy {  // without `bytes`
  std::size_t size;
  const void* source;
  void* destination;
};
struct OldStreamRead {  // without `checksums`, which has no default
  std::size_t size;
  const void* source;
  std::int64_t bytes;
};

/// The offset of the first member that the older caller lacks.
template <class Old, class Struct>
constexpr bool is_prefix(std::size_t first_missing) {
  return first_missing <= sizeof(Old) && sizeof(Old) < sizeof(Struct) && sizeof(Old) % 8 == 0;
}
static_assert(is_prefix<OldGqaDecode, cubit_gqa_decode_arguments>(offsetof(cubit_gqa_decode_arguments, page_table)));
static_assert(is_prefix<OldKvAppend, cubit_kv_append_arguments>(offsetof(cubit_kv_append_arguments, scales)));
static_assert(is_prefix<OldKvGather, cubit_kv_gather_arguments>(offsetof(cubit_kv_gather_arguments, scales)));
static_assert(is_prefix<OldMerge, cubit_merge_arguments>(offsetof(cubit_merge_arguments, heads)));
static_assert(is_prefix<OldConvertLayout, cubit_convert_layout_arguments>(offsetof(cubit_convert_layout_arguments,
                                                                                   rows)));
static_assert(is_prefix<OldDequantize, cubit_dequantize_arguments>(offsetof(cubit_dequantize_arguments, rows)));
static_assert(is_prefix<OldGateQuantize, cubit_gate_quantize_arguments>(offsetof(cubit_gate_quantize_arguments, rows)));
static_assert(is_prefix<OldNormQuantize, cubit_norm_quantize_arguments>(offsetof(cubit_norm_quantize_arguments,
                                                                                 epsilon)));
static_assert(is_prefix<OldQuantize, cubit_quantize_arguments>(offsetof(cubit_quantize_arguments, rows)));
static_assert(is_prefix<OldW4Quantize, cubit_w4_quantize_arguments>(offsetof(cubit_w4_quantize_arguments, n)));
static_assert(is_prefix<OldW4a16Gemm, cubit_w4a16_gemm_arguments>(offsetof(cubit_w4a16_gemm_arguments, splits)));
static_assert(is_prefix<OldW8a8Gemm, cubit_w8a8_gemm_arguments>(offsetof(cubit_w8a8_gemm_arguments, splits)));
static_assert(is_prefix<OldWeightSums, cubit_weight_sums_arguments>(offsetof(cubit_weight_sums_arguments, n)));
static_assert(is_prefix<OldStreamCopy, cubit_stream_copy_arguments>(offsetof(cubit_stream_copy_arguments, bytes)));
static_assert(is_prefix<OldStreamRead, cubit_stream_read_arguments>(offsetof(cubit_stream_read_arguments, checksums)));

}  // namespace cubit
