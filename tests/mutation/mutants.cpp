// The table of mutants, and the code that plants their defects and runs them.
#include "tests/mutation/mutants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "check/problem.hpp"
#include "ops/argument_checks.hpp"
#include "ops/operator.hpp"
#include "tests/mutation/pipeline_kernel.hpp"

namespace cubit::tests {
namespace {

constexpr const char* kPipeline = "pipeline";
constexpr const char* kRows = "gqa_decode:heads_per_kv=8,family=sm80";
constexpr const char* kWords = "gqa_decode:heads_per_kv=8,kv=int4_rows,family=sm80";
constexpr const char* kHeadGroups = "gqa_decode:heads_per_kv=17,family=sm80";  // head groups of 9 and 8 query rows

constexpr const char* kManyQueryRows = "gqa_decode:heads_per_kv=32,kv=int4_rows,groups=4";  // query operands lie in
                                                                                            // shared memory

constexpr const char* kBulk = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90";
constexpr const char* kBulkPages = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,cache=paged,family=sm90";
constexpr const char* kUnalignedRows = "gqa_decode:heads_per_kv=8,kv=int4_rows,family=sm90";
constexpr const char* kUnalignedWindow = "gqa_decode:heads_per_kv=8,kv=int4_rows,family=sm90,window=true";
constexpr const char* kManyQueryTokens = "gqa_decode:heads_per_kv=4,query_tokens=4,family=sm90";
constexpr const char* kByHeads = "gqa_decode:heads_per_kv=20,family=sm90";
constexpr const char* kBulkHeads = "gqa_decode:heads_per_kv=4,kv=int4_rows,groups=4,family=sm90";
constexpr const char* kManySplits = "batch=1,context=1000,kv_heads=8,splits=20";
constexpr const char* kSplit = "batch=1,context=3995,splits=2";
constexpr const char* kManyItems = "batch=200,context=300";  // several work items per block

constexpr const char* kGemm = "w4a16_gemm:tile_m=8,tile_n=256";
constexpr const char* kIntraBlockGemm = "w4a16_gemm:tile_m=8,tile_n=64,group_size=32,family=sm80";
constexpr const char* kIntraBlockGemmSizes = "m=3,n=64,k=4096";
constexpr const char* kNarrowGemm = "w4a16_gemm:tile_m=8,tile_n=64,group_size=32";
constexpr const char* kNarrowGemmSizes = "m=3,n=64,k=8192,decomposition=1";
constexpr const char* kNarrowGemm128 =
    "w4a16_gemm:tile_m=8,tile_n=128,group_size=32";  // a stage serves different warp groups
constexpr const char* kNarrowGemm128Sizes = "m=3,n=128,k=8192,decomposition=1";
constexpr const char* kNarrowSlicesSizes = "m=3,n=128,k=2048,decomposition=2,splits=2";
constexpr const char* kHeldGemm = "w4a16_gemm:tile_m=8,tile_n=256,family=sm75";
constexpr const char* kHeldGemmSizes = "m=3,n=256,k=512,decomposition=1";
constexpr const char* kWgmma = "w4a16_gemm:tile_m=16,tile_n=256,family=sm90";
constexpr const char* kWgmmaSizes = "m=9,n=256,k=2048,decomposition=1";
constexpr const char* kPersistent = "w4a16_gemm:group_size=64,tile_m=64,tile_n=256,family=sm90_persistent";
constexpr const char* kPersistentSizes = "m=66,n=264,k=1024,decomposition=1";
constexpr const char* kSharedSizes = "m=130,n=256,k=512,decomposition=3";  // three tiles of two clusters
constexpr const char* kDividedSizes = "m=70,n=136,k=512,decomposition=2,splits=2";
constexpr const char* kReorders = "w4a16_gemm:tile_m=64,tile_n=256";
constexpr const char* kReordersSizes = "m=9,n=512,k=1024,decomposition=1";
constexpr const char* kClusterSizes = "m=9,n=256,k=2048,decomposition=2,splits=2";
constexpr const char* kAppend = "kv_append:kv=int4_rows,groups=4,rotary=half_split";

/// Results on an H200: compute_sanitizer_h200.tsv.
constexpr const char* kNoMbarriers = "none: racecheck takes the healthy pipeline for a race";
constexpr const char* kHangs = "none: the GPU hangs";
constexpr const char* kNotRun = "none: not run on a GPU yet";
constexpr const char* kGlobalOnly = "none: initcheck watches global memory only";

constexpr Mutant kMutants[] = {
    {"healthy_rows", kRows, "batch=2,context=300", "", "", "", "", "all: nothing is found"},
    {"missing_barrier", kRows, "batch=1,context=100", "kernels/attention/sm80_gqa_decode.cuh",
     "  store_stats(softmax, results.stats + warp * plan::kHeadsPerBlock);\n  __syncthreads();",
     "  store_stats(softmax, results.stats + warp * plan::kHeadsPerBlock);", "nobody has written", "racecheck"},
    {"ring_used_again_too_early", kRows, "batch=1,context=300", "kernels/attention/sm80_gqa_decode.cuh",
     "  __syncthreads();\n  const WarpResults results", "  const WarpResults results", "race in shared memory",
     "racecheck"},
    {"copy_not_waited_for", kRows, "batch=1,context=300", "pipeline/tile_copies_async.cuh",
     "wait_copies<kStages - 2>();", "wait_copies<kStages - 1>();", "while an asynchronous copy to it is under way",
     "racecheck"},
    {"wrong_stage", kRows, "batch=1,context=300", "kernels/attention/sm80_gqa_decode.cuh",
     "const uint32 stage = stages + fill * kStageBytes;",
     "const uint32 stage = stages + (fill + plan::kStages - 1) % plan::kStages * kStageBytes;", "nobody has written",
     "none: one warp fills and reads, and it sees no hazard"},
    {"row_beyond_the_end", kRows, "batch=1,context=101", "kernels/attention/sm80_gqa_decode.cuh",
     "offset(place, strides());\n      const bool valid = tokens_.has(first + place.row % kTileTokens);",
     "offset(place, strides());\n      const bool valid = tokens_.has(first + place.row % kTileTokens - 1);",
     "are in no allocation", "memcheck"},
    {"padding_not_written", kWords, "batch=1,context=100", "kernels/attention/sm80_gqa_decode.cuh",
     " clear_padding(stages + stage * kStageBytes);", " ;", "nobody has written", kGlobalOnly},
    {"missing_release", kRows, "batch=1,context=1024", "pipeline/split_kv.cuh", "atom.acq_rel.gpu.global.add.u32",
     "atom.relaxed.gpu.global.add.u32", "race in global memory", "none: racecheck watches shared memory only"},
    {"release_to_the_block_only", kRows, "batch=1,context=1024", "pipeline/split_kv.cuh",
     "atom.acq_rel.gpu.global.add.u32", "atom.acq_rel.cta.global.add.u32", "race in global memory",
     "none: racecheck watches shared memory only"},
    {"heads_beyond_the_last_group", kHeadGroups, "batch=1,context=100", "attention/gqa_decode_block.cuh",
     "min(plan::kHeadsPerBlock, kQueryRows - head_group * plan::kHeadsPerBlock)", "plan::kHeadsPerBlock",
     "are in no allocation", "memcheck"},
    {"shared_query_not_waited_for", kManyQueryRows, "batch=1,context=100", "kernels/attention/sm80_gqa_decode.cuh",
     "    __syncthreads();\n  } else {", "  } else {", "nobody has written", kNotRun},
    {"bank_conflicts", kRows, "batch=1,context=300", "attention/gqa_decode_lanes.h",
     "head_dim + (heads_are_rows ? 8 : 4)", "head_dim", "", "none: that is for a profiler"},
    {"element_not_stored", kRows, "batch=1,context=1024", "attention/warp_results.cuh", "if (quad > 0) return;",
     "if (quad > 0 || row == 3) return;", "nobody has written", "initcheck"},

    {"held_vector_not_stored", "gqa_decode:heads_per_kv=8,kv=fp16,query=fp16,family=sm75", "batch=1,context=300",
     "pipeline/tile_copies_registers.cuh", "for (int i = 0; i < kHeld; ++i) {\n      if (!is_idle(i))",
     "for (int i = 1; i < kHeld; ++i) {\n      if (!is_idle(i))", "nobody has written", kNotRun},
    {"scales_beyond_the_end", "gqa_decode:kv=int8_split,family=sm80", "batch=1,context=101", "kv_format/kv_scales.cuh",
     "const bool exists = tokens.has(first + lane_index() % lanes::kTileRows);", "const bool exists = true;",
     "are in no allocation", kNotRun},
    {"idle_lanes_copy", "gqa_decode:kv=fp8_e4m3,value=int4_rows,value_groups=4", "batch=1,context=1000,splits=1",
     "kv_format/kv_stage.cuh", "return vector(i, kWarpSize - 1).row >= end && vector(i, lane).row >= end;",
     "return end < 0;", "while an asynchronous copy to it is under way", kNotRun},
    {"healthy_pages", "gqa_decode:kv=fp8_e4m3,cache=paged", "batch=2,context=101,page_size=7", "", "", "", "", kNotRun},
    {"pages_beyond_the_end", "gqa_decode:cache=paged,family=sm80", "batch=1,context=101,page_size=1",
     "kernels/attention/sm80_gqa_decode.cuh", "place_ = tokens_.has(token) ? cache_.place(token) : Place{};",
     "place_ = cache_.place(token);", "are in no allocation", kNotRun},
    {"page_that_is_none", "gqa_decode:cache=paged,family=sm80", "batch=1,context=101,page_size=16",
     "kv_format/kv_paged.cuh", "return {load(table_ + index)", "return {7 + load(table_ + index)",
     "are in no allocation", kNotRun},
    {"healthy_tree", "gqa_decode:query_tokens=3,mask=tree", "batch=2,context=101,ragged=1", "", "", "", "", kNotRun},
    {"mask_beyond_its_end", "gqa_decode:query_tokens=3,mask=tree", "batch=1,context=101", "attention/query_tokens.cuh",
     "if (token < kQueryTokens) word =", "word =", "are in no allocation", kNotRun},

    {"gemm_missing_release", kGemm, "m=3,n=512,k=2048,decomposition=2,splits=2", "gemm/partial_sums.cuh",
     "atom.acq_rel.gpu.global.add.u32", "atom.relaxed.gpu.global.add.u32", "race in global memory", kNotRun},
    {"healthy_wgmma", kWgmma, kWgmmaSizes, "", "", "", "", kNotRun},
    {"wgmma_missing_proxy_fence", kWgmma, kWgmmaSizes, "kernels/gemm/sm90_gemm.cuh", "        fence_async_proxy();",
     "        ;", "without a fence.proxy.async", kNotRun},
    {"wgmma_activations_not_waited_for", kWgmma, kWgmmaSizes, "kernels/gemm/sm90_gemm.cuh",
     "wait_barrier(ring.arrived(place), place.parity);", "", "memory", kNotRun},
    {"wgmma_stage_not_waited_for", kWgmma, kWgmmaSizes, "kernels/gemm/sm90_gemm.cuh",
     "wait_barrier(ring.empty(place), place.parity ^ 1);", "", "memory", kNotRun},
    {"healthy_gemm_cluster", kWgmma, kClusterSizes, "", "", "", "", kNotRun},
    {"gemm_cluster_stage_still_read", kWgmma, kClusterSizes, "gemm/cluster_split_k.cuh",
     "wait_barrier_of_cluster(barriers.free, 0);", "", "race in shared memory", kNotRun},
    {"gemm_cluster_sums_not_waited_for", kWgmma, kClusterSizes, "gemm/cluster_split_k.cuh",
     "wait_barrier_of_cluster(barriers.sent, 0);", "", "which has ended", kNotRun},
    {"gemm_cluster_stage_released_too_soon", kWgmma, kClusterSizes, "pipeline/two_cta_cluster.cuh",
     "wait_barrier(ring.empty(place), place.parity ^ 1);", "", "race in shared memory", kNotRun},
    {"healthy_persistent", kPersistent, kPersistentSizes, "", "", "", "", kNotRun},
    {"persistent_stage_not_waited_for", kPersistent, kPersistentSizes, "kernels/gemm/sm90_persistent_gemm.cuh",
     "} else {\n        wait_barrier(ring.empty(place), place.parity ^ 1);", "} else {",
     "while an asynchronous copy to it is under way", kNotRun},
    {"persistent_copies_not_waited_for", kPersistent, kPersistentSizes, "kernels/gemm/sm90_persistent_gemm.cuh",
     "wait_barrier(ring_.full(ahead_), ahead_.parity);", "", "memory", kNotRun},
    {"persistent_released_in_one_block", kPersistent, kPersistentSizes, "kernels/gemm/sm90_persistent_gemm.cuh",
     "const int rank = work.splits_k() ? work.rank() : lane_index() % 2;", "const int rank = work.rank();", "memory",
     kNotRun},
    {"persistent_products_not_waited_for", kPersistent, kPersistentSizes, "kernels/gemm/sm90_persistent_gemm.cuh",
     "    wait_products<0>();\n    plan::Product::settle(sums);", "    plan::Product::settle(sums);",
     "no wgmma.wait_group covers it", kNotRun},
    {"persistent_outputs_not_fenced", kPersistent, kPersistentSizes, "gemm/staged_epilogue.cuh",
     "      fence_async_proxy();", "", "without a fence.proxy.async", kNotRun},
    {"persistent_staging_still_read", kPersistent, kPersistentSizes, "gemm/staged_epilogue.cuh",
     "      if (starts_store) wait_stores_read<1>();", "", "while a bulk copy from it is under way", kNotRun},
    {"healthy_divided", kPersistent, kDividedSizes, "", "", "", "", kNotRun},
    {"divided_stages_still_read", kPersistent, kDividedSizes, "gemm/cluster_exchange.cuh",
     "    wait_barrier(barriers.idle(), 0);", "", "race in shared memory", kNotRun},
    {"divided_sums_not_waited_for", kPersistent, kDividedSizes, "gemm/cluster_exchange.cuh",
     "  wait_barrier(barriers.received(warpgroup), 0);", "", "memory", kNotRun},
    {"divided_own_stages_still_read", kPersistent, kDividedSizes, "gemm/cluster_exchange.cuh",
     "  sync_threads<256>(kConsumerBarrier);", "", "without a fence.proxy.async", kNotRun},
    {"divided_sums_not_fenced", kPersistent, kDividedSizes, "gemm/cluster_exchange.cuh", "  fence_async_proxy();", "",
     "without a fence.proxy.async", kNotRun},
    {"healthy_shared", kPersistent, kSharedSizes, "", "", "", "", kNotRun},
    {"shared_sums_not_released", kPersistent, kSharedSizes, "gemm/stream_k_sums.cuh", "st.release.gpu.global.u32",
     "st.relaxed.gpu.global.u32", "after the write by block", kNotRun},
    {"shared_sums_not_acquired", kPersistent, kSharedSizes, "gemm/stream_k_sums.cuh", "ld.acquire.gpu.global.u32",
     "ld.relaxed.gpu.global.u32", "after the write by block", kNotRun},
    {"healthy_reordered", kReorders, kReordersSizes, "", "", "", "", kNotRun},
    {"reordered_slice_not_released", kReorders, kReordersSizes, "gemm/reordered_activations.cuh",
     "red.release.gpu.global.add.u32", "red.relaxed.gpu.global.add.u32", "after the write by block 0", kNotRun},
    {"reordered_slices_not_acquired", kReorders, kReordersSizes, "gemm/reordered_activations.cuh",
     "ld.acquire.gpu.global.u32", "ld.relaxed.gpu.global.u32", "after the write by block 0", kNotRun},
    {"reordered_missing_proxy_fence", kReorders, kReordersSizes, "gemm/reordered_activations.cuh",
     "    fence_async_proxy_everywhere();", "", "without a fence.proxy.async", kNotRun},
    {"reordered_slice_taken_twice", kReorders, kReordersSizes, "gemm/reordered_activations.cuh", "return before == 0;",
     "return true;", "race in global memory", kNotRun},
    {"reordered_own_slice_not_waited_for", kReorders, kReordersSizes, "gemm/reordered_activations.cuh",
     "asm volatile(\"bar.sync %0, %1;\" ::\"n\"(kStoredBarrier), \"n\"(kThreads + kWarpSize) : \"memory\");", "",
     "nobody has written", kNotRun},
    {"reordered_left_slices_not_taken", kReorders, kReordersSizes, "gemm/reordered_activations.cuh",
     "if (++polls % kPatience == 0) reorder_remaining();", "", "deadlock", kNotRun},
    {"reordered_not_waited_for", kReorders, kReordersSizes, "gemm/reordered_activations.cuh", "while (!all_done())",
     "while (false)", "nobody has written", kNotRun},
    {"healthy_held_gemm", kHeldGemm, kHeldGemmSizes, "", "", "", "", kNotRun},
    {"held_gemm_stage_still_read", kHeldGemm, kHeldGemmSizes, "kernels/gemm/sm80_gemm.cuh",
     "__syncthreads();\n      if (ahead > work_tile.first)", "if (ahead > work_tile.first)", "race in shared memory",
     kNotRun},
    {"held_gemm_word_not_stored", kHeldGemm, kHeldGemmSizes, "weight_format/packed_stage_copies.cuh",
     "for (int i = 0; i < kCopies; ++i) held_.store", "for (int i = 1; i < kCopies; ++i) held_.store",
     "nobody has written", kNotRun},
    {"healthy_intra_block_gemm", kIntraBlockGemm, kIntraBlockGemmSizes, "", "", "", "", kNotRun},
    {"intra_block_gemm_stage_still_read", kIntraBlockGemm, kIntraBlockGemmSizes, "gemm/split_k_merge.cuh",
     "if constexpr (!kApart) sync_warps();", "", "race in shared memory", kNotRun},
    {"intra_block_gemm_sums_not_waited_for", kIntraBlockGemm, kIntraBlockGemmSizes, "gemm/split_k_merge.cuh",
     "sync_warps();\n#pragma unroll 1\n  for (int fragment", "\n#pragma unroll 1\n  for (int fragment",
     "nobody has written", kNotRun},
    {"healthy_narrow_gemm", kNarrowGemm, kNarrowGemmSizes, "", "", "", "", kNotRun},
    {"narrow_gemm_does_not_wait_for_copies", kNarrowGemm, kNarrowGemmSizes, "kernels/gemm/sm90_narrow_gemm.cuh",
     "wait_barrier(ring.full(place), place.parity());", "", "memory", kNotRun},
    {"narrow_gemm_stage_still_read", kNarrowGemm, kNarrowGemmSizes, "kernels/gemm/sm90_narrow_gemm.cuh",
     "      wait_barrier(ring.empty(place), place.parity() ^ 1);\n", "", "memory", kNotRun},
    {"narrow_gemm_uses_barriers_too_early", kNarrowGemm, kNarrowGemmSizes, "kernels/gemm/sm90_narrow_gemm.cuh",
     "  wait_for_barriers();\n", "", "mbarrier", kNotRun},
    {"healthy_narrow_gemm_128", kNarrowGemm128, kNarrowGemm128Sizes, "", "", "", "", kNotRun},
    {"narrow_gemm_128_takes_the_stage_before", kNarrowGemm128, kNarrowGemm128Sizes, "kernels/gemm/sm90_narrow_gemm.cuh",
     "if constexpr (!kSameWarps) wait_barrier(ring.empty(place), place.parity() ^ 1);", "", "memory", kNotRun},
    {"healthy_narrow_slices", kNarrowGemm128, kNarrowSlicesSizes, "", "", "", "", kNotRun},
    {"narrow_slices_released_to_the_block_only", kNarrowGemm128, kNarrowSlicesSizes, "gemm/partial_sums.cuh",
     "atom.acq_rel.gpu.global.add.u32", "atom.acq_rel.cta.global.add.u32", "race in global memory", kNotRun},
    {"gemm_release_to_the_block_only", kGemm, "m=3,n=512,k=2048,decomposition=3", "gemm/partial_sums.cuh",
     "atom.acq_rel.gpu.global.add.u32", "atom.acq_rel.cta.global.add.u32", "race in global memory", kNotRun},

    {"healthy_bulk", kBulk, kSplit, "", "", "", "", kNoMbarriers},
    {"bulk_not_waited_for", kBulk, kSplit, "kernels/attention/sm90_gqa_decode.cuh",
     "wait_barrier(rings.full(place), place.parity);", ";", "while an asynchronous copy to it is under way",
     kNoMbarriers},
    {"bulk_into_a_used_stage", kBulk, kSplit, "pipeline/producer_warps.cuh",
     "wait_barrier(rings.empty(place), place.parity ^ 1);", "", "mbarrier", kHangs},
    {"bulk_too_few_bytes", kBulk, kSplit, "pipeline/tma_producer.cuh",
     "expect_bytes(full, 2 * kHalfStage);\n  const int batch",
     "expect_bytes(full, 2 * kHalfStage - 16);\n  const int batch", "bytes", kHangs},
    {"bulk_missing_zeros", kBulk, "batch=1,context=395", "pipeline/vector_copy_producer.cuh",
     "copy_async<16>(place, key, tokens.has(token));", "if (tokens.has(token)) copy_async<16>(place, key);",
     "nobody has written", kGlobalOnly},
    {"healthy_bulk_pages", kBulkPages, "batch=2,context=801", "", "", "", "", kNotRun},
    {"bulk_pages_beyond_the_end", kBulkPages, "batch=1,context=801", "pipeline/tma_producer.cuh",
     "if (token >= static_cast<uint32>(item.length)) return 0;", "", "are in no allocation", kNotRun},
    {"bulk_page_that_is_none", kBulkPages, "batch=1,context=801", "pipeline/tma_producer.cuh",
     "return args_.page_table[", "return -1 - args_.page_table[", "is wholly outside of the tensor map", kNotRun},
    {"bulk_pages_of_even_boxes_only", kBulkPages, "batch=1,context=801", "pipeline/tma_producer.cuh",
     "(granule & 1) != warp >> 1", "(granule & 1) != 0 || warp > 1", "mbarrier", kNotRun},
    {"bulk_scales_beyond_the_end", "gqa_decode:kv=int8_split,family=sm90", "batch=1,context=101",
     "pipeline/scale_loads.cuh", "fetch_row(rows_, place, tokens_.has(token))", "fetch_row(rows_, place, true)",
     "are in no allocation", kNotRun},
    {"healthy_bulk_query_rows", kManyQueryTokens, "batch=1,context=395", "", "", "", "", kNotRun},
    {"bulk_query_rows_without_their_rows", kManyQueryTokens, "batch=1,context=395", "kv_format/warp_rows.cuh",
     "warp_index() / kSharers", "warp_index()", "nobody has written", kNotRun},
    {"healthy_unaligned_rows", kUnalignedRows, "batch=2,context=395,kv_heads=3", "", "", "", "", kNotRun},
    {"unaligned_rows_missing_zeros", kUnalignedRows, "batch=1,context=395", "pipeline/vector_copy_producer.cuh",
     "copy_async_first(place, keys.row(token) + at.byte, size);",
     "if (size > 0) copy_async_first(place, keys.row(token) + at.byte, size);", "nobody has written", kNotRun},
    {"unaligned_rows_beyond_the_end", kUnalignedRows, "batch=1,context=395", "pipeline/vector_copy_producer.cuh",
     "const int size = max(0, min(bytes, 16));", "const int size = 16;", "are in no allocation", kNotRun},
    {"unaligned_vectors_missing_zeros", kUnalignedRows, "batch=1,context=395,kv_heads=3",
     "pipeline/vector_copy_producer.cuh", "copy_async<kBytes>(dst + at, key, tokens.has(token));",
     "if (tokens.has(token)) copy_async<kBytes>(dst + at, key);", "nobody has written", kNotRun},
    {"healthy_unaligned_window", kUnalignedWindow, "batch=1,context=395,kv_heads=3,window=37,kept_tokens=3", "", "", "",
     "", kNotRun},
    {"unaligned_vectors_before_the_window", kUnalignedWindow, "batch=1,context=395,kv_heads=3,window=37,kept_tokens=3",
     "pipeline/vector_copy_producer.cuh", "copy_async<kBytes>(dst + at, key, tokens.has(token));",
     "copy_async<kBytes>(dst + at, key, token < tokens.count);", "nobody has written", kNotRun},
    {"healthy_by_heads", kByHeads, "batch=2,context=395,ragged=1", "", "", "", "", kNotRun},
    {"by_heads_vectors_not_fenced", kByHeads, "batch=1,context=395", "kernels/attention/sm90_gqa_decode.cuh",
     "if (!is_copied_by_tma(args, tokens_in(args, item, stage))) fence_async_proxy();", "",
     "without a fence.proxy.async", kNotRun},
    {"by_heads_values_not_waited_for", kByHeads, "batch=1,context=395", "kv_format/kv_rows16_by_heads.cuh",
     "    wait_products<0>();\n#pragma unroll", "#pragma unroll", "wgmma.mma_async", kNotRun},
    {"work_items_do_not_synchronise", kBulk, kManyItems, "pipeline/merge_slices.cuh",
     "  sync_warps();\n  return owners.count", "  return owners.count", "is not ordered", "racecheck"},

    {"cluster_stages_still_read", kBulk, kSplit, "pipeline/cluster_merge.cuh",
     "wait_barrier_of_cluster(barriers.free, 0);", "", "race in shared memory", kNotRun},
    {"cluster_sums_not_waited_for", kBulk, kSplit, "pipeline/cluster_merge.cuh", "partials.wait();", "",
     "while an asynchronous copy to it is under way", kNotRun},
    {"cluster_stages_released_too_soon", kBulk, kSplit, "pipeline/two_cta_cluster.cuh",
     "wait_barrier(ring.empty(place), place.parity ^ 1);", "", "race in shared memory", kNotRun},
    {"cluster_barriers_not_fenced", kBulk, kSplit, "core/bulk_copies.cuh", "fence.mbarrier_init.release.cluster;", "",
     "after the write by block", kNotRun},
    {"slice_not_released", kBulkHeads, kManySplits, "pipeline/merge_slices.cuh", "atom.acq_rel.gpu.global.add.u64",
     "atom.relaxed.gpu.global.add.u64", "race in global memory", kNotRun},
    {"deferred_partial_not_acquired", kBulk, "batch=5,context=1700,splits=3", "pipeline/merge_slices.cuh",
     "if (is_deferred && merged.own != SlicesToMerge::kNone) fence_gpu();", "", "race in global memory", kNotRun},

    {"append_scales_beyond_the_end", "kv_append:kv=int8_split", "batch=2,tokens=7,ragged=1",
     "kv_format/rows_contiguous.cuh", "position >= 0 && position < cache.max_length", "position >= 0",
     "are in no allocation", kNotRun},
    {"healthy_append", kAppend, "batch=2,tokens=7,ragged=1", "", "", "", "", kNotRun},
    {"append_beyond_the_end", kAppend, "batch=2,tokens=7,ragged=1", "kv_format/rows_contiguous.cuh",
     "position >= 0 && position < cache.max_length", "position >= 0", "are in no allocation", kNotRun},
    {"append_before_the_beginning", "kv_append", "batch=1,tokens=7,scattered=1", "kv_format/rows_contiguous.cuh",
     "position >= 0 && position < cache.max_length", "position < cache.max_length", "are in no allocation", kNotRun},
    {"append_rows_beyond_the_last", "kv_append", "batch=1,tokens=3", "kernels/attention/kv_append.cuh",
     "const bool stored = index < args.rows && found.exists;", "const bool stored = found.exists;",
     "race in global memory", kNotRun},
    {"append_to_a_page_that_is_none", "kv_append:cache=paged", "batch=2,tokens=30,context=40,scattered=1",
     "kv_format/rows_paged.cuh", "page >= 0 && page < cache.pages", "true", "are in no allocation", kNotRun},
    {"page_table_beyond_its_end", "kv_append:cache=paged", "batch=1,tokens=30,context=40,scattered=1",
     "kv_format/rows_paged.cuh", "if (position < 0 || position >= cache.max_length) return", "if (position < 0) return",
     "are in no allocation", kNotRun},
    {"gather_beyond_the_end", "kv_gather", "batch=2,context=7,ragged=1", "kernels/attention/kv_gather.cuh",
     "if (!found.exists) return;", "", "are in no allocation", kNotRun},

    {"healthy_merge", "merge", "parts=5,rows=7,heads=3,lse=1", "", "", "", "", kNotRun},
    {"merge_rows_beyond_the_last", "merge", "parts=5,rows=7,heads=3,lse=1", "kernels/attention/merge.cuh",
     "if (index >= args.items) return;", "", "are in no allocation", kNotRun},
    {"merge_parts_beyond_the_last", "merge", "parts=5,rows=7,heads=3,lse=1", "kernels/attention/merge.cuh",
     "if (first + i < args.parts) {", "if (true) {", "are in no allocation", kNotRun},

    {"copy_beyond_the_end", "stream_copy", "bytes=4112", "kernels/stream/stream_copy.cuh",
     "if (first + i * stride < args.quads) __stcs", "__stcs", "are in no allocation", kNotRun},
    {"read_beyond_the_end", "stream_read", "bytes=4112", "kernels/stream/stream_read.cuh",
     "first + i * stride < quads ? __ldcs(source + first + i * stride) : make_uint4(0, 0, 0, 0)",
     "__ldcs(source + first + i * stride)", "are in no allocation", kNotRun},
    {"sum_not_set_before_it_is_added_to", "stream_read", "bytes=4112", "kernels/stream/stream_read.cuh",
     "if (threadIdx.x == 0) block_sum = 0;", "", "nobody has written", kNotRun},

    {"healthy_quantise", "w4_quantize:format=awq,group_size=32", "n=24,k=96", "", "", "", "", kNotRun},
    {"quantise_rows_beyond_the_last", "w4_quantize", "n=24,k=256", "kernels/quantisation/w4_quantize.cuh",
     "const bool exists = first_n < args.n && first_k < args.k;", "const bool exists = first_k < args.k;",
     "are in no allocation", kNotRun},
    {"quantise_columns_beyond_the_last", "w4_quantize:group_size=32", "n=24,k=96",
     "kernels/quantisation/w4_quantize.cuh", "const bool exists = first_n < args.n && first_k < args.k;",
     "const bool exists = first_n < args.n;", "are in no allocation", kNotRun},

    {"healthy_rows_of_quantize", "quantize", "rows=5,columns=3072", "", "", "", "", kNotRun},
    {"row_maximum_not_waited_for", "quantize", "rows=2,columns=3072", "quantisation/row_threads.cuh",
     "    __syncthreads();\n", "", "nobody has written", kNotRun},
    {"quantize_columns_beyond_the_last", "quantize", "rows=3,columns=1040", "quantisation/row_threads.cuh",
     "return exists() && column(i) < shape_.columns;", "return exists();", "are in no allocation", kNotRun},

    {"healthy_layouts", "convert_layout:to=col4_4r2_8c", "rows=24,columns=96", "", "", "", "", kNotRun},
    {"convert_rows_beyond_the_last", "convert_layout", "rows=5,columns=64", "quantisation/layout_patches.cuh",
     "if (patch.row(i) >= rows) continue;", "", "are in no allocation", kNotRun},
    {"convert_blocks_beyond_the_last", "convert_layout:from=col32,to=row", "rows=16,columns=96",
     "quantisation/layout_patches.cuh", "block_ = tile % static_cast<uint32>(blocks);", "block_ = tile;",
     "are in no allocation", kNotRun},

    {"dequantize_rows_beyond_the_last", "dequantize:residual=true", "rows=5,columns=96",
     "kernels/quantisation/dequantize.cuh", "return i < args.rows_per_thread && first_row + i < args.rows;",
     "return i < args.rows_per_thread;", "are in no allocation", kNotRun},

    {"healthy_gemm_of_bytes", "w8a8_gemm:tile_m=8", "m=3,n=24,k=144", "", "", "", "", kNotRun},
    {"bytes_beyond_the_end_of_a_row", "w8a8_gemm:tile_m=8", "m=3,n=24,k=144", "byte_gemm/weights.cuh",
     "const bool valid = column >= 0 && (kAllK || k_ < k_left);", "const bool valid = column >= 0;",
     "are in no allocation", kNotRun},
    {"healthy_persistent_bytes", "w8a8_gemm:output=int8,tile_m=16", "m=3,n=24,k=144", "", "", "", "", kNotRun},
    {"persistent_bytes_beyond_the_last_row", "w8a8_gemm:output=int8,tile_m=16", "m=3,n=24,k=144",
     "gemm/staged_epilogue.cuh", "if (token >= args_.m || first + byte", "if (first + byte", "are in no allocation",
     kNotRun},
    {"second_output_beyond_the_last_row", "w8a8_gemm:second_output=int8,tile_m=16", "m=3,n=24,k=144",
     "gemm/staged_epilogue.cuh", "if (token >= args_.m || first + 8 * vector", "if (first + 8 * vector",
     "are in no allocation", kNotRun},
    {"weight_sums_beyond_the_end_of_a_row", "weight_sums", "n=8,k=144", "kernels/quantisation/weight_sums.cuh",
     "at < args.k;", "at <= args.k;", "are in no allocation", kNotRun},

    {"gate_rows_beyond_the_last", "gate_quantize:scale=tensor", "rows=3,columns=512", "quantisation/row_threads.cuh",
     "bool exists() const { return row_ < shape_.rows; }", "bool exists() const { return true; }",
     "are in no allocation", kNotRun},
    {"norm_sums_not_waited_for", "norm_quantize:output=unquantised", "rows=2,columns=3072",
     "quantisation/row_threads.cuh", "    __syncthreads();\n", "", "nobody has written", kNotRun},
    {"norm_columns_beyond_the_last", "norm_quantize:residual=true", "rows=3,columns=1040",
     "quantisation/row_threads.cuh", "return exists() && column(i) < shape_.columns;", "return exists();",
     "are in no allocation", kNotRun},

    {"healthy_pipeline", kPipeline, "", "", "", "", "", kNoMbarriers},
    {"wrong_phase", kPipeline, "", "pipeline.cuh", "wait(full + 8 * stage, phase);",
     "wait(full + 8 * stage, phase ^ 1);", "nobody has written", kHangs},
    {"stage_not_waited_for", kPipeline, "", "pipeline.cuh", "wait(empty + 8 * stage, phase ^ 1);", ";",
     "arrivals at an mbarrier that expects 0 more of 1", kNoMbarriers},
    {"stage_given_back_too_early", kPipeline, "", "pipeline.cuh", "    wait(full + 8 * stage, phase);\n",
     "    wait(full + 8 * stage, phase);\n"
     "    if (threadIdx.x % 32 == 0) asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" ::\"r\"(empty + 8 * "
     "stage) : "
     "\"memory\");\n"
     "    if (tile >= 0) { sum.x += ring[stage * kTileBytes / 16 + threadIdx.x - 32].x; continue; }\n",
     "race in shared memory", kNoMbarriers},
    {"too_many_bytes_expected", kPipeline, "", "pipeline.cuh",
     "\"r\"(full + 8 * stage), \"r\"(kTileBytes) : \"memory\");\n    asm",
     "\"r\"(full + 8 * stage), \"r\"(kTileBytes + 16) : \"memory\");\n    asm", "deadlock", kHangs},
    {"missing_proxy_fence", kPipeline, "", "pipeline.cuh",
     "asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");", "", "without a fence.proxy.async",
     "none: it does not watch proxies"},
    {"consumers_do_not_meet", kPipeline, "", "pipeline.cuh", "asm volatile(\"bar.sync 1, 64;\" ::: \"memory\");", "",
     "nobody has written", kNoMbarriers},
    {"bulk_copy_beyond_the_end", kPipeline, "", "pipeline.cuh", "args.input + tile * 256",
     "args.input + tile * 256 + 4", "are in no allocation", "memcheck"},
};

/// Owns device memory.
class Memory {
 public:
  Memory(runtime::Device& device, std::size_t bytes)
      : device_(device), data_(device.allocate(std::max<std::size_t>(bytes, 1))) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    try {
      device_.release(data_);
    } catch (const Failure&) {  // after a device fault nothing can be freed
    }
  }
  void* data() const { return data_; }

