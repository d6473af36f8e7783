// Problems of stream_copy and stream_read, which go once over a buffer of bytes.
#pragma once

#include "check/problem.hpp"

namespace cubit::check {

/// Of one input, `source` of type U8. Throw Failure(invalid_argument).
std::unique_ptr<Problem> make_stream_copy_problem(std::string_view text, std::span<const Tensor> inputs,
                                                  const Numbers& numbers);
std::unique_ptr<Problem> make_stream_read_problem(std::string_view text, std::span<const Tensor> inputs,
                                                  const Numbers& numbers);
/// A block of random bytes, repeated: what the bytes are does not matter to their speed. `sizes`: bytes.
std::unique_ptr<Problem> make_random_stream_copy_problem(std::string_view text, const Numbers& sizes,
                                                         std::uint64_t seed);
std::unique_ptr<Problem> make_random_stream_read_problem(std::string_view text, const Numbers& sizes,
                                                         std::uint64_t seed);
std::string stream_random_help();

}  // namespace cubit::check
