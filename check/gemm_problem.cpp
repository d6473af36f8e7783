#include "check/gemm_problem.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "check/host_tensors.hpp"

namespace cubit::check {

bool GemmSizes::set_size(std::string_view name, double value) {
  constexpr double kMost = 1 << 24;
  if (name == "m") {
    m = whole_number(name, value, 0, kMost);
  } else if (name == "n") {
    n = whole_number(name, value, 8, kMost);
  } else if (name == "k") {
    k = whole_number(name, value, 1, kMost);
  } else {
    return false;
  }
  return true;
}

std::string GemmSizes::size_text() const { return fmt::format("m = {}, n = {} and k = {}", m, n, k); }

double apply_function(GemmFunction function, double x) {
  switch (function) {
    case GemmFunction::none:
      break;
    case GemmFunction::relu:
      return x < 0 ? 0 : x;
    case GemmFunction::silu:
    case GemmFunction::silu_gate:
      return x / (1 + std::exp(-x));
    case GemmFunction::gelu:
      return x * std::erfc(-x * std::numbers::sqrt2 / 2) / 2;
    case GemmFunction::gelu_tanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

}  // namespace cubit::check