 private:
  runtime::Device& device_;
  void* data_;
};
using Memories = std::vector<std::unique_ptr<Memory>>;

std::string& text_of(codegen::KernelSource& source, std::string_view file) {
  if (source.template_name == file) return source.template_text;
  for (codegen::Header& header : source.headers) {
    if (header.name == file) return header.text;
  }
  throw Failure(Status::internal, std::string(file), "the kernel has no such template");
}

ops::Numbers numbers_of(std::string_view text) {
  ops::Numbers numbers;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    const std::size_t equals = item.find('=');
    double value = 0;
    std::from_chars(item.data() + equals + 1, item.data() + item.size(), value);
    numbers[std::string(item.substr(0, equals))] = value;
    text.remove_prefix(std::min(text.size(), item.size() + 1));
  }
  return numbers;
}

std::shared_ptr<runtime::Kernel> prepared(runtime::Engine& engine, runtime::Device& device,
                                          codegen::KernelSource source, const Mutant& mutant) {
  plant(mutant, source);
  source.code = device.facts().code;
  auto kernel = engine.get(source);
  kernel->prepare(device);
  return kernel;
}

int number_in(const ops::Numbers& numbers, const std::string& name) {
  const auto at = numbers.find(name);
  return at == numbers.end() ? 0 : static_cast<int>(at->second);
}

