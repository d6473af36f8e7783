// Plans, checks and launches that the operators which write or read rows of a KV cache share.
#pragma once

#include <cubit/kv_cache.h>
#include <cubit/kv_cache.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/plan_header.hpp"
#include "ops/argument_checks.hpp"
#include "ops/divide_by.hpp"
#include "ops/element/element.hpp"
#include "ops/fields.hpp"
#include "ops/kv_cache/row_format.hpp"
#include "ops/one_pass.hpp"
#include "ops/operator.hpp"
#include "templates/kv_format/kv_cache_arguments.h"

namespace cubit::ops::kv_cache {

/// The field head_dim and the fields of the format.
template <class Descriptor>
std::vector<Field<Descriptor>> row_fields() {
  std::vector<Field<Descriptor>> table = {number_field<Descriptor>(
      {"head_dim", kHeadDims, "128", "channels per head (only kv_gather reads int4_rows of 80 or 112 channels)"},
      &Descriptor::head_dim, head_dims())};
  append(table, format_fields<Descriptor>());
  return table;
}

/// A field that is bf16 or fp16.
template <class Descriptor>
Field<Descriptor> element_field(const char* name, const char* meaning, Element Descriptor::*member) {
  return word_field<Descriptor, Element>({name, "bf16, fp16", "bf16", meaning}, member,
                                         {{"bf16", Element::bf16}, {"fp16", Element::fp16}});
}

/// Lanes that handle a row of keys and its row of values.
int row_lanes(const CacheFormats& formats);
int rows_per_block(const CacheFormats& formats);
/// Adds the constants of a plan, the aliases Keys and Values, and the role headers of their formats.
void add_formats(codegen::PlanHeader& header, const CacheFormats& formats, const codegen::Architecture& architecture);
/// Adds the alias Rows of a plan and its role header.
void add_addressing(codegen::PlanHeader& header, KvAddressing addressing);
/// Decisions about lanes, format and addressing, which all kernels of whole rows have in common.
std::vector<Decision> row_decisions(const CacheFormats& formats, KvAddressing addressing);

/// A launch with a lane group for each of `rows`.
template <class Parameters>
Launch launch_rows(const Parameters& parameters, std::uint32_t rows, const CacheFormats& formats) {
  const auto per_block = static_cast<std::uint32_t>(rows_per_block(formats));
  Launch launch;
  launch.shape = {{(rows + per_block - 1) / per_block, 1, 1}, one_pass::kThreads, 0};
  static_assert(sizeof parameters <= sizeof launch.parameters);
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  return launch;
}

/// Checks the tensors of 16-bit rows, key and value, that a launch has besides the cache. Throws
/// Failure(invalid_argument).
template <class Arguments>
void check_dense_rows(const Arguments& arguments) {
  require_alignment("key", arguments.key, arguments.key_strides, 3, 2, 16);
  require_alignment("value", arguments.value, arguments.value_strides, 3, 2, 16);
}

/// Throw Failure(invalid_argument) for arguments that <cubit/kv_cache.h> rules out. PointerChecks has checked all
/// pointers except those of scales. `needed`: whether the launch touches any row, so that scales must not be NULL.
void check_cache(const CacheFormats& formats, KvAddressing addressing, const cubit_kv_cache& cache);
void check_scales(const CacheFormats& formats, const cubit_kv_scales& scales, bool needed);
/// Requires that no row or scale that a launch writes overwrites another. Strides and extents are those of sequence or
/// page, token and KV head. Throws Failure(invalid_argument).
void check_apart(const char* name, const std::int64_t (&strides)[3], const std::int64_t (&extents)[3],
                 std::int64_t row_elements);
/// batch * tokens * kv_heads. Throws Failure(invalid_argument) if a factor is out of range or the product exceeds 31
/// bits.
std::uint32_t count_rows(int batch, int tokens, int kv_heads);
/// The kernel's arguments for a cache and its scales, with strides in bytes.
KvCacheArguments kernel_cache(const CacheFormats& formats, const cubit_kv_cache& cache, const cubit_kv_scales& scales);
/// Converts the strides of scales to bytes. Strides that the public header declares as not read become 0: all strides
/// of formats without scales and of scales=tensor, and the head stride of scales=token.
void copy_scale_strides(const RowFormat& format, long long (&dst)[3], const std::int64_t (&src)[3]);
/// Converts strides in elements to bytes.
void copy_strides(long long (&dst)[3], const std::int64_t (&src)[3], int element_bytes);

}  // namespace cubit::ops::kv_cache
