// Problems of stream_copy and stream_read, whose kernels read a buffer once.
#pragma once

#include "check/problem.hpp"

namespace cubit::check {

/// The one input is `source` of type U8. These functions throw Failure(invalid_argument).
std::unique_ptr<Problem> make_stream_copy_problem(std::string_view text, std::span<const Tensor> inputs,
                                                  const Numbers& numbers);
std::unique_ptr<Problem> make_stream_read_problem(std::string_view text, std::span<const Tensor> inputs,
                                                  const Numbers& numbers);
/// The buffer repeats one block of random bytes, because the content does not affect the speed. The one size is
/// `bytes`.
std::unique_ptr<Problem> make_random_stream_copy_problem(std::string_view text, const Numbers& sizes,
                                                         std::uint64_t seed);
std::unique_ptr<Problem> make_random_stream_read_problem(std::string_view text, const Numbers& sizes,
                                                         std::uint64_t seed);
std::string stream_random_help();

}  // namespace cubit::check
