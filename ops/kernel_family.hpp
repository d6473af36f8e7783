// Kernel families: the different ways to build one operator's kernel, behind one interface, and the choice among them.
//
// To add a family, write a class in a folder of its own, ops/<operator>/<family>/, and name the class in the operator's
// one list, ops/<operator>/families.cpp. Code outside the folder asks a plan for values, not for a family's name.
// Families of GEMMs, which several operators have, are in ops/gemm/, and an operator has a small class for each.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "codegen/architecture.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

/// The value of a descriptor's field `family` that leaves the choice to the operator.
inline constexpr std::string_view kAnyFamily = "auto";

/// A rule that a descriptor breaks, and what would keep the rule: the second and third part of an error.
struct BrokenRule {
  std::string rule;
  std::string remedy;
};

/// Whether measurements favour a family over the families before it in the operator's list.
struct FamilyPreference {
  bool is_preferred = false;
  std::string why_not_preferred = {};  ///< a reason for reports; empty: the report says that the chosen one is faster
};

/// One way to build an operator's kernel: an instruction set, a pipeline and a schedule. A family is immutable and has
/// a folder of its own, ops/<operator>/<family>/; the operator holds a list of its families.
template <class Descriptor>
class KernelFamily {
 public:
  virtual ~KernelFamily() = default;
  /// The value of the descriptor's field `family` that asks for this family: "sm90".
  virtual std::string_view name() const = 0;
  /// The architectures that have the family's instructions, for error messages: "sm_90 and later".
  virtual std::string_view accepted() const = 0;
  /// The rule that keeps the family from serving the descriptor on any architecture, or nothing. Parsing a descriptor
  /// that names the family asks for this rule. Pure.
  virtual std::optional<BrokenRule> why_not_descriptor(const Descriptor&) const { return std::nullopt; }
  /// The rule that keeps the family from serving the descriptor on the architecture, or nothing. A rule of
  /// why_not_descriptor() is such a rule too. Pure.
  virtual std::optional<std::string> why_not(const Descriptor& descriptor,
                                             const codegen::Architecture& architecture) const = 0;
  /// Whether a descriptor that names no family gets this family although a family before it serves as well. Requires
  /// that why_not() returns nothing. Pure.
  virtual FamilyPreference preference(const Descriptor&, const codegen::Architecture&) const { return {}; }
  /// Plans the kernel: tiles, stages, layouts, launch shape. The result holds the source and the report. `report` names
  /// the family and the rejected families already; the plan adds its decisions and proofs to it. Requires that
  /// why_not() returns nothing. Pure.
  virtual std::shared_ptr<const Specialisation> plan(const Descriptor& descriptor,
                                                     const codegen::Architecture& architecture,
                                                     PlanReport report) const = 0;
};

/// An operator's kernel families, in the order in which the operator tries them. `Family` is KernelFamily<Descriptor>
/// or an operator's own extension of it.
template <class Family>
struct FamilyList {
  std::string_view operator_name;  ///< "gqa_decode"
  std::string_view accepted;       ///< what the families together serve, for error messages: "sm_80 and later"
  std::span<const Family* const> families;

  /// The family of that name, or null.
  const Family* find(std::string_view name) const {
    const auto found =
        std::find_if(families.begin(), families.end(), [&](const Family* one) { return one->name() == name; });
    return found == families.end() ? nullptr : *found;
  }
  /// A family's name in reports: "sm90_gqa_decode".
  std::string full_name(const Family& family) const { return fmt::format("{}_{}", family.name(), operator_name); }
  /// The values of the descriptor's field `family`: "auto, sm75, sm80, sm90".
  std::string accepted_names() const {
    std::vector<std::string_view> names;
    for (const Family* family : families) names.push_back(family->name());
    std::sort(names.begin(), names.end());
    return fmt::format("{}, {}", kAnyFamily, fmt::join(names, ", "));
  }
};

/// The descriptor's field `family`. `list` outlives the field.
template <class Descriptor, class Family>
Field<Descriptor> family_field(const FamilyList<Family>& list) {
  return {{"family", list.accepted_names(), std::string(kAnyFamily),
           "kernel family; auto is the one that was measured to be faster, see cubit explain"},
          [&list](Descriptor& descriptor, std::string_view text) {
            descriptor.family = text;
            return text == kAnyFamily || list.find(text) != nullptr;
          }};
}

/// The rule of the named family that the descriptor breaks on every architecture, or nothing.
template <class Descriptor, class Family>
std::optional<BrokenRule> why_not_named_family(const FamilyList<Family>& list, const Descriptor& descriptor) {
  if (descriptor.family == kAnyFamily) return std::nullopt;
  const Family* const named = list.find(descriptor.family);
  if (named != nullptr) return named->why_not_descriptor(descriptor);
  return BrokenRule{fmt::format("family={} names no kernel family", descriptor.family),
                    fmt::format("accepted: {}", list.accepted_names())};
}

