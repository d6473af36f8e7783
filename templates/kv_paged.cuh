// Cache addressing: pages of a few tokens each, found through a table [batch, pages of a sequence]. The order of tokens and KV
// heads within a page is a matter of strides: NHD and HND are one kernel. A page number below a sequence's length must be one of
// the cache's pages: it is not checked.
//
// Interface of an addressing role: see kv_contiguous.cuh.
#pragma once

#include "divide_by.h"
#include "gqa_decode_arguments.h"
#include "types.cuh"

namespace cubit {

class PagedCache {
 public:
  static constexpr bool kIsPaged = true;

  static __device__ __forceinline__ PagedCache rows(const GqaDecodeArguments& args, int batch, int kv_head) {
    return PagedCache(args, args.page_table + batch * args.page_table_stride, kv_head);
  }

  /// The page of a token that exists, from the table: a load, whose time the caller has something else to do in.
  __device__ __forceinline__ int page(int token) const {
    return table_[quotient(static_cast<uint32>(token), args_.page_size)];
  }
  __device__ __forceinline__ const char* key(int page, int token) const {
    return static_cast<const char*>(args_.key) + page * args_.key_batch_stride +
           in_page(token) * static_cast<int64>(args_.key_token_stride) + kv_head_ * args_.key_head_stride;
  }
  __device__ __forceinline__ const char* value(int page, int token) const {
    return static_cast<const char*>(args_.value) + page * args_.value_batch_stride +
           in_page(token) * static_cast<int64>(args_.value_token_stride) + kv_head_ * args_.value_head_stride;
  }
  __device__ __forceinline__ int key_stride() const { return args_.key_token_stride; }
  __device__ __forceinline__ int value_stride() const { return args_.value_token_stride; }
  __device__ __forceinline__ bool has_tiles_in_pages() const { return args_.page_size.divisor % 16 == 0; }
  __device__ __forceinline__ const char* key_scales(int page, int token) const {
    return scales(args_.key_scales, args_.key_scale_strides, page, token);
  }
  __device__ __forceinline__ const char* value_scales(int page, int token) const {
    return scales(args_.value_scales, args_.value_scale_strides, page, token);
  }

 private:
  __device__ __forceinline__ PagedCache(const GqaDecodeArguments& args, const int* table, int kv_head)
      : args_(args), table_(table), kv_head_(kv_head) {}

  __device__ __forceinline__ int in_page(int token) const {
    return token - static_cast<int>(quotient(static_cast<uint32>(token), args_.page_size) * args_.page_size.divisor);
  }
  __device__ __forceinline__ const char* scales(const char* data, const long long (&strides)[3], int page,
                                                int token) const {
    return data + page * strides[0] + in_page(token) * strides[1] + kv_head_ * strides[2];
  }

  const GqaDecodeArguments& args_;
  const int* table_;
  int kv_head_;
};

}  // namespace cubit
