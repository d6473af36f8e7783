// The descriptor and the arguments of a launch, in the form that ops/gemm takes.
#pragma once

#include <cubit/w4a16_gemm.h>
#include <cubit/w4a16_gemm.hpp>

#include "ops/gemm/gemm.hpp"
#include "ops/gemm/schedule.hpp"
#include "ops/gemm/specialisation.hpp"

namespace cubit::ops::w4a16_gemm {

/// The part of the descriptor that all GEMMs have.
gemm::GemmDescriptor describe(const W4a16Gemm& descriptor);

/// The translation of the public arguments.
extern const gemm::Translation<W4a16Gemm, cubit_w4a16_gemm_arguments> kTranslation;

/// Elements from one row of dense weights to the next.
std::int64_t row_stride_of_weights(const cubit_w4a16_gemm_arguments& arguments);

/// The sizes and the tensors of a launch that all GEMMs have. Throws Failure(invalid_argument) as check_layers() does.
gemm::Problem problem_of(const W4a16Gemm& descriptor, const cubit_w4a16_gemm_arguments& arguments);

/// Throws Failure(invalid_argument) for words, scales, zeros and g_idx that the argument struct's documentation rules
/// out.
void check_tensors(const W4a16Gemm& descriptor, const cubit_w4a16_gemm_arguments& arguments);

/// These functions call the functions of the same names in ops/gemm, for launches of one layer.
gemm::Schedule choose_schedule(const gemm::BlockPlan& block, const cubit_w4a16_gemm_arguments& arguments,
                               const runtime::DeviceFacts& device);

}  // namespace cubit::ops::w4a16_gemm
