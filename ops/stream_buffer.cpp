// See stream_buffer.hpp.
#include "ops/stream_buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "codegen/plan_header.hpp"
#include "ops/argument_checks.hpp"
#include "templates/embedded.hpp"

namespace cubit::ops {
const std::vector<Field<StreamDescriptor>>& stream_fields() {
  static const auto& table = never_destroyed(std::vector<Field<StreamDescriptor>>{number_field<StreamDescriptor>(
      {"blocks_per_sm", "2, 4, 8", "4", fmt::format("blocks of {} threads per SM", kStreamThreads)},
      &StreamDescriptor::blocks_per_sm, {2, 4, 8})});
  return table;
}

std::string stream_text(std::string_view name, const StreamDescriptor& descriptor) {
  if (descriptor.blocks_per_sm == StreamDescriptor{}.blocks_per_sm) return std::string(name);
  return fmt::format("{}:blocks_per_sm={}", name, descriptor.blocks_per_sm);
}

codegen::KernelSource stream_source(std::string_view name, const StreamDescriptor& descriptor,
                                    const codegen::Architecture& architecture) {
  const std::string text = stream_text(name, descriptor);
  codegen::PlanHeader header(text);
  header.constant("kThreads", kStreamThreads);
  return codegen::assemble(text, templates::find(fmt::format("kernels/stream/{}.cuh", name)), header.text(),
                           architecture, std::string(name), {kStreamThreads, 0}, templates::embedded());
}

PlanReport stream_report(std::string_view name, const StreamDescriptor& descriptor, const std::string& in_flight) {
  PlanReport report;
  report.family = name;
  report.decisions.push_back({"blocks_per_sm", std::to_string(descriptor.blocks_per_sm), "as the descriptor asks"});
  report.decisions.push_back(
      {"threads", std::to_string(kStreamThreads), fmt::format("with {} in flight each", in_flight)});
  return report;
}

void require_stream_bytes(std::int64_t bytes) {
  require_argument(bytes >= 0 && bytes % 16 == 0, "bytes", "it must be a multiple of 16, 0 or more", bytes);
}

}  // namespace cubit::ops
