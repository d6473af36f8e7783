// Appends new keys and values to a KV cache: each row is read once, rotated if requested, rounded to the cache's number
// format and written once. The kernel runs on every architecture from sm_75, uses no shared memory, and synchronises
// only through shuffles.
//
//   block | rows 0, 1 of warp 0 | rows 2, 3 of warp 1 | …      head_dim 128: 16 lanes, each 8 channels of key and value
//
// A row is (sequence, new token, KV head). The same lanes handle the row's key and value, whatever their formats.
// Positions, divisions and addresses are therefore computed once for both, and both loads are in flight before the
// position is known.
//
// If a launch has many rows, each lane group processes several heads of a token, one after another (`steps`).
// Everything that depends only on the token is then computed once, and the next row is being loaded while the current
// row is computed. Head i of a step and head i + 1 are next to each other in a warp. Lane groups beyond the last row
// repeat that row and store nothing, so that all lanes of a warp take part in shuffles.
//
// Bytes of a row (key and value) with head_dim 128: 512 read; written 512 (bf16, fp16), 264 (int8, fp8 with a scale
// each), 160 (int4_rows, 4 groups), 136 (1 group). In addition, each token and lane group reads 4 · rotary_dim bytes of
// cosines and sines. bench/notes/kv_append.md counts the instructions.
//
// PTX ISA: "Data Movement and Conversion Instructions" (ld, st, shfl, cvt), "Floating Point Instructions".
#include "plan.cuh"

#include "attention/rotary.cuh"
#include "core/types.cuh"
#include "kernels/attention/kv_append_arguments.h"
#include "kv_format/row_lanes.cuh"

namespace {

using namespace cubit;

constexpr int kLanes = plan::kLanes;

/// Position of a new token in its sequence; negative if the token is left out.
__device__ __forceinline__ int64 position_of(const KvAppendArguments& args, RowPlace place) {
  if (args.counts != nullptr && place.token >= args.counts[place.sequence]) return -1;
  if (args.positions != nullptr) {
    return args.positions[static_cast<int64>(place.sequence) * args.tokens.divisor + place.token];
  }
  const int64 length = args.lengths == nullptr ? 0 : args.lengths[place.sequence];
  return length < 0 ? -1 : length + place.token;
}

template <class KeyRotary>
__device__ __forceinline__ void store_key(const KeyRotary& rotation, char* row, char* scales, int lane,
                                          const uint32 (&key)[4], bool stored) {
  if constexpr (kSameType<KeyRotary, NoRotary<kLanes>>) {
    plan::Keys::template store<plan::Input>(row, scales, lane, key, stored);
  } else {
    float turned[kLaneChannels];
    widen<plan::Input>(turned, key);
    rotation.template turn<plan::Input>(turned, key);
    plan::Keys::store(row, scales, lane, turned, stored);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(plan::kThreads, plan::kBlocks)
    kv_append(const __grid_constant__ KvAppendArguments args) {
  const int lane = lane_index() % kLanes;
  const uint32 index = blockIdx.x * (plan::kThreads / kLanes) + thread_index() / kLanes;
  const RowPlace place = row_place(index < args.rows ? index : args.rows - 1, args.tokens, args.heads);

  const bool has_key = lane * kLaneChannels < plan::kHeadDim;
  const bool has_value = lane * kLaneChannels < plan::kValueDim;
  const char* key_src = strided_row(args.key, args.key_strides, place) + 16 * lane;
  const char* value_src = strided_row(args.value, args.value_strides, place) + 16 * lane;
  uint32 key[4] = {};
  uint32 value[4] = {};
  if (has_key) load_global<4, 16>(key, key_src);
  if (has_value) load_global<4, 16>(value, value_src);

  const int64 position = position_of(args, place);
  const KvCacheArguments& cache = args.cache;
  const CachePlace found = plan::Rows::find(cache, place.sequence, position);
  const bool stored = index < args.rows && found.exists;
  const int64 angles_at = static_cast<uint32>(position) * args.rotary_stride;
  const plan::KeyRotary rotation(lane, args.rotary_lanes, args.cosines + angles_at, args.sines + angles_at,
                                 found.exists);
  char* key_row = found.row(cache.key, cache.key_strides, place.head);
  char* value_row = found.row(cache.value, cache.value_strides, place.head);
  char* key_scales = nullptr;
  char* value_scales = nullptr;
  if constexpr (plan::Keys::kHasScales) key_scales = found.row(cache.key_scales, cache.key_scale_strides, place.head);
  if constexpr (plan::Values::kHasScales)
    value_scales = found.row(cache.value_scales, cache.value_scale_strides, place.head);

  for (int left = args.steps - 1;; --left) {
    uint32 next_key[4] = {};
    uint32 next_value[4] = {};
    if (left > 0 && has_key) load_global<4, 16>(next_key, key_src += args.key_step);
    if (left > 0 && has_value) load_global<4, 16>(next_value, value_src += args.value_step);
    // The value comes first: the first angles are still in flight, and the value's registers are free when the key is
    // rotated.
    plan::Values::template store<plan::Input>(value_row, value_scales, lane, value, stored && has_value);
    store_key(rotation, key_row, key_scales, lane, key, stored && has_key);
    if (left == 0) break;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      key[i] = next_key[i];
      value[i] = next_value[i];
    }
    key_row += args.cache_key_step;
    value_row += args.cache_value_step;
    if constexpr (plan::Keys::kHasScales) key_scales += args.key_scale_step;
    if constexpr (plan::Values::kHasScales) value_scales += args.value_scale_step;
  }
}
