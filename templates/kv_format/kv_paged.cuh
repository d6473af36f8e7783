// Cache addressing for a paged cache: pages of a few tokens each, found through a table [batch, pages of a sequence].
//
// Strides define the order of tokens and KV heads within a page, so one kernel serves the NHD and the HND layout. The
// page numbers of a sequence's tokens must be valid pages of the cache: the kernel does not check them.
//
// Interface of an addressing role: see kv_contiguous.cuh.
#pragma once

#include "core/divide_by.h"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"

namespace cubit {

class PagedCache {
 public:
  static constexpr bool kIsPaged = true;

  struct Place {
    uint32 page = 0;
    int row = 0;  // row within the page

    __device__ __forceinline__ Place behind(int rows) const { return {page, row + rows}; }
    /// The place that lane `lane` holds; called by all lanes of a warp.
    __device__ __forceinline__ Place of_lane(int lane) const {
      return {__shfl_sync(kFullWarp, page, lane),
              static_cast<int>(__shfl_sync(kFullWarp, static_cast<uint32>(row), lane))};
    }
  };

  struct ScaleRows {
    const char* first;
    int64 page_stride;
    int64 row_stride;

    /// The numbers are settled; otherwise the compiler keeps the zeros of their upper halves and multiplies by them.
    __device__ __forceinline__ const char* at(Place place) const {
      return first + settled(place.page) * page_stride + settled(static_cast<uint32>(place.row)) * row_stride;
    }
  };

  static __device__ __forceinline__ PagedCache rows(const GqaDecodeArguments& args, int batch, int kv_head) {
    PagedCache cache(args);
    const int* const table = args.page_table + batch * args.page_table_stride;
    cache.table_ = reinterpret_cast<const int*>(settled(reinterpret_cast<const char*>(table)));
    cache.key_ = settled(static_cast<const char*>(args.key) + kv_head * args.key_head_stride);
    cache.value_ = settled(static_cast<const char*>(args.value) + kv_head * args.value_head_stride);
    cache.kv_head_ = kv_head;
    return cache;
  }

  __device__ __forceinline__ Place place(int token) const {
    const uint32 index = settled(quotient(static_cast<uint32>(token), args_.page_size));
    return {load(table_ + index), token - static_cast<int>(index * args_.page_size.divisor)};
  }
  /// The page of a token, and the row within the page, separately.
  __device__ __forceinline__ uint32 page_of(int token) const {
    return load(table_ + quotient(static_cast<uint32>(token), args_.page_size));
  }
  __device__ __forceinline__ int row_of_page(int token) const {
    return token - static_cast<int>(quotient(static_cast<uint32>(token), args_.page_size) * args_.page_size.divisor);
  }
  __device__ __forceinline__ const char* key(Place place) const {
    return key_ + place.page * args_.key_batch_stride + place.row * static_cast<int64>(args_.key_token_stride);
  }
  __device__ __forceinline__ const char* value(Place place) const {
    return value_ + place.page * args_.value_batch_stride + place.row * static_cast<int64>(args_.value_token_stride);
  }
  __device__ __forceinline__ int key_stride() const { return args_.key_token_stride; }
  __device__ __forceinline__ int value_stride() const { return args_.value_token_stride; }
  __device__ __forceinline__ bool has_tiles_in_pages() const { return args_.page_size.divisor % 16 == 0; }
  __device__ __forceinline__ ScaleRows scale_rows(bool of_keys) const {
    const char* const data = of_keys ? args_.key_scales : args_.value_scales;
    const long long(&strides)[3] = of_keys ? args_.key_scale_strides : args_.value_scale_strides;
    return {data + kv_head_ * strides[2], strides[0], strides[1]};
  }

 private:
  explicit __device__ __forceinline__ PagedCache(const GqaDecodeArguments& args) : args_(args) {}

  /// Loads from global memory explicitly, because a settled pointer has lost its address space.
  static __device__ __forceinline__ uint32 load(const int* number) {
    uint32 page;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(page) : "l"(number));
    return page;
  }

  const GqaDecodeArguments& args_;
  const int* table_;
  const char* key_;
  const char* value_;
  int kv_head_;
};

}  // namespace cubit
