// Cache addressing for a contiguous cache: one strided tensor [batch, tokens, kv_heads, row] for keys and one for
// values.
//
// Interface of an addressing role:
//   rows(args, batch, kv_head)      constructor
//   place(token)                    the place of a token; a page lookup if kIsPaged, so callers issue it early
//   key(place), value(place)        addresses of a token's rows
//   key_stride(), value_stride()    bytes from a token's row to the next token's row, in 32 bits, so that a row's
//                                   address is one multiply-add; in a paged cache valid only within a page
//   place.behind(n)                 place of the token that is n positions later; in a paged cache that token must lie
//                                   in the same page
//   scale_rows(of keys).at(place)   address of a row's scales, if the number format has separate scales
//   keys(first), values(first)      contiguous cache only, for the sm_90 kernel: rows from token `first` on
//   has_tiles_in_pages()            paged cache only: whether the 16 tokens of every tile, from a multiple of 16 on,
//                                   lie in one page
// Rows at or beyond the sequence's length may not exist, and the caller must not read them.
#pragma once

#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"

namespace cubit {

/// Rows of keys or values from a token on.
struct CacheRows {
  const char* first;
  int stride;

  __device__ __forceinline__ const char* row(int index) const { return first + static_cast<int64>(index) * stride; }
};

class ContiguousCache {
 public:
  static constexpr bool kIsPaged = false;

  struct Place {
    int row = 0;

    __device__ __forceinline__ Place behind(int rows) const { return {row + rows}; }
  };

  struct ScaleRows {
    const char* first;
    int64 row_stride;

    __device__ __forceinline__ const char* at(Place place) const { return first + place.row * row_stride; }
  };

  static __device__ __forceinline__ ContiguousCache rows(const GqaDecodeArguments& args, int batch, int kv_head) {
    ContiguousCache cache;
    cache.key_ =
        settled(static_cast<const char*>(args.key) + batch * args.key_batch_stride + kv_head * args.key_head_stride);
    cache.value_ = settled(static_cast<const char*>(args.value) + batch * args.value_batch_stride +
                           kv_head * args.value_head_stride);
    cache.key_stride_ = args.key_token_stride;
    cache.value_stride_ = args.value_token_stride;
    cache.key_scales_ = args.key_scales + batch * args.key_scale_strides[0] + kv_head * args.key_scale_strides[2];
    cache.value_scales_ =
        args.value_scales + batch * args.value_scale_strides[0] + kv_head * args.value_scale_strides[2];
    cache.key_scale_stride_ = args.key_scale_strides[1];
    cache.value_scale_stride_ = args.value_scale_strides[1];
    return cache;
  }

  __device__ __forceinline__ Place place(int token) const { return {token}; }
  __device__ __forceinline__ const char* key(Place place) const {
    return key_ + static_cast<int64>(place.row) * key_stride_;
  }
  __device__ __forceinline__ const char* value(Place place) const {
    return value_ + static_cast<int64>(place.row) * value_stride_;
  }
  __device__ __forceinline__ CacheRows keys(int first) const { return {key({first}), key_stride_}; }
  __device__ __forceinline__ CacheRows values(int first) const { return {value({first}), value_stride_}; }
  __device__ __forceinline__ int key_stride() const { return key_stride_; }
  __device__ __forceinline__ int value_stride() const { return value_stride_; }
  __device__ __forceinline__ ScaleRows scale_rows(bool of_keys) const {
    return of_keys ? ScaleRows{key_scales_, key_scale_stride_} : ScaleRows{value_scales_, value_scale_stride_};
  }

 private:
  const char* key_;
  const char* value_;
  int key_stride_;
  int value_stride_;
  // Used only by number formats with separate scales.
  const char* key_scales_;
  const char* value_scales_;
  int64 key_scale_stride_;
  int64 value_scale_stride_;
};

}  // namespace cubit
