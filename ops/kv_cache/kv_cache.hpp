// What the operators that write and read rows of a KV cache share: row formats, where rows lie, host caches for problems.
#pragma once

#include <cubit/gqa_decode.hpp>
#include <cubit/kv_cache.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/plan_header.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"
#include "templates/kv_cache_arguments.h"

namespace cubit::ops::kv_cache {

/// Threads of a block: the fewest that fill an SM's 2048 within its 32 blocks, so that small launches meet many SMs.
inline constexpr int kThreads = 128;

/// The row of one token and one KV head.
struct RowFormat {
  int head_dim = 128;
  KvFormat kv = KvFormat::bf16;
  int groups = 1;

  int row_bytes() const { return kv == KvFormat::int4_rows ? 4 * groups + head_dim / 2 : 2 * head_dim; }
  int element_bytes() const { return kv == KvFormat::int4_rows ? 1 : 2; }
  int row_elements() const { return row_bytes() / element_bytes(); }
  int alignment() const { return kv == KvFormat::int4_rows ? 4 : 16; }  ///< of addresses and strides, in bytes
  std::string_view type() const;                                        ///< "U8", "BF16" or "F16"
};

template <class Descriptor>
RowFormat format_of(const Descriptor& descriptor) {
  return {descriptor.head_dim, descriptor.kv, descriptor.groups};
}

/// The fields head_dim, kv and groups.
template <class Descriptor>
std::vector<Field<Descriptor>> format_fields() {
  return {
      number_field<Descriptor>({"head_dim", "64, 80, 96, 112, 128, 160, 192, 256", "128", "channels per head"},
                               &Descriptor::head_dim, {64, 80, 96, 112, 128, 160, 192, 256}),
      word_field<Descriptor, KvFormat>(
          {"kv", "bf16, fp16, int4_rows", "bf16", "format of the KV cache"}, &Descriptor::kv,
          {{"bf16", KvFormat::bf16}, {"fp16", KvFormat::fp16}, {"int4_rows", KvFormat::int4_rows}}),
      number_field<Descriptor>({"groups", "1, 2, 4, 8", "1",
                                "quantisation groups per row (int4_rows only), of a multiple of 16 channels each"},
                               &Descriptor::groups, {1, 2, 4, 8}),
  };
}

/// A field that is bf16 or fp16.
template <class Descriptor>
Field<Descriptor> element_field(const char* name, const char* meaning, Element Descriptor::*member) {
  return word_field<Descriptor, Element>({name, "bf16, fp16", "bf16", meaning}, member,
                                         {{"bf16", Element::bf16}, {"fp16", Element::fp16}});
}

template <class Descriptor>
Field<Descriptor> addressing_field() {
  return word_field<Descriptor, KvAddressing>(
      {"cache", "contiguous, paged", "contiguous", "one tensor, or pages of 1 to 256 tokens behind a page table"},
      &Descriptor::cache, {{"contiguous", KvAddressing::contiguous}, {"paged", KvAddressing::paged}});
}

/// Rules between the fields of a format. `canonical`: the descriptor's text, `text`: as it was given.
/// Throws Failure(invalid_argument).
void validate_format(const RowFormat& format, std::string_view text, const std::string& canonical);

int rows_per_block(int head_dim);
std::string_view device_type(Element element);
/// The constants and the alias Format of a plan, and the role headers of the format.
void add_format(codegen::PlanHeader& header, const RowFormat& format);
/// The alias Rows of a plan, and its role header.
void add_addressing(codegen::PlanHeader& header, KvAddressing addressing);
/// Decisions about lanes, format and addressing, the same for every kernel that takes whole rows.
std::vector<Decision> row_decisions(const RowFormat& format, KvAddressing addressing);

DivideBy divide_by(std::int64_t divisor);  ///< 1 to 2^31 - 1

/// Throw Failure(invalid_argument) for what <cubit/kv_cache.h> rules out.
void check_cache(const RowFormat& format, KvAddressing addressing, const cubit_kv_cache& cache);
/// batch * tokens * kv_heads, checked.
std::uint32_t count_rows(int batch, int tokens, int kv_heads);
KvCacheArguments kernel_cache(const RowFormat& format, const cubit_kv_cache& cache);
/// Strides of a tensor of 16-bit elements, in bytes.
void copy_strides(long long (&dst)[3], const std::int64_t (&src)[3], int element_bytes);

// ---- problems ------------------------------------------------------------------------------------------------------

[[noreturn]] void reject(std::string given, std::string rule, std::string remedy = {});
/// A dense tensor.
Tensor dense(std::string name, std::string_view type, std::vector<std::int64_t> shape, void* data);
/// Throw Failure(invalid_argument).
void require_type(const Tensor& tensor, std::string_view type);
void require_shape(const Tensor& tensor, const std::vector<std::int64_t>& shape, const char* dimensions);
std::int64_t whole_number(std::string_view name, double value, double least, double most);

/// Tensors that a problem owns copies of, found by name.
class Tensors {
 public:
  void add(Tensor tensor, std::unique_ptr<char[]> storage);
  /// A copy, where `inputs` has one of this name.
  bool take(std::span<const Tensor> inputs, std::string_view name);
  const Tensor* find(std::string_view name) const;  ///< null: there is none
  const std::vector<Tensor>& list() const { return list_; }
  /// The address among `device_data` of the tensor of this name, or null.
  template <class Element>
  Element* address(std::span<void* const> device_data, std::string_view name) const {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (list_[i].name == name) return static_cast<Element*>(device_data[i]);
    }
    return nullptr;
  }

