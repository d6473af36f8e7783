// What stream_read and stream_copy share: both go once over a buffer in pieces of 16 bytes, with so many blocks per SM.
#pragma once

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

}  // namespace cubit::ops
