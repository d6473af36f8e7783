// Checks of launch arguments that all operators share. All throw Failure(invalid_argument), and only the failing path
// builds a string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/operator.hpp"

namespace cubit::ops {

/// The argument struct, whose first member is its size. The size must be the one that this library knows:
/// KnownArguments has turned the structs of older and newer callers into this size. A member `reserved` must be 0, so
/// that a later version can give the member a meaning. Throws Failure(invalid_argument).
template <class Arguments>
const Arguments& checked_arguments(const void* arguments, const char* type);

/// Throws "<name> = <given>: <rule>" unless `good`.
void require_argument(bool good, const char* name, const char* rule, std::int64_t given);
/// Throws "<name> = NULL: the tensor is needed" unless `present`.
void require_pointer(bool present, const char* name);
/// Refuses an argument that the descriptor does not use, because the launch would silently ignore it. `field`: the
/// field of a descriptor that uses the argument, such as "alibi=true".
void require_absent(float number, const char* name, const char* field);
void require_absent(const void* pointer, const char* name, const char* field);
[[noreturn]] void reject_arguments_size(const char* type, std::size_t given, std::size_t expected);
[[noreturn]] void reject_null_arguments(const char* type);

/// Requires that a tensor's address and its `count` strides, in bytes, are multiples of `alignment`, a power of two,
/// and that a stride's magnitude is at most 2^48 elements. `alternative`: the remedy that the error names.
void require_alignment(const char* name, const void* data, const std::int64_t* strides, int count, int element_bytes,
                       int alignment, const char* alternative = "align it, and pad its rows");

/// A dimension of a tensor that a launch writes.
struct WrittenDimension {
  const char* name;  ///< member of the argument struct that holds the stride: "output_strides"
  int index;         ///< index of the stride in this member; -1: the member is a single stride
  std::int64_t extent;
  std::int64_t stride;  ///< in elements; a magnitude that require_alignment accepts
};

/// Requires that no element is written twice. Sorted by magnitude, every stride must step over all elements that the
/// smaller strides span; the innermost span is a contiguous row of `row_elements`. Strides may be negative and
/// dimensions may come in any order; this function sorts them.
void require_apart(std::span<WrittenDimension> dimensions, std::int64_t row_elements);

/// Refuses strides that are all 0 for a tensor of more than one row, because a caller has left them out. Zero in some
/// dimensions repeats rows, which readers may do.
void require_some_stride(const char* name, std::span<const std::int64_t> strides, bool has_rows);

inline constexpr std::size_t kWorkspaceAlignment = 256;  ///< bytes

/// A workspace starts with counters, which are zero between launches. One workspace therefore serves launches of any
/// shape and operator, one after the other. The bytes behind the counters may hold anything between launches.
inline constexpr std::size_t kWorkspaceCounterBytes = 16'384;
inline constexpr std::int64_t kWorkspaceCounters = kWorkspaceCounterBytes / sizeof(unsigned);

/// `bytes` rounded up to the alignment of a workspace, so that the next section of the workspace is aligned, too.
constexpr std::size_t workspace_part(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

/// Requires a workspace of at least `needed` bytes, aligned to kWorkspaceAlignment; any workspace serves if `needed` is
/// 0.
void require_workspace(const void* workspace, std::size_t given, std::size_t needed);

template <class Arguments>
const Arguments& checked_arguments(const void* arguments, const char* type) {
  if (arguments == nullptr) reject_null_arguments(type);
  const auto& typed = *static_cast<const Arguments*>(arguments);
  if (typed.size != sizeof(Arguments)) reject_arguments_size(type, typed.size, sizeof(Arguments));
  if constexpr (requires { typed.reserved; })
    require_argument(typed.reserved == 0, "reserved", "it must be 0", typed.reserved);
  return typed;
}

}  // namespace cubit::ops