/// Copies a tensor to the device. For a single sequence with a window, the cache rows that the window hides stay
/// unwritten.
void upload(runtime::Device& device, void* to, const check::Tensor& tensor, const ops::Numbers& sizes) {
  const bool is_cache = std::string_view(tensor.name) == "key" || std::string_view(tensor.name) == "value";
  if (!is_cache || number_in(sizes, "window") == 0 || number_in(sizes, "batch") != 1) {
    device.copy_to_device(to, tensor.data, tensor.bytes(), nullptr);
    return;
  }
  const auto tokens = static_cast<std::size_t>(number_in(sizes, "context"));
  const std::size_t row = tensor.bytes() / tokens;
  const std::size_t kept = row * static_cast<std::size_t>(number_in(sizes, "kept_tokens"));
  const std::size_t first = tensor.bytes() - row * static_cast<std::size_t>(number_in(sizes, "window"));
  const auto* from = static_cast<const char*>(tensor.data);
  if (kept > 0) device.copy_to_device(to, from, kept, nullptr);
  device.copy_to_device(static_cast<char*>(to) + first, from + first, tensor.bytes() - first, nullptr);
}

void run_operator(const Mutant& mutant, runtime::Engine& engine, runtime::Device& device) {
  const ops::Operator& op = ops::find_operator(mutant.kernel);
  const std::string descriptor = op.canonical(mutant.kernel);
  const auto specialisation = op.specialise(descriptor, *device.facts().architecture);
  const ops::Numbers sizes = numbers_of(mutant.sizes);
  const auto problem = check::find_problems(mutant.kernel).random(descriptor, sizes, 1);
  Memories memories;
  std::vector<void*> addresses;
  for (const check::Tensor& tensor : problem->inputs()) {
    memories.push_back(std::make_unique<Memory>(device, tensor.bytes()));
    addresses.push_back(memories.back()->data());
    upload(device, addresses.back(), tensor, sizes);
  }
  for (const check::Tensor& tensor : problem->outputs()) {
    memories.push_back(std::make_unique<Memory>(device, tensor.bytes()));
    addresses.push_back(memories.back()->data());
  }
  const std::vector<std::byte> arguments = problem->arguments(addresses);
  const std::size_t bytes = specialisation->workspace_bytes(arguments.data(), device.facts());
  const Memory workspace(device, bytes);
  // Memory that the kernel itself must write stays uninitialised.
  device.fill_zero(workspace.data(), std::min(bytes, ops::kWorkspaceCounterBytes), nullptr);
  ops::Launch made = specialisation->encode(arguments.data(), workspace.data(), bytes, device.facts());
  const auto kernel = prepared(engine, device, specialisation->source(), mutant);
  ops::encode_maps(*kernel, device, made);
  ops::launch(*kernel, device, made, false, nullptr);
  device.synchronise(nullptr);
}

