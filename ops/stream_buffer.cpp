// See stream_buffer.hpp.
#include "ops/stream_buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "check/host_tensors.hpp"
#include "check/made_up_data.hpp"
#include "check/random.hpp"
#include "codegen/plan_header.hpp"
#include "ops/argument_checks.hpp"
#include "templates/embedded.hpp"

namespace cubit::ops {
namespace {

void require_whole_pieces(std::size_t bytes) {
  if (bytes > 0 && bytes % 16 == 0) return;
  throw Failure(Status::invalid_argument, fmt::format("a source of {} bytes", bytes),
                "it must be a positive multiple of 16 bytes");
}

}  // namespace

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
  return codegen::assemble(text, templates::find(fmt::format("kernels/{}.cuh", name)), header.text(), architecture,
                           std::string(name), {kStreamThreads, 0}, templates::embedded());
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

std::vector<char> take_stream_buffer(std::string_view name, std::span<const Tensor> inputs, const Numbers& numbers) {
  if (!numbers.empty()) {
    throw Failure(Status::invalid_argument, fmt::format("{} = {}", numbers.begin()->first, numbers.begin()->second),
                  fmt::format("{} takes no numbers", name));
  }
  if (inputs.size() != 1 || inputs[0].name != "source" || inputs[0].type != "U8") {
    std::string given;
    for (const Tensor& tensor : inputs)
      given += fmt::format("{}{} {}", given.empty() ? "" : ", ", tensor.name, tensor.type);
    throw Failure(Status::invalid_argument, given.empty() ? "no inputs" : fmt::format("the inputs {}", given),
                  fmt::format("{} takes one tensor", name), "accepted: source of type U8");
  }
  require_whole_pieces(inputs[0].bytes());
  const auto* data = static_cast<const char*>(inputs[0].data);
  return {data, data + inputs[0].bytes()};
}

std::vector<char> random_stream_buffer(std::string_view name, const Numbers& sizes, std::uint64_t seed) {
  constexpr std::size_t kBlock = 1 << 20;
  std::size_t bytes = kBlock;
  for (const auto& [size, value] : sizes) {
    if (size != "bytes") {
      throw Failure(Status::invalid_argument, fmt::format("size {}", size), fmt::format("{} has no such size", name),
                    "accepted: bytes");
    }
    bytes = static_cast<std::size_t>(whole_number(size, value, 16, 64.0 * (1ULL << 30)));
  }
  require_whole_pieces(bytes);
  require_made_up(fmt::format("bytes = {}", bytes), static_cast<double>(bytes), "ask for fewer");
  Random random(seed);
  std::vector<char> data(bytes);
  const std::size_t block = std::min(bytes, kBlock);
  for (std::size_t i = 0; i < block; i += 8) {
    const std::uint64_t word = random.bits();
    std::memcpy(data.data() + i, &word, 8);
  }
  for (std::size_t i = block; i < bytes; i += block) {
    std::memcpy(data.data() + i, data.data(), std::min(block, bytes - i));
  }
  return data;
}

void require_stream_tensors(std::string_view name, std::size_t given) {
  if (given == 2) return;
  throw Failure(Status::invalid_argument, fmt::format("{} device addresses", given),
                fmt::format("{} has one input and one output", name), "accepted: 2");
}

}  // namespace cubit::ops