 private:
  std::vector<Tensor> list_;
  std::vector<std::unique_ptr<char[]>> storage_;
};

/// How a problem's caches lie: keys and values alike, dense.
struct CacheShape {
  std::int64_t batch = 1;
  std::int64_t max_length = 0;
  std::int64_t kv_heads = 1;
  // Of a paged cache.
  std::int64_t page_size = 0;
  std::int64_t pages = 0;
  bool heads_outside = false;  ///< a page is [kv_heads, page size, row] ("HND"), not [page size, kv_heads, row]
  const std::int32_t* table = nullptr;  ///< [batch, columns]
  std::int64_t columns = 0;

  bool is_paged() const { return table != nullptr; }
  std::int64_t rows() const { return (is_paged() ? pages * page_size : batch * max_length) * kv_heads; }
  std::vector<std::int64_t> shape(const RowFormat& format) const;
  const char* dimensions() const;
  /// The number of the row, or -1 for one that does not exist.
  std::int64_t row(std::int64_t sequence, std::int64_t token, std::int64_t head) const;
  std::string describe(std::int64_t row) const;  ///< "sequence 1, token 3, head 0", or the page
  /// All but the addresses.
  cubit_kv_cache arguments(const RowFormat& format) const;
};

/// What a launch takes beside tensors, to know a cache's shape.
struct CacheNumbers {
  std::int64_t max_length = -1;  ///< -1: not given
  std::int64_t page_size = -1;
  std::int64_t pages = -1;
  bool heads_outside = false;

  static std::string names(KvAddressing addressing);
  /// False if there is no number of this name.
  bool set(KvAddressing addressing, std::string_view name, double value);
};

/// The shape of caches of `batch` sequences. `key_cache` and `page_table` may be null; what neither they nor the numbers say
/// is `longest` tokens, 16 per page, and the pages that the table names. Throws Failure(invalid_argument).
CacheShape cache_shape(KvAddressing addressing, const CacheNumbers& numbers, std::int64_t batch, std::int64_t kv_heads,
                       const Tensor* key_cache, const Tensor* page_table, std::int64_t longest);

/// Distinct pages in random order for caches of `context` tokens. `with_gaps`: every sequence's last page is no page.
void add_page_table(Tensors& tensors, std::int64_t batch, std::int64_t context, std::int64_t page_size, bool with_gaps,
                    std::uint64_t seed);

/// One row, as formats.md has it: what a kernel must write, bit for bit.
void quantise_row(const RowFormat& format, const float* src, char* dst);
/// One row, in float, in which it is exact but for the rounding of an int4_rows sum.
void dequantise_row(const RowFormat& format, const char* src, float* dst);
void load_row(Element element, const char* src, int channels, float* dst);
void store_row(Element element, const float* src, int channels, char* dst);

/// What rows of made-up data look like; see kPatternsHelp.
inline constexpr int kPatterns = 6;
inline constexpr const char* kPatternsHelp =
    "pattern (0 normal, 1 outlier channels, 2 constant rows, 3 ties and zeros, 4 tiny values, 5 large values)";
/// Random rows of `element`s.
std::unique_ptr<char[]> random_rows(Element element, std::int64_t rows, int channels, int pattern, std::uint64_t seed);

/// Compares bytes of two caches, row by row: the first that differs is `worst`, the error how many.
void compare_rows(const char* name, const RowFormat& format, const CacheShape& shape, const char* expected,
                  const void* got, Problem::Comparison& comparison);

}  // namespace cubit::ops::kv_cache
