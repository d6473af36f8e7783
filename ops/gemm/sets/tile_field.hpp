// The fields tile_m and tile_n of a descriptor that may name a set of kernels.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "ops/fields.hpp"

namespace cubit::ops::gemm {

inline constexpr std::string_view kAutoTile = "auto";

/// A field that holds one of the tile's sizes, or 0 for "auto", its default.
template <class Descriptor, class Sizes>
Field<Descriptor> tile_field(FieldHelp help, int Descriptor::*member, const Sizes& sizes) {
  help.standard = kAutoTile;
  help.accepts = fmt::format("{}, {}", kAutoTile, fmt::join(sizes, ", "));
  Field<Descriptor> number = number_field<Descriptor>(std::move(help), member, {sizes.begin(), sizes.end()});
  return {number.help, [member, set = number.set](Descriptor& descriptor, std::string_view text) {
            if (text != kAutoTile) return set(descriptor, text);
            descriptor.*member = 0;
            return true;
          }};
}

}  // namespace cubit::ops::gemm
