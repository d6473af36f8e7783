// Made-up rows of 16-bit values.
#pragma once

#include <cstdint>
#include <memory>

#include "ops/element/element.hpp"

namespace cubit::check {

/// The number of patterns of made-up rows; kRowPatternsHelp lists them.
inline constexpr int kRowPatterns = 6;
inline constexpr const char* kRowPatternsHelp =
    "pattern (0 normal, 1 outlier channels, 2 constant rows, 3 ties and zeros, 4 tiny values, 5 large values)";
/// Random rows of 16-bit values of type `element`, in the given pattern.
std::unique_ptr<char[]> random_rows(Element element, std::int64_t rows, int channels, int pattern, std::uint64_t seed);

}  // namespace cubit::check
