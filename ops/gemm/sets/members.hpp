// The members of a set of GEMM kernels. A descriptor without tile_m or without tile_n names a set, and its members have
// the descriptor's other fields. The operator states which tiles it has timed.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "codegen/architecture.hpp"
#include "ops/gemm/families.hpp"
#include "ops/kernel_family.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::gemm {

/// How an operator chooses the members of its sets. Its descriptor has fields tile_m and tile_n, of which 0 stands for
/// "auto", a field family, and functions is_set() and text(). A constant of the operator.
template <class Descriptor>
struct SetPolicy {
  const FamilyList<GemmFamily<Descriptor>>& (*families)();
  /// Throws Failure with the rule that a kernel's descriptor breaks.
  void (*check_rules)(const Descriptor& kernel, std::string_view text);
  bool (*is_served)(const Descriptor& kernel);  ///< check_rules() throws nothing
  std::span<const int> tile_rows;               ///< of all kernels, ascending
  std::span<const int> tile_columns;            ///< of all kernels, descending
  int most_narrow_rows;                         ///< of tiles of fewer than 256 columns
  /// Whether somebody timed which tiles are fastest, if the family's tiles were timed: see GemmFamily::is_modelled.
  bool (*is_timed)(const Descriptor& set);
  /// The tiles of a set that gives neither size, by ascending rows, then columns.
  std::span<const Tile> (*timed_tiles)(const Descriptor& set, const codegen::Architecture& architecture);
  std::span<const Tile> untimed_tiles;  ///< the same where nobody has timed the tiles
};

namespace detail {

template <class Descriptor>
Descriptor with_tile(Descriptor set, const Tile& tile) {
  set.tile_m = tile.rows;
  set.tile_n = tile.columns;
  return set;
}

/// Every kernel whose tile has the size that the set gives, by ascending tile_m, then tile_n. Tiles of fewer than 256
/// columns have at most `most_narrow_rows` rows.
template <class Descriptor>
std::vector<Descriptor> with_every_tile(const SetPolicy<Descriptor>& policy, const Descriptor& set,
                                        int most_narrow_rows) {
  std::vector<Descriptor> kernels;
  for (const int rows : policy.tile_rows) {
    if (set.tile_m != 0 && rows != set.tile_m) continue;
    for (auto columns = policy.tile_columns.rbegin(); columns != policy.tile_columns.rend(); ++columns) {
      const bool is_wide = *columns == gemm_lanes::kBlockColumns;
      if ((set.tile_n != 0 && *columns != set.tile_n) || (!is_wide && rows > most_narrow_rows)) continue;
      kernels.push_back(with_tile(set, {rows, *columns}));
    }
  }
  return kernels;
}

template <class Descriptor>
bool is_served_on(const SetPolicy<Descriptor>& policy, const Descriptor& kernel,
                  const codegen::Architecture& architecture) {
  return policy.is_served(kernel) && serves(policy.families(), kernel, architecture);
}

/// The sizes that the set may give instead of the one that it gives: "8, 16, 32, 64". Empty if there is none.
template <class Descriptor>
std::string accepted_sizes(const SetPolicy<Descriptor>& policy, Descriptor set,
                           const codegen::Architecture& architecture) {
  std::set<int> accepted;
  const bool gives_rows = set.tile_m != 0;
  (gives_rows ? set.tile_m : set.tile_n) = 0;
  for (const Descriptor& kernel : with_every_tile(policy, set, policy.most_narrow_rows)) {
    if (is_served_on(policy, kernel, architecture)) accepted.insert(gives_rows ? kernel.tile_m : kernel.tile_n);
  }
  return fmt::format("{}", fmt::join(accepted, ", "));
}

/// The first kernel whose tile suits the family that the set names, so that its refusal names a rule of other fields.
template <class Descriptor, class IsServed>
const Descriptor& typical(const std::vector<Descriptor>& kernels, const IsServed& is_served) {
  for (const Descriptor& kernel : kernels) {
    Descriptor plain;
    plain.tile_m = kernel.tile_m;
    plain.tile_n = kernel.tile_n;
    plain.family = kernel.family;
    if (is_served(plain)) return kernel;
  }
  return kernels.front();
}

}  // namespace detail

