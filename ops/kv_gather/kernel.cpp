// Turns a kv_gather descriptor into a kernel's source and report, and public arguments into a launch.
#include "base/lifetime.hpp"
#include "ops/kv_gather/kv_gather.hpp"
#include "templates/kernels/kv_gather_arguments.h"

namespace cubit::ops::kv_gather {
namespace {

using Arguments = cubit_kv_gather_arguments;

std::vector<Field<KvGather>> make_fields() {
  auto table = kv_cache::row_fields<KvGather>();
  table.push_back(kv_cache::element_field<KvGather>("output", "type of the rows that are written", &KvGather::output));
  table.push_back(kv_cache::addressing_field<KvGather>());
  return table;
}

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

const std::vector<Field<KvGather>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

KvGather parse(std::string_view text) {
  KvGather descriptor = parse_fields(text, fields());
  kv_cache::settle_formats(descriptor, text);
  return descriptor;
}

codegen::KernelSource make_source(const KvGather& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  kv_cache::add_formats(header, kv_cache::formats_of(descriptor), architecture);
  kv_cache::add_addressing(header, descriptor.cache);
  header.include("core/types.cuh");
  header.alias("Output", device_type(descriptor.output));
  return one_pass::make_source(descriptor.text(), "kv_gather", header, architecture);
}

PlanReport make_report(const KvGather& descriptor) {
  PlanReport report;
  report.family = "kv_gather";
  report.decisions = kv_cache::row_decisions(kv_cache::formats_of(descriptor), descriptor.cache);
  return report;
}

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
