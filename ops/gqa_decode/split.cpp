// How many blocks take a sequence, and whether they are one cluster: from host-side bounds and the device alone.
//
// Family sm80's model stands at choose_splits. Family sm90's: an SM takes bytes at a fixed rate, whoever of its blocks
// asks for them, so the busiest SM decides; what is not bytes is latency, counted as the bytes that it costs. The rate and
// the latencies are estimates for an H200 that nothing has confirmed yet (docs/performance/gqa_decode.md).
#include <cubit/gqa_decode.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/argument_checks.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops::gqa_decode {
namespace {

constexpr double kBytesPerMicrosecond = 35e3;                   // of one SM: 4.7 TB/s over 132 of them
constexpr double kStart = 1.0 * kBytesPerMicrosecond;           // a wave of blocks begins: query, first tiles
constexpr double kClusterMerge = 2.0 * kBytesPerMicrosecond;    // two barriers, one load of a peer's memory
constexpr double kWorkspaceMerge = 4.0 * kBytesPerMicrosecond;  // stores, a fence, an atomic, loads
constexpr std::int64_t kCounters = kWorkspaceCounterBytes / sizeof(unsigned);

class Model {
 public:
  Model(const Plan& plan, std::int64_t sequences, int max_length, const runtime::DeviceFacts& device)
      : plan_(plan),
        sequences_(sequences),
        chunks_((max_length + plan.chunk_tokens() - 1) / plan.chunk_tokens()),
        processors_(device.multiprocessors) {}

  int chunks() const { return chunks_; }
  /// The most splits with which no SM has more than `per_processor` blocks.
  std::int64_t splits_for(int per_processor) const { return per_processor * processors_ / sequences_; }

  double cost(const Split& split) const {
    const std::int64_t busiest = (sequences_ * split.splits + processors_ - 1) / processors_;
    const std::int64_t waves = (busiest + plan_.blocks_per_sm - 1) / plan_.blocks_per_sm;
    const int share = (chunks_ + split.splits - 1) / split.splits;
    const double chunk_bytes = 2.0 * plan_.chunk_tokens() * plan_.descriptor.row_bytes();
    const double bytes = static_cast<double>(busiest) * share * chunk_bytes;
    return bytes + static_cast<double>(waves) * kStart + merge(split);
  }

 private:
  double merge(const Split& split) const {
    if (split.splits == 1) return 0;
    if (split.clustered) return kClusterMerge;
    return kWorkspaceMerge + 4.0 * plan_.heads_per_block * plan_.descriptor.head_dim * split.splits;
  }

  const Plan& plan_;
  std::int64_t sequences_;
  int chunks_;
  std::int64_t processors_;
};

void check_request(const Plan& plan, const cubit_gqa_decode_arguments& arguments) {
  const bool clusters = plan.cluster_blocks > 1;
  require_argument(arguments.splits >= 0 && arguments.splits <= kMostSplits, "splits", "it must be from 0 to 256",
                   arguments.splits);
  require_argument(arguments.merge >= CUBIT_MERGE_AUTO && arguments.merge <= CUBIT_MERGE_CLUSTER, "merge",
                   "it must be CUBIT_MERGE_AUTO, _WORKSPACE or _CLUSTER", arguments.merge);
  if (arguments.merge != CUBIT_MERGE_CLUSTER) return;
  require_argument(clusters, "merge", "this kernel's family has no clusters", arguments.merge);
  require_argument(std::has_single_bit(static_cast<unsigned>(std::max(arguments.splits, 1))) &&
                       arguments.splits <= plan.cluster_blocks,
                   "splits", "of a cluster it must be a power of two, and at most what `cubit explain` says",
                   arguments.splits);
}

Split cheapest(const Plan& plan, const cubit_gqa_decode_arguments& arguments, std::int64_t sequences,
               const runtime::DeviceFacts& device) {
  const Model model(plan, sequences, arguments.max_length, device);
  Split best;
  double best_cost = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Split& split) {
    const double cost = model.cost(split);
    if (cost >= best_cost) return;
    best = split;
    best_cost = cost;
  };
  consider({});
  const int most_clustered = arguments.merge == CUBIT_MERGE_WORKSPACE ? 1 : plan.cluster_blocks;
  for (int splits = 2; splits <= std::min(most_clustered, model.chunks()); splits *= 2) consider({splits, true});
  const bool has_counters = sequences <= kCounters && arguments.merge != CUBIT_MERGE_CLUSTER;
  const int most = has_counters ? std::min(model.chunks(), kMostSplits) : 1;
  for (int per_processor = 1; per_processor <= plan.blocks_per_sm; ++per_processor) {
    const auto splits = static_cast<int>(std::min<std::int64_t>(model.splits_for(per_processor), most));
    if (splits > 1) consider({splits, false});
  }
  return best;
}

}  // namespace

