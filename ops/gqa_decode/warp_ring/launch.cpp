// Launches of the families whose warps have a ring each: every sequence is cut into the same number of splits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/gqa_decode/launch.hpp"
#include "ops/gqa_decode/warp_ring/warp_ring.hpp"

namespace cubit::ops::gqa_decode::warp_ring {
namespace {

using Arguments = cubit_gqa_decode_arguments;

constexpr int kMostWaves = 4;  ///< waves of blocks that splits fill

/// Sets how blocks share the work. The kernels of these families read no other members about sharing.
void add_split(GqaDecodeArguments& result, const Arguments& arguments, const Split& split) {
  result.kv_heads = arguments.kv_heads;
  result.max_length = arguments.max_length;
  result.batch = arguments.batch;
  result.splits = split.splits;
}

std::int64_t partial_rows(const Plan& plan, const Split& split) { return split.slots * plan.heads_per_block; }

/// The number of splits with the least modelled time. Time is counted in chunks, the tokens that a block computes in
/// one step.
class SplitModel {
 public:
  SplitModel(const Plan& plan, std::int64_t sequences, int chunks, std::int64_t resident)
      : sequences_(sequences), chunks_(chunks), resident_(resident) {
    const kv_cache::CacheFormats formats = plan.formats();
    const double partial_bytes = 4.0 * plan.heads_per_block * formats.value.head_dim;
    const double chunk_bytes =
        static_cast<double>(plan.chunk_tokens()) * (formats.key.row_bytes() + formats.value.row_bytes());
    merge_chunks_ = 0.5 * partial_bytes / chunk_bytes;
  }

  /// Waves of blocks, each with its chunks and a fixed part; then one block that reads all partial results of its
  /// sequence.
  double cost(int splits) const {
    constexpr double kFixedChunks = 2;
    const std::int64_t waves = (sequences_ * splits + resident_ - 1) / resident_;
    const int share = (chunks_ + splits - 1) / splits;
    const double merge = splits > 1 ? splits * merge_chunks_ : 0;
    return static_cast<double>(waves) * (share + kFixedChunks) + merge;
  }
  /// The most splits that so many waves have room for, and fewer if reading the partial results would cost more time
  /// than so many splits save.
  int fit(int waves, int most) const {
    return static_cast<int>(std::clamp<std::int64_t>(waves * resident_ / sequences_, 1, most));
  }
  int worth(int waves, int fit) const {
    return std::clamp(static_cast<int>(std::sqrt(waves * chunks_ / merge_chunks_)), 1, fit);
  }

 private:
  std::int64_t sequences_;
  int chunks_;
  std::int64_t resident_;
  double merge_chunks_;
};

}  // namespace

/// Every launch asks, so only a handful of candidates is compared: two for each number of waves.
int choose_splits(const Plan& plan, std::int64_t sequences, int max_length, const runtime::DeviceFacts& device) {
  if (sequences == 0 || sequences > kWorkspaceCounters) return 1;
  const int chunks = (max_length + plan.chunk_tokens() - 1) / plan.chunk_tokens();
  const int most = std::min(chunks, kMostSplits);
  if (most <= 1) return 1;
  const SplitModel model(plan, sequences, chunks, std::int64_t{device.multiprocessors} * plan.blocks_per_sm);
  int best = 1;
  double best_cost = model.cost(1);
  const auto consider = [&](int splits) {
    const double cost = model.cost(splits);
    if (cost >= best_cost) return;
    best = splits;
    best_cost = cost;
  };
  for (int waves = 1; waves <= kMostWaves; ++waves) {
    const int fit = model.fit(waves, most);
    consider(fit);
    consider(model.worth(waves, fit));
    if (fit == most) break;
  }
  return best;
}

Split choose_split(const Plan& plan, const Arguments& arguments, const runtime::DeviceFacts& device) {
  check_splits(arguments);
  const std::int64_t sequences = count_sequences(plan, arguments);
  Split split;
  if (sequences == 0) return split;
  const int tokens = most_read_tokens(plan.descriptor, arguments);
  split.splits = arguments.splits > 0 ? arguments.splits : choose_splits(plan, sequences, tokens, device);
  if (split.splits > 1 && sequences > kWorkspaceCounters) {
    throw Failure(Status::invalid_argument,
                  fmt::format("splits = {} of {} sequences (batch * kv_heads * head groups)", split.splits, sequences),
                  fmt::format("more than one split needs a counter for each, and there are {}", kWorkspaceCounters),
                  "accepted: 0, which leaves the choice to cubit, and 1");
  }
  split.blocks = sequences * split.splits;
  split.slots = split.splits > 1 ? split.blocks : 0;
  return split;
}

/// The most slots of any launch within these bounds. Fewer or shorter sequences may have more splits together, but
/// choose_splits() never fills more than kMostWaves waves of blocks, and a split has at least one chunk.
std::int64_t most_slots(const Plan& plan, const Arguments& arguments, const runtime::DeviceFacts& device) {
  const std::int64_t sequences = count_sequences(plan, arguments);
  if (arguments.splits > 0) return choose_split(plan, arguments, device).slots;
  const std::int64_t chunks =
      (most_read_tokens(plan.descriptor, arguments) + plan.chunk_tokens() - 1) / plan.chunk_tokens();
  const std::int64_t most = std::min<std::int64_t>(chunks, kMostSplits);
  if (most <= 1) return 0;
  const std::int64_t filled = std::int64_t{kMostWaves} * device.multiprocessors * plan.blocks_per_sm;
  return std::min({sequences * most, filled, kWorkspaceCounters * most});
}

std::size_t workspace_bytes(const Plan& plan, const void* public_arguments, const runtime::DeviceFacts& device) {
  const Arguments& arguments = checked_bounds(plan.descriptor, public_arguments);
  check_splits(arguments);
  return workspace_for(plan, most_slots(plan, arguments, device) * plan.heads_per_block);
}

Launch encode(const Plan& plan, const void* public_arguments, void* workspace, std::size_t given,
              const runtime::DeviceFacts& device) {
  const Arguments& arguments = checked_bounds(plan.descriptor, public_arguments);
  Launch launch;
  launch.empty = arguments.batch == 0;
  if (launch.empty) return launch;
  check_tensors(plan, arguments);
  const Split split = choose_split(plan, arguments, device);
  const std::int64_t rows = partial_rows(plan, split);
  require_workspace(workspace, given, workspace_for(plan, rows));
  GqaDecodeArguments parameters{};
  add_tensors(parameters, plan.descriptor, arguments);
  add_workspace(parameters, rows, workspace);
  add_split(parameters, arguments, split);
  add_scores(parameters, plan.descriptor, arguments);
  launch.shape.grid = {static_cast<unsigned>(split.blocks), 1, 1};
  launch.shape.threads = static_cast<unsigned>(plan.threads());
  launch.shape.dynamic_shared_memory = static_cast<unsigned>(plan.shared_memory);
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  launch.spread_blocks(plan.blocks_per_sm, device);
  return launch;
}

}  // namespace cubit::ops::gqa_decode::warp_ring
