// What the weight formats put into the kernels of ops/gemm.
#pragma once

#include <cubit/w4a16_gemm.hpp>

#include "ops/gemm/mma_sync/kernel.hpp"
#include "ops/gemm/sm90/sm90.hpp"
#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"

namespace cubit::ops::w4a16_gemm {

/// Families sm75 and sm80.
gemm::mma_sync::Weights mma_sync_weights(const W4a16Gemm& descriptor);
/// The wide kernel of family sm90, or its narrow kernel if the descriptor's blocks are narrow.
gemm::sm90::Weights sm90_weights(const W4a16Gemm& descriptor);
gemm::sm90_persistent::Weights persistent_weights(const W4a16Gemm& descriptor);

/// Family sm90, wide kernel: the activations are put in the order of the words once per launch, in the workspace. That
/// is so for tiles of more than 32 rows and words by k.
bool reorders_activations(const W4a16Gemm& descriptor);

}  // namespace cubit::ops::w4a16_gemm
