#include "check/stream_buffer.hpp"

#include <cubit/stream_copy.h>
#include <cubit/stream_read.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "check/host_tensors.hpp"
#include "check/made_up_data.hpp"
#include "check/random.hpp"
#include "ops/stream_buffer.hpp"
#include "templates/kernels/stream/stream_read_arguments.h"

namespace cubit::check {
namespace {

void require_whole_pieces(std::size_t bytes) {
  if (bytes > 0 && bytes % 16 == 0) return;
  throw Failure(Status::invalid_argument, fmt::format("a source of {} bytes", bytes),
                "it must be a positive multiple of 16 bytes");
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

class StreamCopyProblem final : public Problem {
 public:
  explicit StreamCopyProblem(std::vector<char> data) : data_(std::move(data)) {
    const auto bytes = static_cast<std::int64_t>(data_.size());
    inputs_.push_back({"source", "U8", {bytes}, {1}, data_.data()});
    outputs_.push_back({"destination", "U8", {bytes}, {1}, nullptr});
  }
  const std::vector<Tensor>& inputs() const override { return inputs_; }
  const std::vector<Tensor>& outputs() const override { return outputs_; }
  std::size_t bytes_read() const override { return data_.size(); }
  std::size_t bytes_written() const override { return data_.size(); }
  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    require_stream_tensors("stream_copy", device_data.size());
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

class StreamReadProblem final : public Problem {
 public:
  explicit StreamReadProblem(std::vector<char> data) : data_(std::move(data)) {
    const auto bytes = static_cast<std::int64_t>(data_.size());
    inputs_.push_back({"source", "U8", {bytes}, {1}, data_.data()});
    outputs_.push_back({"checksums", "U32", {kStreamReadSlots}, {1}, nullptr});
  }
  const std::vector<Tensor>& inputs() const override { return inputs_; }
  const std::vector<Tensor>& outputs() const override { return outputs_; }
  std::size_t bytes_read() const override { return data_.size(); }
  std::size_t bytes_written() const override { return 4 * kStreamReadSlots; }
  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    require_stream_tensors("stream_read", device_data.size());
    const cubit_stream_read_arguments arguments{sizeof(cubit_stream_read_arguments), device_data[0],
                                                static_cast<std::int64_t>(data_.size()),
                                                static_cast<std::uint32_t*>(device_data[1])};
    std::vector<std::byte> bytes(sizeof arguments);
    std::memcpy(bytes.data(), &arguments, sizeof arguments);
    return bytes;
  }
  Comparison compare(std::span<const void* const> got) const override {
    if (got.size() != 1) throw Failure(Status::invalid_argument, "the outputs", "stream_read has one");
    const std::uint32_t expected = xor_words(data_.data(), data_.size() / 4);
    const std::uint32_t found = xor_words(got[0], kStreamReadSlots);
    return {expected == found ? 0.0 : 1.0, 0, "checksum"};
  }

 private:
  static std::uint32_t xor_words(const void* src, std::size_t count) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, static_cast<const char*>(src) + 4 * i, 4);
      sum ^= word;
    }
    return sum;
  }

  std::vector<char> data_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
};

}  // namespace

std::unique_ptr<Problem> make_stream_copy_problem(std::string_view text, std::span<const Tensor> inputs,
                                                  const Numbers& numbers) {
  parse_fields(text, stream_fields());
  return std::make_unique<StreamCopyProblem>(take_stream_buffer("stream_copy", inputs, numbers));
}

std::unique_ptr<Problem> make_random_stream_copy_problem(std::string_view text, const Numbers& sizes,
                                                         std::uint64_t seed) {
  parse_fields(text, stream_fields());
  return std::make_unique<StreamCopyProblem>(random_stream_buffer("stream_copy", sizes, seed));
}

std::unique_ptr<Problem> make_stream_read_problem(std::string_view text, std::span<const Tensor> inputs,
                                                  const Numbers& numbers) {
  parse_fields(text, stream_fields());
  return std::make_unique<StreamReadProblem>(take_stream_buffer("stream_read", inputs, numbers));
}

std::unique_ptr<Problem> make_random_stream_read_problem(std::string_view text, const Numbers& sizes,
                                                         std::uint64_t seed) {
  parse_fields(text, stream_fields());
  return std::make_unique<StreamReadProblem>(random_stream_buffer("stream_read", sizes, seed));
}

std::string stream_random_help() { return "bytes (a multiple of 16)"; }

}  // namespace cubit::check
