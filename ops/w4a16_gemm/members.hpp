// Sets of kernels: the members that a descriptor without tile_m or tile_n has, and the choice among them.
#pragma once

#include <cubit/w4a16_gemm.h>
#include <cubit/w4a16_gemm.hpp>

#include <vector>

#include "ops/gemm/sets/choice.hpp"

namespace cubit::ops::w4a16_gemm {

using GemmChoice = gemm::GemmChoice<W4a16Gemm, cubit_w4a16_gemm_arguments>;

extern const gemm::SetPolicy<W4a16Gemm> kSetPolicy;

/// See gemm::members().
std::vector<W4a16Gemm> members(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);

/// A choice among members(), or among other kernels of the set, which the architecture serves.
GemmChoice choice_of(const W4a16Gemm& set, const codegen::Architecture& architecture);
GemmChoice choice_of(const W4a16Gemm& set, std::vector<W4a16Gemm> kernels, const codegen::Architecture& architecture);

/// The member that launches of `m` rows (0 is as 1) take, for sizes that its set allows.
W4a16Gemm fastest_member(const GemmChoice& choice, std::int64_t m, std::int64_t n, std::int64_t k,
                         const runtime::DeviceFacts& device);

}  // namespace cubit::ops::w4a16_gemm
