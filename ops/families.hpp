// Which of an operator's kernel families a descriptor gets on an architecture: the one that it names, the one that was
// measured to be faster there, or the first that fits; and why not the others.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cubit/family.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "codegen/architecture.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

/// A kernel family of an operator.
template <class Descriptor>
struct FamilyFacts {
  Family family;
  std::string_view name;      ///< as reports have it: "sm80_gqa_decode"
  std::string_view kernel;    ///< template
  std::string_view accepted;  ///< the architectures that have its instructions
  /// Empty where it can be chosen.
  std::string (*why_not)(const Descriptor&, const codegen::Architecture&);
};

template <class Descriptor>
const FamilyFacts<Descriptor>& facts_of(std::span<const FamilyFacts<Descriptor>> families, Family family) {
  return *std::find_if(families.begin(), families.end(),
                       [&](const FamilyFacts<Descriptor>& candidate) { return candidate.family == family; });
}

/// What is to be chosen where a descriptor leaves it open and several families fit.
struct FamilyPreference {
  Family family = Family::automatic;  ///< automatic: the first that fits
  std::string why;                    ///< and no other that fits
};

/// Sets the report's family and its rejections, and returns the family. Throws Failure(unsupported) where none fits:
/// `accepted` is what would do where the descriptor names none.
template <class Descriptor>
Family choose_family(PlanReport& report, std::span<const FamilyFacts<Descriptor>> families,
                     const Descriptor& descriptor, const codegen::Architecture& architecture,
                     const FamilyPreference& preference, std::string_view accepted) {
  const Family named = descriptor.family;
  const Family wanted = named == Family::automatic ? preference.family : named;
  Family chosen = Family::automatic;
  std::string reasons;
  for (const FamilyFacts<Descriptor>& candidate : families) {
    std::string why = candidate.why_not(descriptor, architecture);
    const bool is_wanted = wanted == Family::automatic || wanted == candidate.family;
    if (why.empty() && is_wanted && chosen == Family::automatic) {
      chosen = candidate.family;
      report.family = candidate.name;
      continue;
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", candidate.name, why);
    if (why.empty()) why = named == Family::automatic ? preference.why : "the descriptor names another";
    report.rejections.push_back({std::string(candidate.name), std::move(why)});
  }
  if (chosen != Family::automatic) return chosen;
  const std::string subject = fmt::format("{} for {}", descriptor.text(), architecture.name);
  if (named == Family::automatic) {
    throw Failure(Status::unsupported, subject, fmt::format("no kernel family runs there ({})", reasons),
                  fmt::format("accepted: {}", accepted));
  }
  const FamilyFacts<Descriptor>& facts = facts_of(families, named);
  const bool another_fits = std::any_of(families.begin(), families.end(), [&](const FamilyFacts<Descriptor>& other) {
    return other.why_not(descriptor, architecture).empty();
  });
  throw Failure(Status::unsupported, subject,
                fmt::format("family={}: {}", family_name(named), facts.why_not(descriptor, architecture)),
                fmt::format("accepted: {}{}", facts.accepted,
                            another_fits ? ", or leave family out" : fmt::format("; without family: {}", accepted)));
}

}  // namespace cubit::ops
