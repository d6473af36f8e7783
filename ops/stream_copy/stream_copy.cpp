#include "ops/stream_copy/stream_copy.hpp"

#include <cubit/stream_copy.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "codegen/plan_header.hpp"
#include "ops/argument_checks.hpp"
#include "ops/fields.hpp"
#include "ops/random.hpp"
#include "templates/embedded.hpp"
#include "templates/stream_copy_arguments.h"

namespace cubit::ops {
namespace {

constexpr int kThreads = 512;

struct StreamCopy {
  int blocks_per_sm = 4;
};

const std::vector<Field<StreamCopy>>& stream_copy_fields() {
  static const std::vector<Field<StreamCopy>> table = {number_field<StreamCopy>(
      {"blocks_per_sm", "2, 4, 8", "4", "blocks of 512 threads per SM"}, &StreamCopy::blocks_per_sm, {2, 4, 8})};
  return table;
}

std::string text_of(const StreamCopy& descriptor) {
  if (descriptor.blocks_per_sm == StreamCopy{}.blocks_per_sm) return "stream_copy";
  return fmt::format("stream_copy:blocks_per_sm={}", descriptor.blocks_per_sm);
}

class StreamCopySpecialisation final : public Specialisation {
 public:
  StreamCopySpecialisation(StreamCopy descriptor, const codegen::Architecture& architecture) : descriptor_(descriptor) {
    codegen::PlanHeader header(text_of(descriptor));
    header.constant("kThreads", kThreads);
    source_ = codegen::assemble(text_of(descriptor), templates::find("stream_copy.cuh"), header.text(), architecture,
                                "stream_copy", {kThreads, 0}, templates::embedded());
    report_.family = "stream_copy";
    report_.decisions.push_back({"blocks_per_sm", std::to_string(descriptor.blocks_per_sm), "as the descriptor asks"});
    report_.decisions.push_back({"threads", std::to_string(kThreads), "with 4 copies of 16 bytes in flight each"});
  }
  const codegen::KernelSource& source() const override { return source_; }
  const PlanReport& report() const override { return report_; }
  std::size_t workspace_bytes(const void*, const runtime::DeviceFacts&) const override { return 0; }
  Launch encode(const void* public_arguments, void*, std::size_t, const runtime::DeviceFacts& device) const override {
    const auto& arguments =
        checked_arguments<cubit_stream_copy_arguments>(public_arguments, "cubit_stream_copy_arguments");
    require_argument(arguments.bytes >= 0 && arguments.bytes % 16 == 0, "bytes", "it must be a multiple of 16",
                     arguments.bytes);
    require_pointer(arguments.source != nullptr || arguments.bytes == 0, "source");
    require_pointer(arguments.destination != nullptr || arguments.bytes == 0, "destination");
    require_alignment("source", arguments.source, nullptr, 0, 1, 16);
    require_alignment("destination", arguments.destination, nullptr, 0, 1, 16);
    Launch launch;
    launch.empty = arguments.bytes == 0;
    const StreamCopyArguments parameters{arguments.source, arguments.destination, arguments.bytes / 16};
    const int blocks = device.multiprocessors * descriptor_.blocks_per_sm;
    launch.shape = {{static_cast<unsigned>(blocks), 1, 1}, kThreads, 0};
    launch.parameter_bytes = sizeof parameters;
    std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
    return launch;
  }

