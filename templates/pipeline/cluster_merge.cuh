// Merge of a sequence whose two blocks form a 2-CTA cluster: partial results travel through distributed shared memory,
// without the workspace and without counters.
//
// The path applies when both blocks of the cluster have no other work. (A launch requests a workspace all the same,
// because the host does not know whether the lengths on the device lead to clusters.)
//
// Each block merges half of the channels. A block sums its warps' results for the other half and sends the sums to the
// other block. The sums overwrite pipeline stages of the receiving block (two_cta_cluster.cuh): [rows][quads of half]
// float4, followed by [rows] float2.
#pragma once

#include "attention/warp_results.cuh"
#include "pipeline/two_cta_cluster.cuh"

namespace cubit {

/// Partial results that one block of the cluster sends to the other.
class ClusterPartials {
 public:
  static constexpr int kQuadsOfHalf = kQuads / static_cast<int>(kClusterBlocks);
  static_assert(!plan::kMergesInCluster ||
                kRowWarps * plan::kHeadsPerBlock * (16 * kQuadsOfHalf + 8) <= plan::kStages * kStageBytes);

  /// `stages` and `sent` are shared-memory addresses, equal in both blocks.
  __device__ __forceinline__ ClusterPartials(uint32 stages, uint32 sent, const Heads& heads)
      : outputs_(stages), stats_(stages + 16 * kQuadsOfHalf * heads.rows()), sent_(sent) {}

  /// Sends a partial result to the other block.
  __device__ __forceinline__ void send_sum(int row, int quad, const Combined& result) const {
    const uint32 there = address_in_peer(sent_);
    send(address_in_peer(output_at(row, quad)), result.output, there);
    if (quad == 0) send(address_in_peer(stats_ + 8 * row), make_float2(result.reference, result.sum), there);
  }
  /// Announces how many bytes the other block will send to this one. One thread calls the function, before or after the
  /// data arrive.
  __device__ __forceinline__ void expect(const Heads& heads) const {
    expect_bytes(sent_, heads.span * heads_in(heads.head_group) * (16 * kQuadsOfHalf + 8));
  }
  __device__ __forceinline__ void wait() const { wait_barrier_of_cluster(sent_, 0); }
  /// Loads a partial result that the other block has sent.
  __device__ __forceinline__ Combined load(int row, int quad) const {
    const float2 stat = load_shared2(stats_ + 8 * row);
    return {load_shared4(output_at(row, quad)), stat.x, stat.y};
  }

 private:
  __device__ __forceinline__ uint32 output_at(int row, int quad) const {
    return outputs_ + 16 * (row * kQuadsOfHalf + quad);
  }

  uint32 outputs_;
  uint32 stats_;
  uint32 sent_;
};

/// Work item of the merge: one row and four channels (a quad) of one half. Eight lanes, which load 128 bytes together,
/// work on the same row, because the data of two rows may lie in the same banks.
struct ClusterItem {
  static constexpr int kOfRow = (ClusterPartials::kQuadsOfHalf + 7) / 8 * 8;

  int row;
  int quad;  // within the half
  bool exists;

  static __device__ __forceinline__ ClusterItem of(const Heads& heads, int item) {
    const int row = item / kOfRow;
    const int quad = item % kOfRow;
    return {row, quad,
            row < heads.rows() && row % plan::kHeadsPerBlock < heads_in(heads.head_group) &&
                quad < ClusterPartials::kQuadsOfHalf};
  }
};

/// Merges the sequence of a cluster. All consumer warps of both blocks call the function as their last step, after
/// storing their results.
__device__ __forceinline__ void merge_in_cluster(const GqaDecodeArguments& args, const Heads& heads,
                                                 const WarpResults& results, uint32 stages, ClusterBarriers barriers) {
  const uint32 rank = rank_in_cluster();
  const int own_first = ClusterPartials::kQuadsOfHalf * static_cast<int>(rank);
  const int other_first = ClusterPartials::kQuadsOfHalf - own_first;
  const int items = heads.rows() * ClusterItem::kOfRow;
  const ClusterPartials partials(stages, barriers.sent, heads);
  const auto thread = static_cast<int>(thread_index());
  if (thread == 0) partials.expect(heads);
  wait_barrier_of_cluster(barriers.free, 0);
  // The sending loop starts at the last thread. If a half needs at most half of the threads, the first threads begin
  // with the block's own half at once.
#pragma unroll 1
  for (int first = kThreads - 1 - thread; first < items; first += kThreads) {
    const ClusterItem item = ClusterItem::of(heads, first);
    if (item.exists)
      partials.send_sum(item.row, item.quad, combine_warps(results, heads, item.row, other_first + item.quad));
  }
#pragma unroll 1
  for (int own = thread; own < items; own += kThreads) {
    const ClusterItem item = ClusterItem::of(heads, own);
    if (!item.exists) continue;
    const Combined sum = combine_warps(results, heads, item.row, own_first + item.quad);
    partials.wait();
    // Adds in the order of the blocks, so that both halves of a row use bitwise the same denominator.
    const Combined other = partials.load(item.row, item.quad);
    const Combined& before = rank == 0 ? sum : other;
    const Combined& after = rank == 0 ? other : sum;
    const float2 stat[2] = {make_float2(before.reference, before.sum), make_float2(after.reference, after.sum)};
    const float4 value[2] = {before.output, after.output};
    Combined result = nothing();
    add(result, stat, value);
    finish_row(args, heads, item.row, own_first + item.quad, result);
  }
}

}  // namespace cubit
