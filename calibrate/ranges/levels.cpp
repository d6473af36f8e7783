#include "calibrate/ranges/levels.hpp"

#include <cmath>
#include <cstddef>

namespace cubit::calibrate {
namespace {

/// The magnitudes of e4m3 divided by the largest one.
std::vector<double> e4m3_shares() {
  constexpr int kCodes = 0x7f;  // code 0x7f is NaN
  std::vector<double> shares;
  for (int code = 0; code < kCodes; ++code) {
    const int exponent = code >> 3;
    const int fraction = code & 7;
    shares.push_back((exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10)) /
                     kLargestE4m3);
  }
  return shares;
}

}  // namespace

Levels::Levels(Format format) : is_symmetric(format != Format::int8_asymmetric) {
  if (format == Format::int8_asymmetric)
    for (int i = 0; i <= 255; ++i) values.push_back(i / 255.0);
  if (format == Format::int8)
    for (int i = -127; i <= 127; ++i) values.push_back(i / 127.0);
  if (format == Format::e4m3) {
    const std::vector<double> shares = e4m3_shares();
    for (std::size_t i = shares.size() - 1; i > 0; --i) values.push_back(-shares[i]);
    values.insert(values.end(), shares.begin(), shares.end());
  }
  for (std::size_t i = 0; i + 1 < values.size(); ++i) boundaries.push_back((values[i] + values[i + 1]) / 2);
}

}  // namespace cubit::calibrate
