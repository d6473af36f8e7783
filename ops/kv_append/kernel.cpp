// Turns a kv_append descriptor into a kernel's source and report, and public arguments into a launch.
#include <algorithm>

#include "base/lifetime.hpp"
#include "ops/kv_append/kv_append.hpp"
#include "templates/kernels/kv_append_arguments.h"

namespace cubit::ops::kv_append {
namespace {

using Arguments = cubit_kv_append_arguments;
std::vector<Field<KvAppend>> make_fields() {
  auto table = kv_cache::row_fields<KvAppend>();
  table.push_back(kv_cache::element_field<KvAppend>("input", "type of the new keys and values", &KvAppend::input));
  table.push_back(word_field<KvAppend, Rotary>(
      {"rotary", "none, interleaved, half_split", "none",
       "rotary embedding of keys: rotates channels 2i and 2i + 1 together, or i and i + rotary_dim / 2"},
      &KvAppend::rotary,
      {{"none", Rotary::none}, {"interleaved", Rotary::interleaved}, {"half_split", Rotary::half_split}}));
  table.push_back(kv_cache::addressing_field<KvAppend>());
  return table;
}

std::string_view rotary_type(Rotary rotary) {
  if (rotary == Rotary::none) return "cubit::NoRotary<kLanes>";
  return rotary == Rotary::interleaved ? "cubit::InterleavedRotary<kLanes>" : "cubit::HalfSplitRotary<kLanes>";
}

/// Blocks that an SM must hold at least, for __launch_bounds__: 9, 8 and 7 blocks leave a thread 56, 64 and 72
/// registers, in which no kernel spills. The angles of half_split take 16 registers of a lane. Pointers to scales,
/// lanes without channels and, on later architectures, values stored differently from keys take some more. SMs with
/// fewer than 2048 threads get 7 blocks: with fewer registers sm_120 would spill, and the slower memory of such SMs
/// needs fewer threads.
int blocks_of(const KvAppend& descriptor, const codegen::Architecture& architecture) {
  if (architecture.threads_per_sm < 2048) return 7;
  if (descriptor.rotary == Rotary::none) return 9;
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  const auto takes_more = [&](const kv_cache::RowFormat& format) {
    return format.head_dim != 8 * kv_cache::row_lanes(formats) || format.has_scales();
  };
  const bool needs_more =
      takes_more(formats.key) || takes_more(formats.value) || (architecture.capability >= 100 && !formats.are_alike());
  return descriptor.rotary == Rotary::half_split && needs_more ? 7 : 8;
}

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

/// Whether the kernel only copies: rows have 16 bits in input and cache, and keys are not rotated.
bool is_copy(const KvAppend& descriptor) {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  return formats.key.is_16bit() && formats.value.is_16bit() && descriptor.rotary == Rotary::none;
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

const std::vector<Field<KvAppend>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

KvAppend parse(std::string_view text) {
  KvAppend descriptor = parse_fields(text, fields());
  kv_cache::settle_formats(descriptor, text);
  return descriptor;
}

codegen::KernelSource make_source(const KvAppend& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  kv_cache::add_formats(header, kv_cache::formats_of(descriptor), architecture);
  kv_cache::add_addressing(header, descriptor.cache);
  header.constant("kBlocks", blocks_of(descriptor, architecture));
  header.include("attention/rotary.cuh").include("core/types.cuh");
  header.alias("Input", device_type(descriptor.input)).alias("KeyRotary", rotary_type(descriptor.rotary));
  return one_pass::make_source(descriptor.text(), "kv_append", header, architecture);
}

PlanReport make_report(const KvAppend& descriptor) {
  PlanReport report;
  report.family = "kv_append";
  report.decisions = kv_cache::row_decisions(kv_cache::formats_of(descriptor), descriptor.cache);
  const bool copies = is_copy(descriptor);
  report.decisions.push_back({"heads per lane group", copies ? "1" : "1, 2, 4 or 8, chosen at each launch",
                              copies ? "rows are copied unchanged: memory alone bounds the speed"
                                     : "lanes find a token's place, position and angles once for several of its heads "
                                       "if there are enough rows"});
  if (descriptor.rotary == Rotary::none) {
    report.decisions.push_back({"rotary", "none", "as the descriptor asks: keys are not rotated"});
  } else {
    const bool interleaved = descriptor.rotary == Rotary::interleaved;
    report.decisions.push_back({"rotary", interleaved ? "interleaved" : "half_split",
                                interleaved ? "a lane holds both channels of each rotation"
                                            : "4 shuffles of the loaded words bring both channels into one lane"});
  }
  return report;
}

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
