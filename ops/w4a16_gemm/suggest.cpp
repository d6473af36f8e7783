// Suggests tiles for launches whose sizes are known: those of the member that such launches of the descriptor's set
// take.
#include "ops/gemm/sets/suggest.hpp"

#include <algorithm>

#include "ops/w4a16_gemm/members.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {

W4a16Gemm suggest(const W4a16Gemm& descriptor, const Numbers& sizes, const runtime::DeviceFacts& device) {
  const auto [m, n, k] = gemm::suggested_sizes(sizes, "w4a16_gemm");
  check_sizes(descriptor, m, n, k);
  check_rows_of_words(descriptor, n);
  return fastest_member(choice_of(descriptor, *device.architecture), m, n, k, device);
}

W4a16Gemm fastest_member(const GemmChoice& choice, std::int64_t m, std::int64_t n, std::int64_t k,
                         const runtime::DeviceFacts& device) {
  gemm::Problem sizes;
  sizes.m = static_cast<int>(std::max<std::int64_t>(1, m));
  sizes.n = static_cast<int>(n);
  sizes.k = static_cast<int>(k);
  sizes.activation_stride = k;
  return choice.member(choice.choose_by_sizes(sizes, device));
}

}  // namespace cubit::ops::w4a16_gemm
