// Executes single- and double-precision arithmetic that rounds towards zero, down or up, with the host processor's
// rounding modes. The operands are volatile, so that the compiler moves no computation before the mode is set or after
// it is restored.
#include <cfenv>
#include <cmath>

#include "runtime/cpu/arithmetic/numbers.hpp"
#include "runtime/cpu/helpers/helpers.hpp"

namespace cubit::runtime::cpu::helpers {
namespace {

class RoundingMode {
 public:
  explicit RoundingMode(Rounding rounding) {
    std::fesetround(rounding == Rounding::zero ? FE_TOWARDZERO : rounding == Rounding::down ? FE_DOWNWARD : FE_UPWARD);
  }
  ~RoundingMode() { std::fesetround(FE_TONEAREST); }
  RoundingMode(const RoundingMode&) = delete;
  RoundingMode& operator=(const RoundingMode&) = delete;
};

template <class T>
T computed(RoundedKind kind, const volatile T& a, const volatile T& b, const volatile T& c) {
  const volatile T one = 1;
  volatile T result = 0;
  switch (kind) {
    case RoundedKind::add:
      result = a + b;
      break;
    case RoundedKind::subtract:
      result = a - b;
      break;
    case RoundedKind::multiply:
      result = a * b;
      break;
    case RoundedKind::divide:
      result = a / b;
      break;
    case RoundedKind::fused:
      result = std::fma(T{a}, T{b}, T{c});
      break;
    case RoundedKind::reciprocal:
      result = one / a;
      break;
    case RoundedKind::root:
      result = std::sqrt(T{a});
      break;
  }
  return result;
}

template <class T>
void rounded_lanes(Warp& warp, Mask mask, const Site& site) {
  const RoundingMode mode(static_cast<Rounding>(site.form));
  for_lanes(mask, [&](int lane) {
    const volatile T a = source<T>(warp, 0)[lane];
    const volatile T b = source<T>(warp, 1)[lane];
    const volatile T c = source<T>(warp, 2)[lane];
    result<T>(warp).set(lane, computed<T>(static_cast<RoundedKind>(site.kind), a, b, c));
  });
}

}  // namespace

void rounded(Warp& warp, Mask mask, const Site& site) {
  site.bytes == 8 ? rounded_lanes<double>(warp, mask, site) : rounded_lanes<float>(warp, mask, site);
}

}  // namespace cubit::runtime::cpu::helpers
