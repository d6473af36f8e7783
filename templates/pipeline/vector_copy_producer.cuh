// Vector-copy producer of the sm_90 attention kernel: copies the stages that TMA box copies cannot express, with
// cp.async by all lanes of the producer warps.
//
// Such stages have rows of a span that are not contiguous in the cache, tokens that are not all read, or pages of few
// rows. Rows that are not read arrive as zeros.
//
// A copy moves a 16-byte vector. Unaligned rows begin between multiples of 16 bytes; their vectors are as wide as the
// caller's alignment allows. One exception keeps 16-byte vectors for unaligned rows: the tail of a sequence whose other
// stages are TMA box copies.
//
// PTX ISA: "cp.async".
#pragma once

#include "attention/gqa_decode_lanes.h"
#include "core/copies.cuh"
#include "kv_format/kv_contiguous.cuh"
#include "kv_format/kv_paged.cuh"
#include "pipeline/producer_stage.cuh"

namespace cubit {

/// Copies a stage by 16-byte vectors; all lanes of the producer warps take part. Rows that are not read become zeros. A
/// lane copies the same bytes of every kRows-th row, so that it only adds constants from one row to the next.
__device__ __forceinline__ void copy_vectors(const GqaDecodeArguments& args, const ContiguousCache& cache,
                                             const StageTokens& tokens, uint32 dst) {
  constexpr int kRowBytes = kRowWarps * Keys::kRowBytes;
  constexpr int kRows = lanes::bulk_rows(kRowBytes, kCopyThreads);
  const CacheRows keys = cache.keys(tokens.first);
  const CacheRows values = cache.values(tokens.first);
  const int token_step = kRows << args.row_step_log2;
  const int64 key_step = static_cast<int64>(token_step) * keys.stride;
  const int64 value_step = static_cast<int64>(token_step) * values.stride;
  const int thread = static_cast<int>(threadIdx.x) - plan::kWarps * kWarpSize;
#pragma unroll 1
  for (int vector = thread; vector < kRows * (kRowBytes / 16); vector += kCopyThreads) {
    const lanes::Place at = lanes::bulk_piece(vector, kRowBytes);
    const int warp = at.byte / Keys::kRowBytes;
    const int byte = at.byte % Keys::kRowBytes;
    const int head = warp & ((1 << args.span_log2) - 1);
    int token = token_of(args, at.row, warp);
    const char* key = keys.row(token) + head * args.key_head_stride + byte;
    const char* value = values.row(token) + head * args.value_head_stride + byte;
    // The loop counts the first row of a step. If there are few steps and the last is not full, the compiler otherwise
    // lets lanes with one step less take other rows before the remaining lanes' second step.
    constexpr bool kByStep = kStageTokens == lanes::kTileRows && kStageTokens % kRows != 0;
#pragma unroll 4
    for (int first = kByStep ? 0 : at.row; first < kStageTokens; first += kRows) {
      const int row = kByStep ? first + at.row : first;
      if (kByStep && row >= kStageTokens) break;
      const uint32 place = dst + plan::kv_stage(row, at.byte);
      copy_async<16>(place, key, tokens.has(token));                 // access: cp.async of rows
      copy_async<16>(place + kHalfStage, value, tokens.has(token));  // access: cp.async of rows
      token += token_step;
      key += key_step;
      value += value_step;
    }
  }
}

/// Copies a stage of unaligned rows, by vectors of as many bytes as the caller's alignment allows. The stage holds the
/// rows of the KV heads one behind the other.
__device__ __forceinline__ void copy_unaligned_vectors(const GqaDecodeArguments& args, const ContiguousCache& cache,
                                                       const StageTokens& tokens, uint32 dst) {
  constexpr int kBytes = plan::kVectorBytes;
  constexpr int kVectors = Keys::kRowBytes / kBytes;
  const int heads = 1 << args.span_log2;
  const int rows = max(kCopyThreads / kVectors & -heads, heads);  // rows in flight at once: whole tokens
  const int token_step = rows >> args.span_log2;
  const CacheRows keys = cache.keys(tokens.first);
  const CacheRows values = cache.values(tokens.first);
  const int64 key_step = static_cast<int64>(token_step) * keys.stride;
  const int64 value_step = static_cast<int64>(token_step) * values.stride;
  const int thread = static_cast<int>(threadIdx.x) - plan::kWarps * kWarpSize;
#pragma unroll 1
  for (int vector = thread; vector < rows * kVectors; vector += kCopyThreads) {
    const int first = vector / kVectors;
    const int byte = vector % kVectors * kBytes;
    const int head = first & (heads - 1);
    int token = first >> args.span_log2;
    const char* key = keys.row(token) + head * args.key_head_stride + byte;
    const char* value = values.row(token) + head * args.value_head_stride + byte;
#pragma unroll 4
    for (uint32 begin = 0; begin < kHalfStage; begin += rows * Keys::kRowBytes) {  // each lane stays in the same rows
      const uint32 at = begin + vector * kBytes;
      if (at >= kHalfStage) break;
      copy_async<kBytes>(dst + at, key, tokens.has(token));                 // access: cp.async of rows
      copy_async<kBytes>(dst + kHalfStage + at, value, tokens.has(token));  // access: cp.async of rows
      token += token_step;
      key += key_step;
      value += value_step;
    }
  }
}

/// Copies the tail of a sequence whose full stages are TMA box copies of unaligned rows. The rows of the stage follow
/// one another in the cache and are copied by 16-byte vectors; a vector at the end may hold bytes of a token that is
/// read and bytes of a token that is not.
__device__ __forceinline__ void copy_tail_vectors(const GqaDecodeArguments& args, const ContiguousCache& cache,
                                                  const StageTokens& tokens, uint32 dst) {
  constexpr int kRowBytes = plan::kInterleavedWarps * Keys::kRowBytes;
  constexpr int kRows = lanes::bulk_rows(kRowBytes, kCopyThreads);
  const CacheRows keys = cache.keys(tokens.first);
  const CacheRows values = cache.values(tokens.first);
  const int thread = static_cast<int>(threadIdx.x) - plan::kWarps * kWarpSize;
#pragma unroll 1
  for (int vector = thread; vector < kRows * (kRowBytes / 16); vector += kCopyThreads) {
    const lanes::Place at = lanes::bulk_piece(vector, kRowBytes);
#pragma unroll 2
    for (int first = 0; first < kStageRows; first += kRows) {  // the counter is `first`, so that each lane stays in
                                                               // the same rows
      const int row = first + at.row;
      if (row >= kStageRows) break;  // the last step may exceed the stage
      const int token = row << args.row_step_log2;
      const int bytes = max(0, tokens.count - token) * (Keys::kRowBytes << args.span_log2) - at.byte;
      const int size = max(0, min(bytes, 16));
      const uint32 place = dst + plan::kv_stage(row, at.byte);
      copy_async_first(place, keys.row(token) + at.byte, size);                 // access: cp.async of rows
      copy_async_first(place + kHalfStage, values.row(token) + at.byte, size);  // access: cp.async of rows
    }
  }
}

/// Vector copies of a work item's stages.
template <class Cache>
class VectorCopies {
 public:
  __device__ __forceinline__ void reach(const GqaDecodeArguments&, const Cache&, const WorkItem&, int) {}
  __device__ __forceinline__ void copy(const GqaDecodeArguments& args, const Cache& cache, const WorkItem&, int,
                                       const StageTokens& tokens, uint32 dst) {
    if (tokens.count == 0) return;
    if constexpr (!kRowsAreUnaligned) {
      copy_vectors(args, cache, tokens, dst);
    } else if (args.boxes != 0 && !plan::Tokens::kIsWindow) {
      copy_tail_vectors(args, cache, tokens, dst);
    } else {
      copy_unaligned_vectors(args, cache, tokens, dst);
    }
  }
};

/// Vector copies from a paged cache. A lane holds the pages of its next vectors, and looks them up while the previous
/// vectors are copied.
template <>
class VectorCopies<PagedCache> {
 public:
  /// Called once for each stage that is copied by vectors, in visiting order: looks up the stage's first pages unless
  /// the previous stage has done so.
  __device__ __forceinline__ void reach(const GqaDecodeArguments& args, const PagedCache& cache, const WorkItem& item,
                                        int stage) {
    if ((kInOrder && args.boxes == 0 && stage != item.first) || item.length == 0) return;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) pages_[i] = look_up(args, cache, item, stage, vector_of(0, i));
  }

