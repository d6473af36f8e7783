// Inside the operator w8a8_gemm: the descriptor's rules, its description for ops/gemm, and its kernel family.
#pragma once

#include <cubit/w8a8_gemm.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/gemm/families.hpp"
#include "ops/gemm/sets/members.hpp"
#include "ops/gemm/specialisation.hpp"
#include "ops/gemm/weights.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& w8a8_gemm_operator();

namespace w8a8_gemm {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();
/// The pointers of a launch that the descriptor needs, and those that it does not take.
PointerChecks pointer_checks(const W8a8Gemm& descriptor);

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<W8a8Gemm>>& fields();

/// Throws Failure(invalid_argument) with the rule that `text` breaks.
W8a8Gemm parse(std::string_view text);

Element addend_type(const W8a8Gemm& descriptor);  ///< of bias and residual
int output_bytes(const W8a8Gemm& descriptor);     ///< of one element
int output_columns(const W8a8Gemm& descriptor, int n);

/// The part of the descriptor that all GEMMs have.
gemm::GemmDescriptor describe(const W8a8Gemm& descriptor);
/// The translation of the public arguments.
extern const gemm::Translation<W8a8Gemm, cubit_w8a8_gemm_arguments> kTranslation;

using GemmFamily = gemm::GemmFamily<W8a8Gemm>;

/// Types in the templates of all families: of a sum, of the scaling role, and of the range of 8-bit or second outputs.
/// `promotes`: fp32 additions add up the sums of 128 values along k.
std::string_view sum_type(const W8a8Gemm& descriptor);
gemm::Role scaling_role(const W8a8Gemm& descriptor, bool promotes);
std::string byte_range_type(const W8a8Gemm& descriptor, const codegen::Architecture& architecture);

/// What `explain` says about the accumulators.
Decision sum_decision(const W8a8Gemm& descriptor);

const GemmFamily& sm75_family();
const GemmFamily& sm80_family();
const GemmFamily& sm90_persistent_family();
/// The kernel families, in the order in which the operator tries them.
const FamilyList<GemmFamily>& families();
/// How members of sets are chosen.
extern const gemm::SetPolicy<W8a8Gemm> kSetPolicy;

}  // namespace w8a8_gemm
}  // namespace cubit::ops
