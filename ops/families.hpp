// Which of an operator's kernel families a descriptor gets on an architecture: the one that it names, the one that was
// measured to be faster there, or the first that fits; and why not the others.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "codegen/architecture.hpp"
#include "ops/kernel_family.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

/// A kernel family of an operator.
template <class Descriptor>
struct FamilyFacts {
  std::string_view family;    ///< the value of the descriptor's field `family`: "sm80"
  std::string_view name;      ///< as reports have it: "sm80_gqa_decode"
  std::string_view kernel;    ///< template
  std::string_view accepted;  ///< the architectures that have its instructions
  /// Empty where it can be chosen.
  std::string (*why_not)(const Descriptor&, const codegen::Architecture&);
};

template <class Descriptor>
const FamilyFacts<Descriptor>& facts_of(std::span<const FamilyFacts<Descriptor>> families, std::string_view family) {
  return *std::find_if(families.begin(), families.end(),
                       [&](const FamilyFacts<Descriptor>& candidate) { return candidate.family == family; });
}

/// What is to be chosen where a descriptor leaves it open and several families fit.
struct PreferredFamily {
  std::string_view family = kAnyFamily;  ///< kAnyFamily: the first that fits
  std::string why;                       ///< why no other family that fits is chosen
};

/// Sets the report's family and its rejections, and returns the family. Throws Failure(unsupported) where none fits:
/// `accepted` is what would do where the descriptor names none.
template <class Descriptor>
std::string_view choose_family(PlanReport& report, std::span<const FamilyFacts<Descriptor>> families,
                               const Descriptor& descriptor, const codegen::Architecture& architecture,
                               const PreferredFamily& preference, std::string_view accepted) {
  const std::string_view named = descriptor.family;
  const std::string_view wanted = named == kAnyFamily ? preference.family : named;
  std::string_view chosen = kAnyFamily;
  std::string reasons;
  for (const FamilyFacts<Descriptor>& candidate : families) {
    std::string why = candidate.why_not(descriptor, architecture);
    const bool is_wanted = wanted == kAnyFamily || wanted == candidate.family;
    if (why.empty() && is_wanted && chosen == kAnyFamily) {
      chosen = candidate.family;
      report.family = candidate.name;
      continue;
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", candidate.name, why);
    if (why.empty()) why = named == kAnyFamily ? preference.why : "the descriptor names another";
    report.rejections.push_back({std::string(candidate.name), std::move(why)});
  }
  if (chosen != kAnyFamily) return chosen;
  const std::string subject = fmt::format("{} for {}", descriptor.text(), architecture.name);
  if (named == kAnyFamily) {
    throw Failure(Status::unsupported, subject, fmt::format("no kernel family runs there ({})", reasons),
                  fmt::format("accepted: {}", accepted));
  }
  const FamilyFacts<Descriptor>& facts = facts_of(families, named);
  const bool another_fits = std::any_of(families.begin(), families.end(), [&](const FamilyFacts<Descriptor>& other) {
    return other.why_not(descriptor, architecture).empty();
  });
  throw Failure(Status::unsupported, subject,
                fmt::format("family={}: {}", named, facts.why_not(descriptor, architecture)),
                fmt::format("accepted: {}{}", facts.accepted,
                            another_fits ? ", or leave family out" : fmt::format("; without family: {}", accepted)));
}

}  // namespace cubit::ops
