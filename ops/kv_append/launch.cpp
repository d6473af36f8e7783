// Turns public arguments of kv_append into a launch.
#include <algorithm>

#include "ops/kv_append/kv_append.hpp"
#include "templates/kernels/attention/kv_append_arguments.h"

namespace cubit::ops::kv_append {
namespace {

using Arguments = cubit_kv_append_arguments;

void check_rotary(const KvAppend& descriptor, const Arguments& arguments) {
  if (descriptor.rotary == Rotary::none) {
    require_argument(arguments.rotary_dim == 0, "rotary_dim", "it must be 0, for the descriptor has rotary=none",
                     arguments.rotary_dim);
    return;
  }
  require_argument(
      arguments.rotary_dim >= 16 && arguments.rotary_dim % 16 == 0 && arguments.rotary_dim <= descriptor.head_dim,
      "rotary_dim", "it must be a multiple of 16 from 16 to head_dim", arguments.rotary_dim);
  require_alignment("cosines", arguments.cosines, &arguments.rotary_stride, 1, 4, 16);
  require_alignment("sines", arguments.sines, &arguments.rotary_stride, 1, 4, 16);
}

/// The tokens of a sequence, or of one page, that a launch may write.
std::int64_t place_tokens(const cubit_kv_cache& cache) {
  return cache.page_size > 0 ? std::min(cache.page_size, cache.max_length) : cache.max_length;
}

/// Refuses scales with a token stride of 0. Kernels that read scales accept one scale per KV head, but here each token
/// would overwrite the scale of all other tokens.
void check_written_scales(const kv_cache::CacheFormats& formats, const Arguments& arguments) {
  if (place_tokens(arguments.cache) <= 1) return;
  constexpr const char* kRule =
      "it must not be 0 where scales are written, for each row writes its own scale (scales=tensor has one scale for "
      "all rows, which is only read)";
  const auto check = [&](const kv_cache::RowFormat& format, const char* name, std::int64_t stride) {
    require_argument(!format.makes_scales() || stride != 0, name, kRule, stride);
  };
  check(formats.key, "scales.key_strides[1]", arguments.scales.key_strides[1]);
  check(formats.value, "scales.value_strides[1]", arguments.scales.value_strides[1]);
}

/// Requires that the rows and scales of different tokens do not overlap.
void check_written(const kv_cache::CacheFormats& formats, const Arguments& arguments) {
  const cubit_kv_cache& cache = arguments.cache;
  const std::int64_t extents[] = {cache.page_size > 0 ? cache.pages : arguments.batch, place_tokens(cache),
                                  cache.kv_heads};
  kv_cache::check_apart("cache.key_strides", cache.key_strides, extents, formats.key.row_elements());
  kv_cache::check_apart("cache.value_strides", cache.value_strides, extents, formats.value.row_elements());
  check_written_scales(formats, arguments);
  const cubit_kv_scales& scales = arguments.scales;
  if (formats.key.makes_scales())
    kv_cache::check_apart("scales.key_strides", scales.key_strides, extents, formats.key.groups);
  if (formats.value.makes_scales())
    kv_cache::check_apart("scales.value_strides", scales.value_strides, extents, formats.value.groups);
}

void check_tensors(const KvAppend& descriptor, const PointerChecks& pointers, const Arguments& arguments) {
  pointers.check(&arguments);
  kv_cache::check_dense_rows(arguments);
  require_alignment("lengths", arguments.lengths, nullptr, 0, 4, 4);
  require_alignment("positions", arguments.positions, nullptr, 0, 4, 4);
  require_alignment("counts", arguments.counts, nullptr, 0, 4, 4);
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  kv_cache::check_cache(formats, descriptor.cache, arguments.cache);
  kv_cache::check_scales(formats, arguments.scales, arguments.cache.max_length > 0);
  check_written(formats, arguments);
  check_rotary(descriptor, arguments);
}

/// The number of heads of a token that a lane group handles in sequence. The group finds the token's place, position
/// and angles once for all its heads. This work and the wait for the first row take as long as 1.5 rows, and more heads
/// share that time. More heads per group also mean fewer blocks, which pays only while the blocks still fill the
/// device. Copies take one head per group, because memory alone bounds their speed.
int steps_of(const KvAppend& descriptor, int kv_heads, std::uint32_t rows, const runtime::DeviceFacts& device) {
  if (is_copy(descriptor)) return 1;
  const std::int64_t at_once = std::int64_t{kv_cache::rows_per_block(kv_cache::formats_of(descriptor))} *
                               blocks_of(descriptor, *device.architecture) * device.multiprocessors;
  const auto time = [&](int steps) {
    const std::int64_t rounds = (rows / static_cast<std::uint32_t>(steps) + at_once - 1) / at_once;
    return static_cast<double>(rounds) * (steps + 1.5);
  };
  int best = 1;
  for (const int steps : {2, 4, 8}) {
    if (kv_heads % steps == 0 && time(steps) < time(best)) best = steps;
  }
  return best;
}

KvAppendArguments kernel_arguments(const KvAppend& descriptor, const Arguments& arguments, std::uint32_t rows,
                                   const runtime::DeviceFacts& device) {
  KvAppendArguments result{};
  result.key = static_cast<const char*>(arguments.key);
  result.value = static_cast<const char*>(arguments.value);
  kv_cache::copy_strides(result.key_strides, arguments.key_strides, 2);
  kv_cache::copy_strides(result.value_strides, arguments.value_strides, 2);
  result.cache = kv_cache::kernel_cache(kv_cache::formats_of(descriptor), arguments.cache, arguments.scales);
  result.lengths = arguments.lengths;
  result.positions = arguments.positions;
  result.counts = arguments.counts;
  result.cosines = reinterpret_cast<const char*>(arguments.cosines);
  result.sines = reinterpret_cast<const char*>(arguments.sines);
  result.rotary_stride = descriptor.rotary == Rotary::none ? 0 : 4 * arguments.rotary_stride;
  result.tokens = divide_by(arguments.tokens);
  result.rotary_lanes = arguments.rotary_dim / 8;
  result.steps = steps_of(descriptor, arguments.cache.kv_heads, rows, device);
  const int heads = arguments.cache.kv_heads / result.steps;
  result.heads = divide_by(heads);
  result.rows = rows / static_cast<std::uint32_t>(result.steps);
  result.key_step = heads * result.key_strides[2];
  result.value_step = heads * result.value_strides[2];
  result.cache_key_step = heads * result.cache.key_strides[2];
  result.cache_value_step = heads * result.cache.value_strides[2];
  result.key_scale_step = heads * result.cache.key_scale_strides[2];
  result.value_scale_step = heads * result.cache.value_scale_strides[2];
  return result;
}

}  // namespace

Launch encode(const KvAppend& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_kv_append_arguments");
  const std::uint32_t rows = kv_cache::count_rows(arguments.batch, arguments.tokens, arguments.cache.kv_heads);
  if (rows == 0) {
    Launch nothing;
    nothing.empty = true;
    return nothing;
  }
  check_tensors(descriptor, pointers, arguments);
  const KvAppendArguments parameters = kernel_arguments(descriptor, arguments, rows, device);
  return kv_cache::launch_rows(parameters, parameters.rows, kv_cache::formats_of(descriptor));
}

}  // namespace cubit::ops::kv_append