 private:
  StreamCopy descriptor_;
  codegen::KernelSource source_;
  PlanReport report_;
};

class StreamCopyProblem final : public Problem {
 public:
  explicit StreamCopyProblem(std::vector<char> data) : data_(std::move(data)) {
    const auto bytes = static_cast<std::int64_t>(data_.size());
    if (bytes == 0 || bytes % 16 != 0) {
      throw Failure(Status::invalid_argument, fmt::format("a source of {} bytes", bytes),
                    "it must be a positive multiple of 16 bytes");
    }
    inputs_.push_back({"source", "U8", {bytes}, {1}, data_.data()});
    outputs_.push_back({"destination", "U8", {bytes}, {1}, nullptr});
  }
  const std::vector<Tensor>& inputs() const override { return inputs_; }
  const std::vector<Tensor>& outputs() const override { return outputs_; }
  std::size_t bytes_read() const override { return data_.size(); }
  std::size_t bytes_written() const override { return data_.size(); }
  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    if (device_data.size() != 2) {
      throw Failure(Status::invalid_argument, fmt::format("{} device addresses", device_data.size()),
                    "stream_copy has one input and one output");
    }
    const cubit_stream_copy_arguments arguments{sizeof(cubit_stream_copy_arguments), device_data[0], device_data[1],
                                                static_cast<std::int64_t>(data_.size())};
    std::vector<std::byte> bytes(sizeof arguments);
    std::memcpy(bytes.data(), &arguments, sizeof arguments);
    return bytes;
  }
  Comparison compare(std::span<const void* const> got) const override {
    if (got.size() != 1) throw Failure(Status::invalid_argument, "the outputs", "stream_copy has one");
    const bool same = std::memcmp(data_.data(), got[0], data_.size()) == 0;
    return {same ? 0.0 : 1.0, 0, "destination"};
  }

 private:
  std::vector<char> data_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
};

class StreamCopyOperator final : public Operator {
 public:
  std::string_view name() const override { return "stream_copy"; }
  std::string_view summary() const override {
    return "a plain copy of a buffer: the floor of kernels that write as they read";
  }
  std::vector<FieldHelp> fields() const override { return {stream_copy_fields()[0].help}; }
  std::string tensors_help() const override { return "source [bytes] U8, a multiple of 16\ndestination [bytes] U8"; }
  std::string random_help() const override { return "bytes (a multiple of 16)"; }
  std::string canonical(std::string_view text) const override {
    return text_of(parse_fields(text, stream_copy_fields()));
  }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    return std::make_shared<StreamCopySpecialisation>(parse_fields(text, stream_copy_fields()), architecture);
  }
  std::unique_ptr<Problem> problem(std::string_view text, std::span<const Tensor> inputs,
                                   const Numbers& numbers) const override {
    parse_fields(text, stream_copy_fields());
    if (inputs.size() != 1 || inputs[0].name != "source" || inputs[0].type != "U8" || !numbers.empty()) {
      throw Failure(Status::invalid_argument, "the inputs", "stream_copy takes one tensor, source of type U8");
    }
    const auto* data = static_cast<const char*>(inputs[0].data);
    return std::make_unique<StreamCopyProblem>(std::vector<char>(data, data + inputs[0].bytes()));
  }
  std::unique_ptr<Problem> random(std::string_view text, const Numbers& sizes, std::uint64_t seed) const override {
    parse_fields(text, stream_copy_fields());
    std::size_t bytes = 1 << 20;
    for (const auto& [name, value] : sizes) {
      if (name != "bytes" || !(value >= 16 && value <= 64.0 * (1ULL << 30))) {
        throw Failure(Status::invalid_argument, fmt::format("{} = {}", name, value), "it is not a size of stream_copy",
                      "accepted: bytes from 16 to 64 GiB, a multiple of 16");
      }
      bytes = static_cast<std::size_t>(value);
    }
    // A block of random bytes, repeated: what is read does not matter, that it is copied does.
    Random random(seed);
    std::vector<char> data(bytes);
    const std::size_t block = std::min<std::size_t>(bytes, 1 << 20);
    for (std::size_t i = 0; i < block; i += 8) {
      const std::uint64_t word = random.bits();
      std::memcpy(data.data() + i, &word, std::min<std::size_t>(8, block - i));
    }
    for (std::size_t i = block; i < bytes; i += block) {
      std::memcpy(data.data() + i, data.data(), std::min(block, bytes - i));
    }
    return std::make_unique<StreamCopyProblem>(std::move(data));
  }
};

}  // namespace

const Operator& stream_copy_operator() {
  static const StreamCopyOperator instance;
  return instance;
}

}  // namespace cubit::ops
