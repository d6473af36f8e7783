// Plans and kernels of gqa_decode, and what tests ask of their reports.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ops/gqa_decode/family.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/gqa_decode/sm75/sm75.hpp"
#include "ops/gqa_decode/sm80/sm80.hpp"
#include "ops/gqa_decode/sm90/sm90.hpp"

namespace cubit::tests {

constexpr const char* kGqaArchitectures[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"};

/// The kernel that every user of the library gets: its family is the one that is named, or the one that is chosen.
inline std::shared_ptr<const ops::Specialisation> gqa_kernel_of(const GqaDecode& descriptor,
                                                                const codegen::Architecture& architecture) {
  return ops::gqa_decode::specialise(ops::gqa_decode::families(), descriptor, architecture);
}
inline std::shared_ptr<const ops::Specialisation> gqa_kernel_of(std::string_view text, std::string_view architecture) {
  return gqa_kernel_of(ops::gqa_decode::parse(text), codegen::find_architecture(architecture));
}

/// A family's plan, whatever family the descriptor would get.
inline ops::gqa_decode::sm80::Plan sm80_plan_of(std::string_view text, std::string_view architecture) {
  return ops::gqa_decode::sm80::make_plan(ops::gqa_decode::parse(text), codegen::find_architecture(architecture));
}
inline ops::gqa_decode::sm90::Plan sm90_plan_of(std::string_view text, std::string_view architecture) {
  return ops::gqa_decode::sm90::make_plan(ops::gqa_decode::parse(text), codegen::find_architecture(architecture));
}

inline const ops::PlanReport& report_of(const ops::gqa_decode::CommonPlan& plan) { return plan.report; }
inline const ops::PlanReport& report_of(const std::shared_ptr<const ops::Specialisation>& kernel) {
  return kernel->report();
}

/// The decision of that name; an empty decision if the plan has none. `Planned`: a plan or a kernel.
template <class Planned>
ops::Decision decision_of(const Planned& planned, std::string_view name) {
  for (const ops::Decision& one : report_of(planned).decisions) {
    if (one.name == name) return one;
  }
  return {};
}

template <class Planned>
std::string reason_of(const Planned& planned, std::string_view decision) {
  return decision_of(planned, decision).why;
}

template <class Planned>
std::string value_of(const Planned& planned, std::string_view decision) {
  return decision_of(planned, decision).value;
}

}  // namespace cubit::tests
