// Decode attention for grouped queries: one new token per sequence against its KV cache.
// Family sm90: bulk copies with transaction barriers, even shares, ldmatrix, mma.sync; sm_90 and later.
//
// What is computed, the tile and the roles: as in sm80_gqa_decode.cuh and gqa_decode_block.cuh. What differs:
//
// - A block takes an even share of all sequences' stages (even_share.cuh), one segment of a sequence after the other. A stage
//   is one or two tiles of 16 tokens; a block's stages go to its warps in turn, and each is a warp's step.
// - A stage is two bulk copies that one lane starts, of the keys and of the values, where rows follow one another in the
//   cache and in a stage; otherwise all lanes copy 16 bytes at a time. Copies run ahead across segments: while the results of
//   one are merged, stages of the next arrive.
//
// Shared memory: warp 0 { stage 0 { K rows, V rows }, stage 1 … }, warp 1 …; from kResultsAt on the results of
// gqa_decode_block.cuh; from kBarriersAt on one barrier per warp and stage; from kScratchAt on ShareScratch.
//
// Who waits for whom: a warp starts the copies of its own stages and waits for them at the stage's barrier: step n of a warp
// is in stage n % kStages, in phase n / kStages of its barrier. A stage is filled again after a __syncwarp, when every lane
// has read it. No barrier of the block in the loop; two where a segment ends.
//
// The kernel before in the stream, where the launch overlaps with it, is waited for before anything is read.
//
// Rows at or beyond the length are not read: a warp writes zeros in their place before it uses the stage.
//
// PTX ISA: "cp.async.bulk", "cp.async.mbarrier.arrive", "mbarrier", and those of sm80_gqa_decode.cuh.
#include "plan.cuh"

#include "bulk_copies.cuh"
#include "even_share.cuh"
#include "gqa_decode_arguments.h"
#include "gqa_decode_block.cuh"
#include "gqa_decode_lanes.h"
#include "split_kv.cuh"
#include "types.cuh"

namespace cubit {

using Walk = Walker<kStageTokens, plan::kWarps, plan::kFlushStages>;

__device__ __forceinline__ int head_group_of(const Segment& segment) { return segment.head % plan::kHeadGroups; }
__device__ __forceinline__ int kv_head_of(const Segment& segment) { return segment.head / plan::kHeadGroups; }

/// The places of all rings: stage `stage` of a warp is place warp · kStages + stage.
__device__ __forceinline__ uint32 stage_at(uint32 shared, int place) { return shared + place * kStageBytes; }
__device__ __forceinline__ uint32 barrier_at(uint32 shared, int place) {
  return shared + plan::kBarriersAt + 8 * place;
}

/// What a warp copies next: steps of a segment.
class Feed {
 public:
  __device__ __forceinline__ explicit Feed(const Segment& segment) { set(segment); }

  /// Starts the copies of a step of the warp, if it has it, as far as there are tokens.
  __device__ __forceinline__ void fetch(const GqaDecodeArguments& args, const Walk& walk, Cursor& cursor, uint32 shared,
                                        int place, int step) {
    __syncwarp();  // every lane has read what was in the stage
    if (step >= end_) set(walk.advance(cursor, step));
    if (batch_ < 0) return;
    const plan::Cache cache = plan::Cache::rows(args, batch_, head_ / plan::kHeadGroups);
    const int first = (step - origin_) * kStageTokens;
    const int rows = max(0, min(kStageTokens, length_ - first));
    const uint32 stage = stage_at(shared, place);
    const uint32 barrier = barrier_at(shared, place);
    if (are_rows_joined(args)) {
      if (elect_one()) copy_joined_rows(cache, first, rows, stage, barrier);
    } else {
      copy_pieces(cache, first, rows, stage, barrier);
    }
  }

  /// Whether a row begins where the last one ends, also in a stage.
  static __device__ __forceinline__ bool are_rows_joined(const GqaDecodeArguments& args) {
    return plan::kKvStagePitch == Format::kRowBytes && args.key_token_stride == Format::kRowBytes &&
           args.value_token_stride == Format::kRowBytes;
  }

