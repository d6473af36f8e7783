// Reads the sizes of launches for which somebody wants tiles.
#include "ops/gemm/sets/suggest.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace cubit::ops::gemm {
namespace {

std::int64_t size_of(const Numbers& sizes, const char* name, std::string_view operator_name) {
  constexpr double kMost = 0x1p53;
  const auto found = sizes.find(name);
  if (found == sizes.end()) {
    throw Failure(Status::invalid_argument, fmt::format("no size {}", name),
                  fmt::format("which tiles of {} are fastest depends on it", operator_name), "give m, n and k");
  }
  return whole_number(name, found->second, -kMost, kMost);  // check_sizes names the narrower rule
}

}  // namespace

SuggestedSizes suggested_sizes(const Numbers& sizes, std::string_view operator_name) {
  for (const auto& [name, value] : sizes) {
    if (name == "m" || name == "n" || name == "k") continue;
    throw Failure(Status::invalid_argument, fmt::format("size {}", name),
                  fmt::format("which tiles of {} are fastest does not depend on it", operator_name),
                  "accepted: m, n, k");
  }
  return {.m = size_of(sizes, "m", operator_name),
          .n = size_of(sizes, "n", operator_name),
          .k = size_of(sizes, "k", operator_name)};
}

}  // namespace cubit::ops::gemm
