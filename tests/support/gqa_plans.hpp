// Reads facts from gqa_decode plans for tests.
#pragma once

#include <string>
#include <string_view>

#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::tests {

constexpr const char* kGqaArchitectures[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"};

/// Returns the plan's decision of this name, or an empty decision.
inline ops::Decision decision_of(const ops::gqa_decode::Plan& plan, std::string_view name) {
  for (const ops::Decision& one : plan.report.decisions) {
    if (one.name == name) return one;
  }
  return {};
}

inline std::string reason_of(const ops::gqa_decode::Plan& plan, std::string_view decision) {
  return decision_of(plan, decision).why;
}

inline std::string value_of(const ops::gqa_decode::Plan& plan, std::string_view decision) {
  return decision_of(plan, decision).value;
}

}  // namespace cubit::tests