 private:
  static_assert(Format::kRowBytes % 16 == 0);
  static constexpr uint32 kValuesAt = kStageTokens * plan::kKvStagePitch;

  __device__ __forceinline__ void set(const Segment& segment) {
    batch_ = segment.batch;
    head_ = segment.head;
    origin_ = segment.begin - segment.first;
    end_ = batch_ < 0 ? 0x7fffffff : segment.end();
    length_ = segment.length;
  }

  /// By one lane.
  static __device__ __forceinline__ void copy_joined_rows(const plan::Cache& cache, int first, int rows, uint32 stage,
                                                          uint32 barrier) {
    const uint32 bytes = rows * Format::kRowBytes;
    const int64 at = static_cast<int64>(first) * Format::kRowBytes;
    expect_bytes(barrier, 2 * bytes);
    if (bytes == 0) return;
    copy_bulk(stage, cache.keys(0).first + at, bytes, barrier);
    copy_bulk(stage + kValuesAt, cache.values(0).first + at, bytes, barrier);
  }

  /// By all lanes: 16 bytes each at a time, zeros for what is beyond the length.
  static __device__ __forceinline__ void copy_pieces(const plan::Cache& cache, int first, int rows, uint32 stage,
                                                     uint32 barrier) {
    constexpr int kPieces = Format::kRowBytes / 16;
    constexpr int kCopies = 2 * kStageTokens * kPieces / kWarpSize;
    const CacheRows keys = cache.keys(first);
    const CacheRows values = cache.values(first);
    const int lane = lane_index();
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int piece = i * kWarpSize + lane;
      const int row = piece / kPieces;
      const int byte = piece % kPieces * 16;
      const bool is_value = row >= kStageTokens;
      const int token = is_value ? row - kStageTokens : row;
      const char* const src = (is_value ? values : keys).row(token) + byte;
      const uint32 dst = stage + plan::kv_stage(row, Format::stage_byte(byte));
      copy_async<16>(dst, src, token < rows);  // access: cp.async of rows
    }
    arrive_after_copies(barrier);
  }

  int batch_;  // -1: there is nothing left
  int head_;
  int origin_;  // step of the sequence's first stage
  int end_;     // one past the segment's last step
  int length_;
};

/// Zeros in place of rows at or beyond the length.
__device__ __forceinline__ void clear_missing_rows(uint32 stage, int rows) {
#pragma unroll 1
  for (int row = lane_index(); row < 2 * kStageTokens; row += kWarpSize) {
    if (row % kStageTokens < rows) continue;
#pragma unroll 1
    for (int byte = 0; byte < Format::kRowBytes; byte += 16) {
      const uint32 at = stage + plan::kv_stage(row, byte);
      store_shared(at, make_float4(0.f, 0.f, 0.f, 0.f));  // access: zeros beyond the length
    }
  }
  fence_async_proxy();  // the stage's next copy comes after the zeros
  __syncwarp();
}

/// The results of the warps that have had a step of a segment: its last steps are one of each.
struct StepParts {
  WarpResults results;
  int last;   // step
  int count;  // at most kWarps

  __device__ __forceinline__ void load(int part, int head, int quad, float2& stat, float4& value) const {
    const uint32 warp = static_cast<uint32>(last - part) % plan::kWarps;
    const uint32 row = warp * plan::kHeadsPerBlock + head;
    const char* const sums = reinterpret_cast<const char*>(results.stats + row);
    const char* const outputs = reinterpret_cast<const char*>(results.outputs + row * kMergePitch + 4 * quad);
    stat = load_partial2(sums);      // access: loads of warps' sums
    value = load_partial4(outputs);  // access: loads of warps' outputs
  }
};

__device__ __forceinline__ void fetch_query(Format::RawQuery& raw, const GqaDecodeArguments& args,
                                            const Segment& segment) {
  fetch_block_query(raw, args, segment.batch, kv_head_of(segment), head_group_of(segment));
}

