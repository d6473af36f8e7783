// What stream_read and stream_copy share: both go once over a buffer in pieces of 16 bytes, with so many blocks per SM.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/argument_table.hpp"
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

/// Checks a launch's bytes. Throws Failure(invalid_argument).
void require_stream_bytes(std::int64_t bytes);
/// The texts that differ between stream_read and stream_copy.
struct StreamTexts {
  std::string_view name;
  std::string_view summary;
  const ArgumentTable& arguments;
};

/// `OfDescriptor`: a Specialisation, made from a StreamDescriptor and an architecture.
template <class OfDescriptor>
class StreamOperator final : public Operator {
 public:
  explicit StreamOperator(const StreamTexts& texts) : texts_(texts) {}

  std::string_view name() const override { return texts_.name; }
  std::string_view summary() const override { return texts_.summary; }
  std::vector<FieldHelp> fields() const override { return {stream_fields()[0].help}; }
  const ArgumentTable& arguments() const override { return texts_.arguments; }
  std::string canonical(std::string_view text) const override {
    return stream_text(texts_.name, parse_fields(text, stream_fields()));
  }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    return std::make_shared<OfDescriptor>(parse_fields(text, stream_fields()), architecture);
  }

 private:
  StreamTexts texts_;
};

}  // namespace cubit::ops
