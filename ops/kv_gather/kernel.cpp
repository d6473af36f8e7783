// Turns a kv_gather descriptor into a kernel's source and report.
#include "base/lifetime.hpp"
#include "ops/kv_gather/kv_gather.hpp"

namespace cubit::ops::kv_gather {
namespace {

std::vector<Field<KvGather>> make_fields() {
  auto table = kv_cache::row_fields<KvGather>();
  table.push_back(kv_cache::element_field<KvGather>("output", "type of the rows that are written", &KvGather::output));
  table.push_back(kv_cache::addressing_field<KvGather>());
  return table;
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
  return one_pass::make_source(descriptor.text(), "attention", "kv_gather", header, architecture);
}

PlanReport make_report(const KvGather& descriptor) {
  PlanReport report;
  report.family = "kv_gather";
  report.decisions = kv_cache::row_decisions(kv_cache::formats_of(descriptor), descriptor.cache);
  return report;
}

}  // namespace cubit::ops::kv_gather
