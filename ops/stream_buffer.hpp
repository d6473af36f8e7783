// What stream_read and stream_copy share: both go once over a buffer in pieces of 16 bytes, with so many blocks per SM.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

struct StreamDescriptor {
  int blocks_per_sm = 4;
};

inline constexpr int kStreamThreads = 512;  ///< per block

const std::vector<Field<StreamDescriptor>>& stream_fields();
/// The canonical text. `name`: the operator's, and that of its template and kernel.
std::string stream_text(std::string_view name, const StreamDescriptor& descriptor);
codegen::KernelSource stream_source(std::string_view name, const StreamDescriptor& descriptor,
                                    const codegen::Architecture& architecture);
/// `in_flight`: "4 loads of 16 bytes".
PlanReport stream_report(std::string_view name, const StreamDescriptor& descriptor, const std::string& in_flight);

// These throw Failure(invalid_argument).

/// Checks a launch's bytes.
void require_stream_bytes(std::int64_t bytes);
/// A copy of the one input, `source` of type U8.
std::vector<char> take_stream_buffer(std::string_view name, std::span<const Tensor> inputs, const Numbers& numbers);
/// A block of random bytes, repeated: what the bytes are does not matter to their speed. `sizes`: bytes.
std::vector<char> random_stream_buffer(std::string_view name, const Numbers& sizes, std::uint64_t seed);
/// A problem's: one input, one output.
void require_stream_tensors(std::string_view name, std::size_t given);

/// What each says of itself.
struct StreamTexts {
  std::string_view name;
  std::string_view summary;
  std::string_view tensors;  ///< see Operator::tensors_help
};

/// `OfDescriptor`: a Specialisation, made from a StreamDescriptor and an architecture. `OfBytes`: a Problem, from the
/// source.
template <class OfDescriptor, class OfBytes>
class StreamOperator final : public Operator {
 public:
  explicit StreamOperator(const StreamTexts& texts) : texts_(texts) {}

  std::string_view name() const override { return texts_.name; }
  std::string_view summary() const override { return texts_.summary; }
  std::vector<FieldHelp> fields() const override { return {stream_fields()[0].help}; }
  std::string tensors_help() const override { return std::string(texts_.tensors); }
  std::string random_help() const override { return "bytes (a multiple of 16)"; }
  std::string canonical(std::string_view text) const override {
    return stream_text(texts_.name, parse_fields(text, stream_fields()));
  }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    return std::make_shared<OfDescriptor>(parse_fields(text, stream_fields()), architecture);
  }
  std::unique_ptr<Problem> problem(std::string_view text, std::span<const Tensor> inputs,
                                   const Numbers& numbers) const override {
    parse_fields(text, stream_fields());
    return std::make_unique<OfBytes>(take_stream_buffer(texts_.name, inputs, numbers));
  }
  std::unique_ptr<Problem> random(std::string_view text, const Numbers& sizes, std::uint64_t seed) const override {
    parse_fields(text, stream_fields());
    return std::make_unique<OfBytes>(random_stream_buffer(texts_.name, sizes, seed));
  }

 private:
  StreamTexts texts_;
};

}  // namespace cubit::ops
