// gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm80
#pragma once

#include "kv_format/kv_int4_rows.cuh"
#include "kv_format/kv_stage.cuh"
#include "kv_format/kv_contiguous.cuh"
#include "attention/query_tokens.cuh"
#include "core/types.cuh"
#include "pipeline/tile_copies_async.cuh"
#include "attention/score_steps.cuh"
#include "attention/tokens_all.cuh"
#include "attention/sink_none.cuh"

namespace plan {

constexpr int kHeadDim = 128;
constexpr int kValueDim = 128;
constexpr int kHeadsPerKv = 8;
constexpr int kQueryTokens = 1;
constexpr int kHeadGroups = 1;
constexpr int kHeadsPerBlock = 8;
constexpr int kQueryGroups = 1;
constexpr int kHeadsPerWarp = 8;
constexpr bool kHeadsAreM = false;
constexpr int kAlignment = 16;
constexpr bool kRecomputesLanes = false;
constexpr int kWarps = 4;
constexpr int kTilesPerStage = 1;
constexpr int kTileBytes = 1280;
constexpr int kStageBytes = 2560;
constexpr int kStages = 4;
constexpr int kBlocksPerSm = 4;
constexpr int kCopyBytes = 16;
constexpr bool kKeepOffsets = true;
constexpr int kSlotPeriod = 1;
constexpr int kQueryAt = 0;
constexpr int kQueryBytes = 0;
constexpr int kPartialsAtOnce = 16;
using TileCopies = cubit::AsyncTileCopies<kCopyBytes, kStages>;
constexpr bool kOverlaps = true;
using Query = cubit::Bfloat16;
using Output = cubit::Bfloat16;
using Cache = cubit::ContiguousCache;
using Queries = cubit::OneQueryToken<kHeadsPerKv>;
constexpr int kKvStagePitch = 80;
constexpr int kKvStageBytes = 2560;
constexpr __device__ int kv_stage(int row, int byte) { return row * 80 + byte; }
using Keys = cubit::Int4Rows<Query, kHeadDim, 4, kHeadsPerWarp, kAlignment, kv_stage>;
using Values = Keys;
using Stage = cubit::StageOfOneFormat<Keys, kCopyBytes, kv_stage>;
using Score = cubit::ScoreSteps<>;
using Tokens = cubit::AllTokens;
using Sink = cubit::NoSink;

}  // namespace plan