/// Each family's rule that the descriptor breaks on every architecture: "sm80: …; sm90: …". Nothing if a family serves
/// the descriptor on some architecture.
template <class Descriptor, class Family>
std::optional<std::string> why_unserved(const FamilyList<Family>& list, const Descriptor& descriptor) {
  std::string rules;
  for (const Family* family : list.families) {
    const std::optional<BrokenRule> broken = family->why_not_descriptor(descriptor);
    if (!broken) return std::nullopt;
    rules += fmt::format("{}{}: {}", rules.empty() ? "" : "; ", family->name(), broken->rule);
  }
  return rules;
}

/// A family, and the beginning of its plan's report: the family's name, and why each other family was rejected.
template <class Family>
struct ChosenFamily {
  const Family& family;
  PlanReport report;
};

namespace detail {

/// A family of the list, asked about one descriptor and one architecture.
template <class Family>
struct Candidate {
  const Family* family = nullptr;
  std::optional<std::string> why_not;  ///< nothing: the family serves
  FamilyPreference preference;         ///< only of a family that serves
};

template <class Descriptor, class Family>
std::vector<Candidate<Family>> candidates_of(const FamilyList<Family>& list, const Descriptor& descriptor,
                                             const codegen::Architecture& architecture) {
  std::vector<Candidate<Family>> candidates;
  for (const Family* family : list.families) {
    candidates.push_back({family, family->why_not(descriptor, architecture), {}});
    if (!candidates.back().why_not) candidates.back().preference = family->preference(descriptor, architecture);
  }
  return candidates;
}

/// The first candidate that serves and is preferred, else the first that serves, else null. `name`: the family that
/// the descriptor names, or kAnyFamily.
template <class Family>
const Family* best_of(const std::vector<Candidate<Family>>& candidates, std::string_view name) {
  const Family* first = nullptr;
  for (const Candidate<Family>& candidate : candidates) {
    if (candidate.why_not || (name != kAnyFamily && name != candidate.family->name())) continue;
    if (candidate.preference.is_preferred) return candidate.family;
    if (first == nullptr) first = candidate.family;
  }
  return first;
}

/// No candidate serves, or the descriptor names one that does not serve.
template <class Descriptor, class Family>
[[noreturn]] void throw_unserved(const FamilyList<Family>& list, const Descriptor& descriptor,
                                 const codegen::Architecture& architecture,
                                 const std::vector<Candidate<Family>>& candidates) {
  const std::string subject = fmt::format("{} for {}", descriptor.text(), architecture.name);
  std::string reasons;
  bool another_serves = false;
  const Candidate<Family>* named = nullptr;
  for (const Candidate<Family>& one : candidates) {
    reasons +=
        fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", list.full_name(*one.family), one.why_not.value_or(""));
    another_serves = another_serves || !one.why_not;
    if (one.family->name() == descriptor.family) named = &one;
  }
  if (descriptor.family == kAnyFamily) {
    throw Failure(Status::unsupported, subject, fmt::format("no kernel family runs there ({})", reasons),
                  fmt::format("accepted: {}", list.accepted));
  }
  if (named == nullptr) {
    BrokenRule broken = *why_not_named_family(list, descriptor);
    throw Failure(Status::invalid_argument, subject, std::move(broken.rule), std::move(broken.remedy));
  }
  throw Failure(
      Status::unsupported, subject, fmt::format("family={}: {}", descriptor.family, *named->why_not),
      fmt::format("accepted: {}{}", named->family->accepted(),
                  another_serves ? ", or leave family out" : fmt::format("; without family: {}", list.accepted)));
}

}  // namespace detail

/// Whether choose_family() finds a family.
template <class Descriptor, class Family>
bool serves(const FamilyList<Family>& list, const Descriptor& descriptor, const codegen::Architecture& architecture) {
  return detail::best_of(detail::candidates_of(list, descriptor, architecture), descriptor.family) != nullptr;
}

/// The family that the descriptor names; else the first family that serves the descriptor on the architecture and is
/// preferred; else the first that serves. Throws Failure(unsupported) with every family's reason if none serves.
template <class Descriptor, class Family>
ChosenFamily<Family> choose_family(const FamilyList<Family>& list, const Descriptor& descriptor,
                                   const codegen::Architecture& architecture) {
  const std::vector<detail::Candidate<Family>> candidates = detail::candidates_of(list, descriptor, architecture);
  const Family* const chosen = detail::best_of(candidates, descriptor.family);
  if (chosen == nullptr) detail::throw_unserved(list, descriptor, architecture, candidates);
  PlanReport report;
  report.family = list.full_name(*chosen);
  for (const detail::Candidate<Family>& one : candidates) {
    if (one.family == chosen) continue;
    std::string why = one.why_not.value_or(descriptor.family == kAnyFamily ? one.preference.why_not_preferred
                                                                           : "the descriptor names another");
    if (why.empty()) why = fmt::format("family {} is faster there", chosen->name());
    report.rejections.push_back({list.full_name(*one.family), std::move(why)});
  }
  return {*chosen, std::move(report)};
}

}  // namespace cubit::ops
