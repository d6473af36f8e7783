// Writes plan.cuh, the one header that the generator adds to a template: constants, type choices and layout functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/tile_layout.hpp"

namespace cubit::codegen {

/// Collects lines in the order of the calls. text() returns a complete header; equal calls give equal text.
class PlanHeader {
 public:
  /// `descriptor` becomes the header's first comment line.
  explicit PlanHeader(std::string_view descriptor);

  PlanHeader& include(std::string_view header);                     ///< #include "header" before the namespace
  PlanHeader& constant(std::string_view name, std::int64_t value);  ///< constexpr int, or long long if the value needs
                                                                    ///< it
  PlanHeader& flag(std::string_view name, bool value);              ///< constexpr bool
  PlanHeader& alias(std::string_view name, std::string_view type);  ///< using name = type;
  PlanHeader& layout(std::string_view name,
                     const TileLayout& layout);  ///< constexpr device function, and constants k<Name>Bytes and
                                                 ///< k<Name>Pitch

  std::string text() const;

 private:
  std::string descriptor_;
  std::vector<std::string> includes_;
  std::vector<std::string> lines_;
};

}  // namespace cubit::codegen
