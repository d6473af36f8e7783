// Turns public arguments of merge into a launch.
#include <cubit/merge.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/argument_checks.hpp"
#include "ops/divide_by.hpp"
#include "ops/merge/merge.hpp"
#include "ops/one_pass.hpp"
#include "templates/kernels/attention/merge_arguments.h"

namespace cubit::ops::merge {
namespace {

using Arguments = cubit_merge_arguments;
using one_pass::kThreads;

constexpr std::int64_t kMostElements = std::int64_t{1} << 33;

/// Requires that the address and strides of a tensor suit the vector loads or stores of its rows.
void check_rows(const Merge& descriptor, const char* name, const void* data, const std::int64_t* strides, int count,
                MergeElement element) {
  require_alignment(name, data, strides, count, element_bytes(element), thread_bytes(descriptor, element));
}

/// Requires that no written row or head overwrites another.
void check_apart(const char* name, const std::int64_t (&strides)[2], const Arguments& arguments, int channels) {
  WrittenDimension dimensions[] = {{name, 0, arguments.rows, strides[0]}, {name, 1, arguments.heads, strides[1]}};
  require_apart(dimensions, channels);
}

/// Allows the output to be a part only if both have the same type and strides. This is safe because a thread reads its
/// channels of all parts before it writes them, and no other thread reads these channels.
void check_part_as_output(const Merge& descriptor, const Arguments& arguments) {
  if (arguments.output != arguments.partial_outputs) return;
  const bool is_alike = descriptor.input == descriptor.output &&
                        (arguments.rows == 1 || arguments.output_strides[0] == arguments.partial_output_strides[1]) &&
                        (arguments.heads == 1 || arguments.output_strides[1] == arguments.partial_output_strides[2]);
  if (is_alike) return;
  throw Failure(
      Status::invalid_argument, "output = partial_outputs",
      "rows would be overwritten before they are read, for the output's type or strides differ from the parts'",
      "accepted: a part as the output if both have the same type and strides, else tensors that do not overlap");
}

void check_tensors(const Merge& descriptor, const PointerChecks& pointers, const Arguments& arguments) {
  pointers.check(&arguments);
  check_rows(descriptor, "partial_outputs", arguments.partial_outputs, arguments.partial_output_strides, 3,
             descriptor.input);
  check_rows(descriptor, "output", arguments.output, arguments.output_strides, 2, descriptor.output);
  require_alignment("partial_lse", arguments.partial_lse, arguments.partial_lse_strides, 3, 4, 4);
  check_apart("output_strides", arguments.output_strides, arguments, descriptor.head_dim);
  check_part_as_output(descriptor, arguments);
  if (arguments.lse == nullptr) return;
  require_alignment("lse", arguments.lse, arguments.lse_strides, 2, 4, 4);
  check_apart("lse_strides", arguments.lse_strides, arguments, 1);
}

/// Converts strides in elements of `bytes` to bytes.
template <std::size_t Count>
void in_bytes(long long (&dst)[Count], const std::int64_t (&src)[Count], int bytes) {
  std::transform(std::begin(src), std::end(src), std::begin(dst), [&](std::int64_t stride) { return bytes * stride; });
}

MergeArguments kernel_arguments(const Merge& descriptor, const Arguments& arguments) {
  MergeArguments result{};
  result.partial_outputs = static_cast<const char*>(arguments.partial_outputs);
  result.partial_lse = reinterpret_cast<const char*>(arguments.partial_lse);
  result.output = static_cast<char*>(arguments.output);
  result.lse = reinterpret_cast<char*>(arguments.lse);
  in_bytes(result.partial_output_strides, arguments.partial_output_strides, element_bytes(descriptor.input));
  in_bytes(result.partial_lse_strides, arguments.partial_lse_strides, sizeof(float));
  in_bytes(result.output_strides, arguments.output_strides, element_bytes(descriptor.output));
  if (arguments.lse != nullptr) in_bytes(result.lse_strides, arguments.lse_strides, sizeof(float));
  result.heads = divide_by(arguments.heads);
  result.parts = arguments.parts;
  const std::int64_t items =
      std::int64_t{arguments.rows} * arguments.heads * (descriptor.head_dim / thread_channels(descriptor));
  result.items = static_cast<unsigned>(items);
  return result;
}

}  // namespace

void check_sizes(const Merge& descriptor, std::int64_t parts, std::int64_t rows, std::int64_t heads) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  // The kernel counts parts in 32 bits and in steps of four, so that the count may exceed `parts` by 3.
  require_argument(parts >= 1 && parts <= kMost - 3, "parts", "it must be from 1 to 2147483644", parts);
  require_argument(rows >= 0 && rows <= kMost, "rows", "it must be from 0 to 2147483647", rows);
  require_argument(heads >= 1 && heads <= kMost, "heads", "it must be from 1 to 2147483647", heads);
  const std::int64_t heads_of_all = rows * heads;
  require_argument(heads_of_all < kMostElements / descriptor.head_dim, "rows * heads",
                   "times head_dim it must be below 2^33", heads_of_all);
}

Launch encode(const Merge& descriptor, const PointerChecks& pointers, const void* public_arguments) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_merge_arguments");
  check_sizes(descriptor, arguments.parts, arguments.rows, arguments.heads);
  Launch launch;
  launch.empty = arguments.rows == 0;
  if (launch.empty) return launch;
  check_tensors(descriptor, pointers, arguments);
  const MergeArguments parameters = kernel_arguments(descriptor, arguments);
  launch.shape = {{(parameters.items + kThreads - 1) / kThreads, 1, 1}, kThreads, 0};
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  return launch;
}

}  // namespace cubit::ops::merge
