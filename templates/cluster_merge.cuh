// Work split: the blocks of a sequence are one cluster. Each merges the results of its own warps, then every block takes
// a slice of the outputs and reads the others' from their shared memory. No workspace, no counter, nothing to be last.
//
// Where the cluster has n blocks, n neighbouring lanes hold the n parts of four channels and add them up by shuffles, in
// an order that depends on nothing but n.
//
// PTX ISA: "barrier.cluster", "mapa", "ld.shared::cluster".
#pragma once

#include "gqa_decode_block.cuh"

namespace cubit {

__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Where `address` of this block's shared memory lies in that of the cluster's block `rank`.
__device__ __forceinline__ uint32 peer_address(uint32 address, uint32 rank) {
  uint32 peer;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(address), "r"(rank));
  return peer;
}

__device__ __forceinline__ float4 load_peer4(uint32 address) {
  float4 value;
  asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}
__device__ __forceinline__ float2 load_peer2(uint32 address) {
  float2 value;
  asm volatile("ld.shared::cluster.v2.f32 {%0,%1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address) : "memory");
  return value;
}

/// The parts of `blocks` neighbouring lanes as one, in all of them. `blocks` is a power of two.
__device__ __forceinline__ void add_parts(Combined& part, uint32 blocks) {
  float reference = part.reference;
  for (uint32 distance = 1; distance < blocks; distance *= 2) {
    reference = maximum(reference, __shfl_xor_sync(kFullWarp, reference, distance));
  }
  scale(part, exp2_fast(part.reference - reference));
  part.reference = reference;
  for (uint32 distance = 1; distance < blocks; distance *= 2) {
    part.sum += __shfl_xor_sync(kFullWarp, part.sum, distance);
    part.output.x += __shfl_xor_sync(kFullWarp, part.output.x, distance);
    part.output.y += __shfl_xor_sync(kFullWarp, part.output.y, distance);
    part.output.z += __shfl_xor_sync(kFullWarp, part.output.z, distance);
    part.output.w += __shfl_xor_sync(kFullWarp, part.output.w, distance);
  }
}

/// The cluster's blocks are those of a sequence and head group: block `rank` of `blocks`, a power of two. All of them come
/// here, those without tokens with sums of zero. The block's own result replaces that of its warp 0, its stats follow
/// those of the warps.
__device__ __forceinline__ void merge_cluster(const GqaDecodeArguments& args, int batch, int kv_head, int head_group,
                                              uint32 rank, uint32 blocks, const WarpResults& results) {
  constexpr int kQuads = plan::kHeadDim / 4;
  constexpr int kItems = plan::kHeadsPerBlock * kQuads;
  constexpr uint32 kThreads = plan::kWarps * kWarpSize;
  float2* const own_stats = results.stats + plan::kWarps * plan::kHeadsPerBlock;
  const Parts warps = parts_of(results);
#pragma unroll 1
  for (uint32 item = threadIdx.x; item < kItems; item += kThreads) {
    const int head = static_cast<int>(item / kQuads);
    const int quad = static_cast<int>(item % kQuads);
    const Combined combined = combine(warps, head, quad);
    const uint32 own = shared_address(results.outputs + head * kMergePitch + 4 * quad);
    store_shared(own, combined.output);  // access: stores of the block's outputs
    if (quad == 0) own_stats[head] = make_float2(combined.reference, combined.sum);
  }
  cluster_barrier();
  const uint32 items = heads_in(head_group) * kQuads;
  const uint32 slice = (items + blocks - 1) / blocks;
  const uint32 part = threadIdx.x % blocks;
  const uint32 outputs = peer_address(shared_address(results.outputs), part);
  const uint32 stats = peer_address(shared_address(own_stats), part);
  const uint32 per_step = kThreads / blocks;
#pragma unroll 1
  for (uint32 step = 0; step < slice; step += per_step) {  // whole warps: the lanes of an item are neighbours
    const uint32 in_slice = step + threadIdx.x / blocks;
    const uint32 item = rank * slice + in_slice;
    const bool valid = in_slice < slice && item < items;
    const uint32 head = valid ? item / kQuads : 0;
    const uint32 quad = valid ? item % kQuads : 0;
    const float2 stat = load_peer2(stats + 8 * head);
    Combined combined{load_peer4(outputs + 4 * (head * kMergePitch + 4 * quad)), stat.x, stat.y};
    add_parts(combined, blocks);
    if (valid && part == 0) {
      finish(args, batch, first_head(kv_head, head_group) + static_cast<int>(head), 4 * static_cast<int>(quad),
             combined);
    }
  }
  cluster_barrier();  // nobody leaves while others read its memory
}

}  // namespace cubit
