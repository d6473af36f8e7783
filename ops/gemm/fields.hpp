// The fields of a descriptor that operators on GEMMs have in common.
#pragma once

#include <cubit/gemm_function.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "ops/fields.hpp"

namespace cubit::ops::gemm {

inline constexpr std::string_view kAutoTile = "auto";

/// A field that holds one of the tile's sizes, or 0 for "auto", its default.
template <class Descriptor, class Sizes>
Field<Descriptor> tile_field(const char* name, const char* meaning, int Descriptor::*member, const Sizes& sizes) {
  FieldHelp help{name, fmt::format("{}, {}", kAutoTile, fmt::join(sizes, ", ")), std::string(kAutoTile), meaning};
  Field<Descriptor> number = number_field<Descriptor>(std::move(help), member, {sizes.begin(), sizes.end()});
  return {number.help, [member, set = number.set](Descriptor& descriptor, std::string_view text) {
            if (text != kAutoTile) return set(descriptor, text);
            descriptor.*member = 0;
            return true;
          }};
}

template <class Descriptor, class Sizes>
Field<Descriptor> tile_m_field(int Descriptor::*member, const Sizes& sizes) {
  return tile_field("tile_m",
                    "rows of activations that a block computes; any number of rows is right. auto: a set of kernels, "
                    "of which each launch takes the fastest for its sizes",
                    member, sizes);
}

template <class Descriptor, class Sizes>
Field<Descriptor> tile_n_field(int Descriptor::*member, const Sizes& sizes) {
  return tile_field("tile_n",
                    "columns of the weights that a block computes; fewer than 256 go with tile_m=8 and 16: the "
                    "block's warps share k, and blocks share k only where blocks are few. auto: as for tile_m",
                    member, sizes);
}

template <class Descriptor>
Field<Descriptor> function_field(GemmFunction Descriptor::*member) {
  return word_field<Descriptor, GemmFunction>(
      {"function", "none, relu, silu, gelu, gelu_tanh, silu_gate", "none",
       "applied to the product and its bias; silu_gate: silu of the first half of the columns times the second"},
      member,
      {{"none", GemmFunction::none},
       {"relu", GemmFunction::relu},
       {"silu", GemmFunction::silu},
       {"gelu", GemmFunction::gelu},
       {"gelu_tanh", GemmFunction::gelu_tanh},
       {"silu_gate", GemmFunction::silu_gate}});
}

template <class Descriptor>
Field<Descriptor> bias_field(bool Descriptor::*member) {
  return flag_or_number_field<Descriptor>("bias", "whether a bias is added before the function", member);
}

template <class Descriptor>
Field<Descriptor> residual_field(bool Descriptor::*member) {
  return flag_or_number_field<Descriptor>("residual", "whether a tensor is added after it", member);
}

template <class Descriptor>
Field<Descriptor> batch_invariant_field(bool Descriptor::*member) {
  return flag_or_number_field<Descriptor>(
      "batch_invariant",
      "whether a row's bits must not depend on the other rows: k is added up in an order "
      "that follows from n and k alone",
      member);
}

template <class Descriptor>
Field<Descriptor> atomic_splits_field(bool Descriptor::*member) {
  return flag_or_number_field<Descriptor>(
      "atomic_splits",
      "whether launches may ask for split-K whose blocks add their sums by atomics, in no order: bits then differ "
      "from run to run",
      member);
}

}  // namespace cubit::ops::gemm
