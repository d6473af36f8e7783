// Suggests tiles for launches whose sizes are known: those of the member that such launches of the descriptor's set
// take.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "ops/numbers.hpp"
#include "ops/w4a16_gemm/members.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

std::int64_t size_of(const Numbers& sizes, const char* name) {
  constexpr double kMost = 0x1p53;
  const auto found = sizes.find(name);
  if (found == sizes.end()) {
    throw Failure(Status::invalid_argument, fmt::format("no size {}", name),
                  "which tiles of w4a16_gemm are fastest depends on it", "give m, n and k");
  }
  return whole_number(name, found->second, -kMost, kMost);  // check_sizes names the narrower rule
}

}  // namespace

W4a16Gemm suggest(const W4a16Gemm& descriptor, const Numbers& sizes, const runtime::DeviceFacts& device) {
  for (const auto& [name, value] : sizes) {
    if (name == "m" || name == "n" || name == "k") continue;
    throw Failure(Status::invalid_argument, fmt::format("size {}", name),
                  "which tiles of w4a16_gemm are fastest does not depend on it", "accepted: m, n, k");
  }
  const std::int64_t m = size_of(sizes, "m");
  const std::int64_t n = size_of(sizes, "n");
  const std::int64_t k = size_of(sizes, "k");
  return with_fastest_tiles(descriptor, m, n, k, device);
}

W4a16Gemm with_fastest_tiles(const W4a16Gemm& descriptor, std::int64_t m, std::int64_t n, std::int64_t k,
                             const runtime::DeviceFacts& device) {
  check_sizes(descriptor, m, n, k);
  check_rows_of_words(descriptor, n);
  const GemmChoice choice(descriptor, *device.architecture);
  gemm::Problem sizes;
  sizes.m = static_cast<int>(std::max<std::int64_t>(1, m));
  sizes.n = static_cast<int>(n);
  sizes.k = static_cast<int>(k);
  sizes.activation_stride = k;
  return choice.member(choice.choose_by_sizes(sizes, device));
}

}  // namespace cubit::ops::w4a16_gemm