  __device__ __forceinline__ void copy(const GqaDecodeArguments& args, const PagedCache& cache, const WorkItem& item,
                                       int stage, const StageTokens& tokens, uint32 dst) {
    if (tokens.count == 0) return;
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group) {
      const bool is_last = group + 1 == kGroups;
      uint32 pages[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        pages[i] = pages_[i];
        if (is_last && !kInOrder) continue;
        pages_[i] = look_up(args, cache, item, is_last ? stage + 1 : stage, vector_of(is_last ? 0 : group + 1, i));
      }
      // Without this barrier the assembler moves page lookups behind copies and then waits for both.
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int vector = vector_of(group, i);
        const uint32 page = pages[i];
        if (!kIsWhole && vector >= kVectors) continue;
        const lanes::Place at = lanes::bulk_piece(vector, kRowWarps * Keys::kRowBytes);
        const int warp = at.byte / Keys::kRowBytes;
        const int byte = at.byte % Keys::kRowBytes;
        const int token = token_of(args, at.row, warp);
        const int64 row = cache.row_of_page(tokens.first + token);
        const int head = first_kv_head(args, item) + (warp & ((1 << args.span_log2) - 1));
        // The addresses are computed without the cache's pointers, for which no registers are left.
        const char* const key = static_cast<const char*>(args.key) + page * args.key_batch_stride +
                                row * args.key_token_stride + head * args.key_head_stride + byte;
        const char* const value = static_cast<const char*>(args.value) + page * args.value_batch_stride +
                                  row * args.value_token_stride + head * args.value_head_stride + byte;
        const uint32 at_stage = dst + plan::kv_stage(at.row, at.byte);
        copy_async<16>(at_stage, key, tokens.has(token));                 // access: cp.async of rows
        copy_async<16>(at_stage + kHalfStage, value, tokens.has(token));  // access: cp.async of rows
      }
    }
  }

 private:
  static constexpr int kVectors = kHalfStage / 16;
  static constexpr int kOfLane = (kVectors + kCopyThreads - 1) / kCopyThreads;
  // With more vectors at once the compiler spilled registers.
  static constexpr int kMost = !kInOrder ? 2 : plan::kProducerRegisters > 0 ? 4 : 8;
  static constexpr int kGroups = (kOfLane + kMost - 1) / kMost;
  static constexpr int kAtOnce = (kOfLane + kGroups - 1) / kGroups;
  static constexpr bool kIsWhole = kGroups * kAtOnce * kCopyThreads == kVectors;

  /// The index is settled; otherwise the compiler keeps the rows and bytes of all vectors in registers.
  static __device__ __forceinline__ int vector_of(int group, int i) {
    const uint32 first = group * kAtOnce * kCopyThreads + threadIdx.x - plan::kWarps * kWarpSize;
    const int vector = static_cast<int>(settled(first)) + i * kCopyThreads;
    __builtin_assume(vector >= 0 && vector < kGroups * kAtOnce * kCopyThreads);
    return vector;
  }
  /// Page of a vector; for a token that is not read, the page of another token.
  static __device__ __forceinline__ uint32 look_up(const GqaDecodeArguments& args, const PagedCache& cache,
                                                   const WorkItem& item, int stage, int vector) {
    const lanes::Place at = lanes::bulk_piece(vector, kRowWarps * Keys::kRowBytes);
    const uint32 index = token_of(args, at.row, at.byte / Keys::kRowBytes);
    if constexpr (plan::Tokens::kIsWindow) {
      const StageTokens tokens = tokens_in(args, item, stage);
      return cache.page_of(tokens.first + tokens.readable(static_cast<int>(index)));
    }
    const uint32 token = (static_cast<uint32>(stage) << args.stage_tokens_log2) + index;
    return cache.page_of(static_cast<int>(min(token, static_cast<uint32>(item.length) - 1)));
  }

  uint32 pages_[kAtOnce] = {};
};

}  // namespace cubit