/// Time is modelled in chunks: waves of blocks, each of its chunks and a fixed part, then one block that reads all
/// partial results of its sequence. For a number of waves the best splits are either as many as fit, or fewer where
/// reading the partial results would cost more than they save; a handful of candidates, because every launch asks.
int choose_splits(const Plan& plan, std::int64_t sequences, int max_length, const runtime::DeviceFacts& device) {
  constexpr double kFixedChunks = 2;
  constexpr int kMostWaves = 4;
  if (sequences == 0 || sequences > kCounters) return 1;
  const int chunks = (max_length + plan.chunk_tokens() - 1) / plan.chunk_tokens();
  const int most = std::min(chunks, kMostSplits);
  if (most <= 1) return 1;
  const std::int64_t resident = std::int64_t{device.multiprocessors} * plan.blocks_per_sm;
  const double partial_bytes = 4.0 * plan.heads_per_block * plan.descriptor.head_dim;
  const double chunk_bytes = 2.0 * plan.chunk_tokens() * plan.descriptor.row_bytes();
  const double combine_chunks = 0.5 * partial_bytes / chunk_bytes;
  int best = 1;
  double best_cost = std::numeric_limits<double>::infinity();
  const auto consider = [&](int splits) {
    const std::int64_t waves = (sequences * splits + resident - 1) / resident;
    const int share = (chunks + splits - 1) / splits;
    const double merge = splits > 1 ? splits * combine_chunks : 0;
    const double cost = static_cast<double>(waves) * (share + kFixedChunks) + merge;
    if (cost >= best_cost) return;
    best = splits;
    best_cost = cost;
  };
  consider(1);
  for (int waves = 1; waves <= kMostWaves; ++waves) {
    const auto fit = static_cast<int>(std::clamp<std::int64_t>(waves * resident / sequences, 1, most));
    consider(fit);
    consider(std::clamp(static_cast<int>(std::sqrt(waves * chunks / combine_chunks)), 1, fit));
    if (fit == most) break;
  }
  return best;
}

std::int64_t count_sequences(const Plan& plan, const cubit_gqa_decode_arguments& arguments) {
  return std::int64_t{arguments.batch} * arguments.kv_heads * plan.head_groups;
}

Split choose_split(const Plan& plan, const cubit_gqa_decode_arguments& arguments, const runtime::DeviceFacts& device) {
  check_request(plan, arguments);
  const std::int64_t sequences = count_sequences(plan, arguments);
  if (arguments.splits > 0) {
    const bool clustered = arguments.merge == CUBIT_MERGE_CLUSTER && arguments.splits > 1;
    require_argument(clustered || arguments.splits == 1 || sequences <= kCounters, "splits",
                     "more than one needs a counter per sequence, KV head and head group, of which there are 4096",
                     arguments.splits);
    return {arguments.splits, clustered};
  }
  if (plan.family != Family::sm90) return {choose_splits(plan, sequences, arguments.max_length, device), false};
  if (sequences == 0) return {};
  return cheapest(plan, arguments, sequences, device);
}

}  // namespace cubit::ops::gqa_decode