/// A block's slots: its segment that others have begun takes the even one, the one that others end the odd one.
__device__ __forceinline__ Partials partials_of(const GqaDecodeArguments& args, const Walk::Owners& owners) {
  const int block = static_cast<int>(blockIdx.x);
  const int own = 2 * block + (block == owners.first ? 1 : 0);
  return {owners.count, own, 2 * owners.first, 1, 2, args.counters + owners.first};
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kWarps * 32, plan::kBlocksPerSm)
    gqa_decode(const __grid_constant__ cubit::GqaDecodeArguments args) {
  using namespace cubit;
  extern __shared__ __align__(128) unsigned char shared[];
  const int warp = warp_index();
  const uint32 base = shared_address(shared);
  Format::RawQuery raw;
  allow_next_kernel();
  wait_for_previous_kernel();

  Walk::Scratch& scratch = *reinterpret_cast<Walk::Scratch*>(shared + plan::kScratchAt);
  Cursor& ahead = scratch.ahead[threadIdx.x];
  const Walk walk(args, scratch);
  Segment first;
  {
    Cursor cursor = walk.begin();
    if (!walk.next(cursor, first)) return;  // the whole block
    fetch_query(raw, args, first);          // before the copies, behind which it would wait
    ahead = cursor;
    if (threadIdx.x == 0) {
      scratch.cursor = cursor;
      scratch.segments[0] = first;
    }
    if (elect_one()) {
#pragma unroll
      for (int stage = 0; stage < plan::kStages; ++stage) {
        init_barrier(barrier_at(base, warp * plan::kStages + stage), Feed::are_rows_joined(args) ? 1 : kWarpSize);
      }
      fence_barrier_init();
    }
    __syncwarp();
  }
  Feed feed(first);
#pragma unroll 1
  for (int stage = 0; stage < plan::kStages; ++stage) {
    feed.fetch(args, walk, ahead, base, warp * plan::kStages + stage, warp + stage * plan::kWarps);
    // All warps' first stages come before all second ones: those who would wait long for their first would end late.
    __syncthreads();
  }

  const WarpResults results = results_in(shared + plan::kResultsAt);
  int slot = 0;
  uint32 parity = 0;
  int step = warp;
  int place = 0;  // of the block's segment
#pragma unroll 1
  while (true) {
    const int end = scratch.segments[place].end();
    const bool has_steps = step < end;
    if (threadIdx.x == 0) scratch.segments[1 - place] = walk.advance(scratch.cursor, end);  // long before it is needed
    Softmax softmax;
    Format::Accumulator output;
    {
      const int length = scratch.segments[place].length;
      const int origin = scratch.segments[place].begin - scratch.segments[place].first;
      Format::Query query;
      Format::load_query(query, raw, args.scale_log2);
#pragma unroll 1
      for (; step < end; step += plan::kWarps) {
        const int first = (step - origin) * kStageTokens;
        const int at = warp * plan::kStages + slot;
        wait_barrier(barrier_at(base, at), parity);
        if (first + kStageTokens > length) clear_missing_rows(stage_at(base, at), length - first);
        if (first < length) attend(query, stage_at(base, at), first, length, softmax, output);
        feed.fetch(args, walk, ahead, base, at, step + plan::kStages * plan::kWarps);
        if (++slot == plan::kStages) {
          slot = 0;
          parity ^= 1;
        }
      }
    }
    softmax.finish();
    __syncthreads();  // the segment before is merged, the one after is known
    if (has_steps) {
      Format::store(output, results.outputs + warp * plan::kHeadsPerBlock * kMergePitch, kMergePitch);
      store_stats(softmax, results.stats + warp * plan::kHeadsPerBlock);
    }
    const Segment ended = scratch.segments[place];
    place = 1 - place;
    const bool more = scratch.segments[place].batch >= 0;
    if (more) fetch_query(raw, args, scratch.segments[place]);
    __syncthreads();
    const StepParts warps{results, end - 1, min(plan::kWarps, ended.last - ended.first)};
    merge(args, partials_of(args, walk.owners_of(ended)), ended.batch, kv_head_of(ended), head_group_of(ended), warps,
          results.arrived());
    if (!more) return;
  }
}
