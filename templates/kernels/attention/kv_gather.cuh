// Gathers rows of a KV cache as 16-bit values; the inverse of kv_append. Each row is read once and written once. The
// kernel runs on every architecture from sm_75, without shared memory or synchronisation.
//
//   block | rows 0, 1 of warp 0 | rows 2, 3 of warp 1 | …      head_dim 128: 16 lanes, each 8 channels of key and value
//
// A row is (sequence, token, KV head), and the same lanes handle its key and its value. Bytes of a row (key and value)
// with head_dim 128: 512 written; read 512 (bf16, fp16), 264 (int8, fp8 with a scale each), 160 (int4_rows, 4 groups),
// 136 (1 group).
//
// PTX ISA: "Data Movement and Conversion Instructions" (ld, st, cvt), "Floating Point Instructions".
#include "plan.cuh"

#include "core/types.cuh"
#include "kernels/attention/kv_gather_arguments.h"
#include "kv_format/row_lanes.cuh"

extern "C" __global__ void __launch_bounds__(plan::kThreads)
    kv_gather(const __grid_constant__ cubit::KvGatherArguments args) {
  using namespace cubit;
  constexpr int kLanes = plan::kLanes;
  const int lane = lane_index() % kLanes;
  const uint32 index = blockIdx.x * (plan::kThreads / kLanes) + thread_index() / kLanes;
  if (index >= args.rows) return;
  const RowPlace place = row_place(index, args.tokens, args.cache.kv_heads);

  const int64 first = args.from == nullptr ? 0 : args.from[place.sequence];
  const int64 position = first + place.token;
  if (first < 0 || (args.to != nullptr && position >= args.to[place.sequence])) return;
  const KvCacheArguments& cache = args.cache;
  const CachePlace found = plan::Rows::find(cache, place.sequence, position);
  if (!found.exists) return;
  const char* key_scales = nullptr;
  const char* value_scales = nullptr;
  if constexpr (plan::Keys::kHasScales) key_scales = found.row(cache.key_scales, cache.key_scale_strides, place.head);
  if constexpr (plan::Values::kHasScales)
    value_scales = found.row(cache.value_scales, cache.value_scale_strides, place.head);

  const bool has_key = lane * kLaneChannels < plan::kHeadDim;
  const bool has_value = lane * kLaneChannels < plan::kValueDim;
  uint32 key[4];
  uint32 value[4];
  const char* const key_row = found.row(cache.key, cache.key_strides, place.head);
  const char* const value_row = found.row(cache.value, cache.value_strides, place.head);
  if (has_key) plan::Keys::template load<plan::Output>(key, key_row, key_scales, lane);
  if (has_value) plan::Values::template load<plan::Output>(value, value_row, value_scales, lane);
  if (has_key) store_global(const_cast<char*>(strided_row(args.key, args.key_strides, place)) + 16 * lane, key);
  if (has_value) store_global(const_cast<char*>(strided_row(args.value, args.value_strides, place)) + 16 * lane, value);
}
