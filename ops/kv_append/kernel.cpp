// Turns a kv_append descriptor into a kernel's source and report.

#include "base/lifetime.hpp"
#include "ops/kv_append/kv_append.hpp"

namespace cubit::ops::kv_append {
namespace {

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

bool is_copy(const KvAppend& descriptor) {
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  return formats.key.is_16bit() && formats.value.is_16bit() && descriptor.rotary == Rotary::none;
}

codegen::KernelSource make_source(const KvAppend& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  kv_cache::add_formats(header, kv_cache::formats_of(descriptor), architecture);
  kv_cache::add_addressing(header, descriptor.cache);
  header.constant("kBlocks", blocks_of(descriptor, architecture));
  header.include("attention/rotary.cuh").include("core/types.cuh");
  header.alias("Input", device_type(descriptor.input)).alias("KeyRotary", rotary_type(descriptor.rotary));
  return one_pass::make_source(descriptor.text(), "attention", "kv_append", header, architecture);
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

}  // namespace cubit::ops::kv_append