void run_pipeline(const Mutant& mutant, runtime::Engine& engine, runtime::Device& device) {
  constexpr int kTiles = 7;
  constexpr std::size_t kTileBytes = 1024;
  const std::vector<float> input(kTiles * kTileBytes / sizeof(float), 1.f);
  const Memory in(device, kTiles * kTileBytes);
  const Memory out(device, kTileBytes);
  device.copy_to_device(in.data(), input.data(), kTiles * kTileBytes, nullptr);
  struct {
    const void* input;
    void* output;
    int tiles;
    int padding;
  } const arguments = {in.data(), out.data(), kTiles, 0};
  const codegen::KernelSource source =
      codegen::assemble(kPipeline, {"pipeline.cuh", kPipelineKernel}, "", *device.facts().architecture, kPipeline,
                        {.threads = 96, .dynamic_shared_memory = 0}, codegen::HeaderLibrary({}));
  prepared(engine, device, source, mutant)
      ->launch(device, {.grid = {1, 1, 1}, .threads = 96, .dynamic_shared_memory = 0},
               std::as_bytes(std::span(&arguments, 1)), nullptr);
  std::vector<float> output(kTileBytes / sizeof(float));
  device.copy_to_host(output.data(), out.data(), kTileBytes, nullptr);
  device.synchronise(nullptr);
  if (std::any_of(output.begin(), output.end(), [](float value) { return value != kTiles; }))
    throw Failure(Status::device_error, "the pipeline", "its sums are wrong");
}

}  // namespace

std::span<const Mutant> mutants() { return kMutants; }

const Mutant& find_mutant(std::string_view name) {
  for (const Mutant& mutant : kMutants) {
    if (mutant.name == name) return mutant;
  }
  throw Failure(Status::invalid_argument, fmt::format("mutant \"{}\"", name), "there is none of this name");
}

void plant(const Mutant& mutant, codegen::KernelSource& source) {
  if (*mutant.file == 0) return;
  std::string& text = text_of(source, mutant.file);
  const std::size_t at = text.find(mutant.from);
  if (at == std::string::npos || text.find(mutant.from, at + 1) != std::string::npos) {
    throw Failure(Status::internal, fmt::format("mutant {}", mutant.name),
                  fmt::format("\"{}\" is not once in {}", mutant.from, mutant.file), "mend the mutant");
  }
  text.replace(at, std::strlen(mutant.from), mutant.to);
}

void run_mutant(const Mutant& mutant, runtime::Engine& engine, runtime::Device& device) {
  const runtime::CurrentDevice current(device);
  if (std::string_view(mutant.kernel) == kPipeline) return run_pipeline(mutant, engine, device);
  run_operator(mutant, engine, device);
}

}  // namespace cubit::tests
