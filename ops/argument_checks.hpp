// Checks that launch arguments of all operators share. Only the failing path builds a string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/operator.hpp"

namespace cubit::ops {

/// The argument struct, whose first member is its size. The size must be the one that this library knows:
/// KnownArguments has turned the structs of older and newer callers into this size. Throws Failure(invalid_argument).
template <class Arguments>
const Arguments& checked_arguments(const void* arguments, const char* type);

void require_argument(bool good, const char* name, const char* rule, std::int64_t given);
/// "<name> = NULL: the tensor is needed"
void require_pointer(bool present, const char* name);
/// What is given for a role that the descriptor does not ask for would be lost: it is refused. `field`: what a
/// descriptor that wants it has, such as "alibi=true".
void require_absent(float number, const char* name, const char* field);
void require_absent(const void* pointer, const char* name, const char* field);
[[noreturn]] void reject_arguments_size(const char* type, std::size_t given, std::size_t expected);
[[noreturn]] void reject_null_arguments(const char* type);

/// Pointer and strides of one tensor against an alignment, a power of two. `alternative`: what the caller can do about
/// it.
void require_alignment(const char* name, const void* data, const std::int64_t* strides, int count, int element_bytes,
                       int alignment, const char* alternative = "align it, and pad its rows");

/// A dimension of a tensor that a launch writes.
struct WrittenDimension {
  const char* name;  ///< of its stride, such as "output_strides"
  int index;         ///< which of the strides of that name; -1: there is just one
  std::int64_t extent;
  std::int64_t stride;  ///< of a magnitude as require_alignment accepts it
};

/// That nothing is written twice: from the smallest stride to the largest, each steps over all that lies within it, a
/// contiguous row of so many elements first. Strides may be negative, dimensions in any order; they are sorted.
void require_apart(std::span<WrittenDimension> dimensions, std::int64_t row_elements);

inline constexpr std::size_t kWorkspaceAlignment = 256;  ///< bytes

/// Blocks of a workspace start with counters that are zero between launches, so that one workspace serves launches of
/// any shape and operator in turn: the rest may hold anything.
inline constexpr std::size_t kWorkspaceCounterBytes = 16'384;
inline constexpr std::int64_t kWorkspaceCounters = kWorkspaceCounterBytes / sizeof(unsigned);

/// Bytes of a part of a workspace, so that the next is aligned as the first.
constexpr std::size_t workspace_part(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

void require_workspace(const void* workspace, std::size_t given, std::size_t needed);

template <class Arguments>
const Arguments& checked_arguments(const void* arguments, const char* type) {
  if (arguments == nullptr) reject_null_arguments(type);
  const auto& typed = *static_cast<const Arguments*>(arguments);
  if (typed.size != sizeof(Arguments)) reject_arguments_size(type, typed.size, sizeof(Arguments));
  return typed;
}

}  // namespace cubit::ops