/// Whether somebody timed which tiles of the set are fastest.
template <class Descriptor>
bool is_timed(const SetPolicy<Descriptor>& policy, const Descriptor& set, const codegen::Architecture& architecture) {
  if (!policy.is_timed(set)) return false;
  for (const Descriptor& kernel : detail::with_every_tile(policy, set, policy.most_narrow_rows)) {
    if (detail::is_served_on(policy, kernel, architecture))
      return choose_family(policy.families(), kernel, architecture).family.is_modelled(architecture);
  }
  return false;
}

/// The kernels that may be members. A set that gives one size of its tile has every tile with that size.
template <class Descriptor>
std::vector<Descriptor> candidates(const SetPolicy<Descriptor>& policy, const Descriptor& set,
                                   const codegen::Architecture& architecture) {
  const bool takes_untimed = set.tile_n == 0 && !is_timed(policy, set, architecture);
  if (set.tile_m != 0 || set.tile_n != 0)
    return detail::with_every_tile(policy, set, takes_untimed ? 0 : policy.most_narrow_rows);
  std::vector<Descriptor> kernels;
  for (const Tile& tile : takes_untimed ? policy.untimed_tiles : policy.timed_tiles(set, architecture))
    kernels.push_back(detail::with_tile(set, tile));
  return kernels;
}

/// The kernels that the descriptor names on the architecture, by ascending tile_m, then tile_n: the descriptor itself
/// if it gives both tiles. Throws Failure(unsupported) if the architecture serves no member. Pure.
template <class Descriptor>
std::vector<Descriptor> members(const SetPolicy<Descriptor>& policy, const Descriptor& descriptor,
                                const codegen::Architecture& architecture) {
  if (!descriptor.is_set()) return {descriptor};
  const auto is_served_here = [&](const Descriptor& kernel) {
    return detail::is_served_on(policy, kernel, architecture);
  };
  const std::vector<Descriptor> kernels = candidates(policy, descriptor, architecture);
  std::vector<Descriptor> served;
  std::copy_if(kernels.begin(), kernels.end(), std::back_inserter(served), is_served_here);
  if (!served.empty()) return served;
  std::string subject = fmt::format("{} for {}", descriptor.text(), architecture.name);
  if (descriptor.tile_m != 0 || descriptor.tile_n != 0) {
    const std::string accepted = detail::accepted_sizes(policy, descriptor, architecture);
    const auto given =
        descriptor.tile_m != 0 ? std::pair("tile_m", descriptor.tile_m) : std::pair("tile_n", descriptor.tile_n);
    if (!accepted.empty())
      throw Failure(Status::unsupported, std::move(subject),
                    fmt::format("no kernel has {}={} there", given.first, given.second), "accepted: " + accepted);
  }
  try {
    const Descriptor& kernel = detail::typical(kernels, is_served_here);
    policy.check_rules(kernel, kernel.text());
    choose_family(policy.families(), kernel, architecture);
  } catch (const Failure& failure) {
    throw Failure(Status::unsupported, std::move(subject), failure.rule(), failure.remedy());
  }
  throw Failure(Status::internal, std::move(subject), "the set has no member, and its first kernel is served");
}

/// The rule that leaves the set without a member on every architecture, or nothing. Pure.
template <class Descriptor>
std::optional<BrokenRule> why_no_members(const SetPolicy<Descriptor>& policy, const Descriptor& set) {
  const std::vector<Descriptor> kernels = detail::with_every_tile(policy, set, policy.most_narrow_rows);
  if (std::any_of(kernels.begin(), kernels.end(), policy.is_served)) return std::nullopt;
  try {
    const Descriptor& kernel = detail::typical(kernels, policy.is_served);
    policy.check_rules(kernel, kernel.text());
  } catch (const Failure& failure) {
    return BrokenRule{failure.rule(), failure.remedy()};
  }
  return std::nullopt;
}

}  // namespace cubit::ops::gemm
