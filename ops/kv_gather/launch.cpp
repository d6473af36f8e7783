// Turns public arguments of kv_gather into a launch.
#include "ops/kv_gather/kv_gather.hpp"
#include "templates/kernels/attention/kv_gather_arguments.h"

namespace cubit::ops::kv_gather {
namespace {

using Arguments = cubit_kv_gather_arguments;

void check_tensors(const KvGather& descriptor, const PointerChecks& pointers, const Arguments& arguments) {
  pointers.check(&arguments);
  kv_cache::check_dense_rows(arguments);
  require_alignment("from", arguments.from, nullptr, 0, 4, 4);
  require_alignment("to", arguments.to, nullptr, 0, 4, 4);
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  kv_cache::check_cache(formats, descriptor.cache, arguments.cache);
  kv_cache::check_scales(formats, arguments.scales, arguments.cache.max_length > 0);
  const std::int64_t extents[] = {arguments.batch, arguments.tokens, arguments.cache.kv_heads};
  kv_cache::check_apart("key_strides", arguments.key_strides, extents, formats.key.head_dim);
  kv_cache::check_apart("value_strides", arguments.value_strides, extents, formats.value.head_dim);
}

KvGatherArguments kernel_arguments(const KvGather& descriptor, const Arguments& arguments, std::uint32_t rows) {
  KvGatherArguments result{};
  result.key = static_cast<char*>(arguments.key);
  result.value = static_cast<char*>(arguments.value);
  kv_cache::copy_strides(result.key_strides, arguments.key_strides, 2);
  kv_cache::copy_strides(result.value_strides, arguments.value_strides, 2);
  result.cache = kv_cache::kernel_cache(kv_cache::formats_of(descriptor), arguments.cache, arguments.scales);
  result.from = arguments.from;
  result.to = arguments.to;
  result.tokens = divide_by(arguments.tokens);
  result.rows = rows;
  return result;
}

}  // namespace

Launch encode(const KvGather& descriptor, const PointerChecks& pointers, const void* public_arguments) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_kv_gather_arguments");
  const std::uint32_t rows = kv_cache::count_rows(arguments.batch, arguments.tokens, arguments.cache.kv_heads);
  if (rows == 0) {
    Launch nothing;
    nothing.empty = true;
    return nothing;
  }
  check_tensors(descriptor, pointers, arguments);
  return kv_cache::launch_rows(kernel_arguments(descriptor, arguments, rows), rows, kv_cache::formats_of(descriptor));
}

}  // namespace cubit::ops::kv_gather
