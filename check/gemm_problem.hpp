// What the problems of GEMM operators share: the sizes of made-up problems, and the reference of the epilogue's
// functions.
#pragma once

#include <cubit/gemm_function.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace cubit::check {

/// The sizes of a made-up problem.
struct GemmSizes {
  std::int64_t m = 16;
  std::int64_t n = 1024;
  std::int64_t k = 1024;

  /// Sets m, n or k. Returns false for another name. Throws Failure(invalid_argument) for a value out of range.
  bool set_size(std::string_view name, double value);
  /// "m = 16, n = 1024 and k = 1024"
  std::string size_text() const;
};

/// function(x) in double precision. A gate is the silu that multiplies the up-projection.
double apply_function(GemmFunction function, double x);

}  // namespace cubit::check
