// Kernel families of gqa_decode, and the one list of them.
#pragma once

#include <cubit/gqa_decode.h>
#include <cubit/gqa_decode.hpp>

#include <memory>
#include <string_view>

#include "ops/kernel_family.hpp"
#include "ops/planned_specialisation.hpp"

namespace cubit::ops::gqa_decode {

/// A kernel family of gqa_decode.
class Family : public KernelFamily<GqaDecode> {
 public:
  /// The name of the family that serves launches of this size faster than this family does; empty: none is known. Page
  /// sizes and numbers of heads decide it, which a descriptor does not have. Requires that why_not() returns nothing.
  virtual std::string_view faster_family(const GqaDecode&, const codegen::Architecture&,
                                         const cubit_gqa_decode_arguments&, const runtime::DeviceFacts&) const {
    return {};
  }
};

/// The families in the order in which the operator tries them (families.cpp). To add a family, add it there.
const FamilyList<Family>& families();

/// The kernel of the descriptor: the family is chosen from the list, and the family plans. Throws Failure(unsupported)
/// if no family of the list serves the descriptor.
std::shared_ptr<const Specialisation> specialise(const FamilyList<Family>& list, const GqaDecode& descriptor,
                                                 const codegen::Architecture& architecture);

/// The descriptor with the family that launches of these sizes over a dense cache want, if the descriptor leaves the
/// family open. Throws Failure(invalid_argument) for a size of another name or out of range.
GqaDecode suggest(const FamilyList<Family>& list, const GqaDecode& descriptor, const Numbers& sizes,
                  const runtime::DeviceFacts& device);

}  // namespace cubit::ops::gqa_decode
