#include "ops/argument_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "ops/launch/known_arguments.hpp"

namespace cubit::ops {
namespace {

[[noreturn]] void reject_role(const std::string& given, const char* none, const char* field) {
  throw Failure(Status::invalid_argument, given, fmt::format("the descriptor does not have {}", field),
                fmt::format("give {}, or ask for {} in the descriptor", none, field));
}

struct TooSmall {
  const WrittenDimension* dimension;  ///< null: every stride is large enough
  double within;                      ///< elements that the dimension's stride would have to step over
};
/// The innermost dimension whose stride is smaller than the span of the dimensions within it; the last dimension is the
/// innermost. A double is exact up to 2^53, and no legal stride is as large as the spans that are rounded beyond that.
TooSmall first_too_small(std::span<const WrittenDimension> dimensions, std::int64_t row_elements) {
  auto within = static_cast<double>(row_elements);
  for (auto dimension = dimensions.rbegin(); dimension != dimensions.rend(); ++dimension) {
    if (dimension->extent <= 1) continue;
    const auto step = static_cast<double>(std::abs(dimension->stride));
    if (step < within) return {&*dimension, within};
    within += step * static_cast<double>(dimension->extent - 1);
  }
  return {nullptr, within};
}

}  // namespace

void require_argument(bool good, const char* name, const char* rule, std::int64_t given) {
  if (good) return;
  throw Failure(Status::invalid_argument, fmt::format("{} = {}", name, given), rule);
}

void require_pointer(bool present, const char* name) {
  if (!present) throw Failure(Status::invalid_argument, fmt::format("{} = NULL", name), "the tensor is needed");
}

void require_absent(float number, const char* name, const char* field) {
  if (number != 0) reject_role(fmt::format("{} = {}", name, number), "0", field);
}

void require_absent(const void* pointer, const char* name, const char* field) {
  if (pointer == nullptr) return;
  reject_role(fmt::format("{} at {:#x}", name, reinterpret_cast<std::uintptr_t>(pointer)), "NULL", field);
}

void reject_arguments_size(const char* type, std::size_t given, std::size_t expected) {
  throw Failure(
      Status::invalid_argument, fmt::format("{}.size = {}", type, given),
      given > expected && given <= kMostArgumentBytes && given % sizeof(std::size_t) == 0
          ? fmt::format("this library's struct has {} bytes, and the bytes behind them are not zero", expected)
          : fmt::format("this library's struct has {} bytes", expected),
      "set size to sizeof, and use no member that this version of the library does not know");
}

void reject_null_arguments(const char* type) {
  throw Failure(Status::invalid_argument, "arguments = NULL", fmt::format("a {} is needed", type));
}

void require_alignment(const char* name, const void* data, const std::int64_t* strides, int count, int element_bytes,
                       int alignment, const char* alternative) {
  // A mask instead of a remainder: a launch has a dozen of these checks, and a dozen divisions take 0.1 us.
  const auto is_multiple = [mask = static_cast<std::uint64_t>(alignment) - 1](std::uint64_t bytes) {
    return (bytes & mask) == 0;
  };
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (!is_multiple(address)) {
    throw Failure(Status::invalid_argument, fmt::format("{} at {:#x}", name, address),
                  fmt::format("the address is not a multiple of {} bytes", alignment), alternative);
  }
  for (int i = 0; i < count; ++i) {
    constexpr std::int64_t kMost = std::int64_t{1} << 48;  // elements: their bytes fit 64 bits
    if (strides[i] < -kMost || strides[i] > kMost) {
      throw Failure(Status::invalid_argument, fmt::format("{} stride {} = {}", name, i, strides[i]),
                    "its magnitude is beyond 2^48 elements", "accepted: -2^48 to 2^48");
    }
    if (is_multiple(static_cast<std::uint64_t>(strides[i] * element_bytes))) continue;
    throw Failure(Status::invalid_argument,
                  fmt::format("{} stride {} of {} bytes", name, i, strides[i] * element_bytes),
                  fmt::format("it is not a multiple of {} bytes", alignment), alternative);
  }
}

void require_apart(std::span<WrittenDimension> dimensions, std::int64_t row_elements) {
  if (first_too_small(dimensions, row_elements).dimension == nullptr) return;  // usual order of dimensions: no sorting
  // Sort by descending stride. Of dimensions with equal strides the later one is the inner one, as in a dense tensor.
  for (std::size_t i = 1; i < dimensions.size(); ++i) {
    for (std::size_t j = i; j > 0 && std::abs(dimensions[j].stride) > std::abs(dimensions[j - 1].stride); --j)
      std::swap(dimensions[j], dimensions[j - 1]);
  }
  const auto [found, within] = first_too_small(dimensions, row_elements);
  if (found == nullptr) return;
  const std::string index = found->index < 0 ? "" : fmt::format("[{}]", found->index);
  throw Failure(Status::invalid_argument, fmt::format("{}{} = {}", found->name, index, found->stride),
                fmt::format("outputs would overwrite one another, for the dimensions within this stride span {:.0f} {}",
                            within, within == 1 ? "element" : "elements"),
                fmt::format("accepted: a magnitude of {:.0f} and more", within));
}

void require_some_stride(const char* name, std::span<const std::int64_t> strides, bool has_rows) {
  if (!has_rows || std::any_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride != 0; })) return;
  throw Failure(Status::invalid_argument, fmt::format("{} = {{{}}}", name, fmt::join(strides, ", ")),
                "all of its strides are 0, so every row would be the same one",
                "give the distances between rows in elements");
}

void require_workspace(const void* workspace, std::size_t given, std::size_t needed) {
  if (needed == 0) return;
  if (workspace == nullptr || given < needed) {
    throw Failure(Status::invalid_argument, fmt::format("a workspace of {} bytes", workspace == nullptr ? 0 : given),
                  fmt::format("this launch needs {} bytes", needed), "ask for the size with the same bounds");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  if (address % kWorkspaceAlignment != 0) {
    throw Failure(Status::invalid_argument, fmt::format("a workspace at {:#x}", address),
                  fmt::format("the address is not a multiple of {} bytes", kWorkspaceAlignment),
                  "the driver's allocations are");
  }
}

}  // namespace cubit::ops
