// Persistent, warp-specialised GEMM for sm_90a and many tokens: output = epilogue(activations · weights).
//
// The kernel computes the transposed product: features (columns of the weights) are the M of wgmma, tokens (rows of the
// activations) are its N. Weights are the A operand. Packed weights come from registers, where the consumer warps have
// dequantised them, and other weights from shared memory; activations are the B operand, from shared memory, as TMA
// leaves them.
//
//                      tokens of a tile (kTokens)
//                    ┌──────────────────────────┐
//   warpgroup 0  64  │                          │
//   warpgroup 1  64  │  block of rank 0         │   Clusters have two blocks. With args.split_slabs = 0 the blocks
//                    ├──────────────────────────┤   compute neighbouring features of the same tokens, and each block
//                64  │  block of rank 1         │   loads one half of the activations into both blocks (multicast).
//                64  │                          │   Otherwise both blocks compute the upper tile, each with its own
//                    └──────────────────────────┘   slabs of k, and exchange halves of the sums (cluster_exchange.cuh).
//
// - Warps 0 to 7 are two consumer warpgroups. A consumer warp starts the wgmma instructions of one slab of 128 bytes
//   along k, then dequantises the next slab while the tensor cores work. The two warpgroups fill each other's gaps.
// - Warp 8 is the producer warp: one thread starts all TMA copies. Warps 9 to 11 only complete the producer's
//   warpgroup, which gives registers to the consumers.
// - A cluster computes tiles until none is left. The producer starts the copies of the next tile while the consumers
//   store the current one. With stream-K the last tiles are divided among clusters (grouped_tiles.cuh), which hand on
//   partial sums through the workspace (stream_k_sums.cuh).
//
// Shared memory:
//   stages { activations | weights }
//   kStagingAt   two staging tiles of outputs per consumer warpgroup (staged_epilogue.cuh)
//   kTableAt     with activation order, scales and zeros of the block's features (w4_ordered_operand.cuh)
//   kBarriersAt  two mbarriers per stage, `full` and `empty`, then the mbarriers of the exchange
//
// Who waits for whom:
// - The producer waits at `empty` until all consumer warps have arrived there: those of both blocks with multicast,
//   because the copies write into both blocks.
// - A consumer warp waits at `full` until all bytes of the stage have arrived, those that the other block copies
//   included. It arrives at `empty` when the products that read the stage are complete.
// - At the end the producer waits until all stages are empty, and both blocks wait for each other, because either may
//   still signal or write into the other.
//
// Overlapping launches: the consumer warps and the producer thread wait for the preceding kernel of the stream before
// they read anything. Only weights that the caller has promised not to change are copied earlier.
//
// Roles that the plan chooses: plan::Weights (weight_format/w4_register_operand.cuh, dense_operand.cuh for 16-bit
// weights, byte_gemm/shared_bytes.cuh for bytes), plan::Activations (gemm/shared_activations.cuh), plan::Product
// (gemm/warpgroup_product.cuh), plan::Tiles (gemm/grouped_tiles.cuh), plan::Scaling (gemm/scaling.cuh) and
// plan::Epilogue (gemm/staged_epilogue.cuh).
//
// PTX ISA: "wgmma", "cp.async.bulk.tensor", "mbarrier", "barrier.cluster", "setmaxnreg".
#include "plan.cuh"

#include "core/bulk_copies.cuh"
#include "core/cluster.cuh"
#include "core/copies.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "core/wgmma.cuh"
#include "gemm/cluster_exchange.cuh"
#include "gemm/persistent_gemm_lanes.h"
#include "gemm/stream_k_sums.cuh"
#include "kernels/gemm/persistent_gemm_arguments.h"

namespace cubit {

/// Kernel arguments with tensor maps. Dimensions of the maps, the contiguous one last: weights, see plan::Weights;
/// activations [m][k]; output [m][outputs].
struct Arguments : plan::Weights::Arguments {
  TensorMap weight_map;
  TensorMap activation_map;
  TensorMap output_map;
};

using StagePlace = RingPlace<plan::kStages>;
using Tile = plan::Weights::Tile;

constexpr int kProducerWarp = persistent_lanes::kConsumerWarps;

/// Shared-memory addresses of the stages and the mbarriers.
struct Ring {
  uint32 base;

  __device__ __forceinline__ uint32 activations(StagePlace place) const {
    return base + place.index * plan::kStageBytes;
  }
  __device__ __forceinline__ uint32 weights(StagePlace place) const {
    return activations(place) + plan::Activations::kBytes;
  }
  __device__ __forceinline__ uint32 full(StagePlace place) const { return base + plan::kBarriersAt + 16 * place.index; }
  __device__ __forceinline__ uint32 empty(StagePlace place) const { return full(place) + 8; }
  __device__ __forceinline__ ExchangeBarriers exchange() const {
    return {base + plan::kBarriersAt + 16 * plan::kStages};
  }

  /// One thread initialises all mbarriers. `releases`: arrivals that make a stage empty.
  __device__ __forceinline__ void init_barriers(int releases) const {
    StagePlace place;
    for (; place.index < plan::kStages; ++place.index) {
      init_barrier(full(place), 1);
      init_barrier(empty(place), releases);
    }
    exchange().init();
    fence_barrier_init();
  }
};

/// The work of a block: its rank in the cluster, and its part of each of the cluster's tiles.
struct BlockWork {
  const Arguments& args;

  __device__ __forceinline__ bool splits_k() const { return args.split_slabs > 0; }
  static __device__ __forceinline__ int rank() { return static_cast<int>(rank_in_cluster()); }
  __device__ __forceinline__ Tile features(GemmTile tile) const {
    return {(splits_k() ? tile.features : 2 * tile.features + rank()) * Tile::kOutputs};
  }
  __device__ __forceinline__ int first_slab(GemmTile tile) const {
    return splits_k() && rank() == 1 ? args.split_slabs : tile.first_slab;
  }
  __device__ __forceinline__ int end_slab(GemmTile tile) const {
    return splits_k() && rank() == 0 ? args.split_slabs : tile.end_slab;
  }
};

/// Starts the copies of the weights of a stage.
__device__ __forceinline__ void load_weights(const Arguments& args, Ring ring, StagePlace place, Tile features,
                                             int slab) {
  const uint32 full = ring.full(place);
  plan::Weights::load_stage(args, args.weight_map, ring.weights(place), features, slab, full);
  expect_bytes(full, plan::Activations::kBytes + plan::Weights::stage_bytes(args, slab));
}

/// Starts the copies of the weights of the first stages, which nobody has used yet. Returns the number of stages.
__device__ __forceinline__ int load_first_weights(const Arguments& args, Ring ring, const BlockWork& work) {
  const plan::Tiles tiles(args);
  if (args.constant_weights == 0 || !tiles.has_tile()) return 0;
  const GemmTile tile = tiles.tile();
  const int first = work.first_slab(tile);
  const int stages = min(plan::kStages, work.end_slab(tile) - first);
  StagePlace place;
#pragma unroll 1
  for (; place.index < stages; ++place.index) load_weights(args, ring, place, work.features(tile), first + place.index);
  return stages;
}

/// Loop of the producer thread.
__device__ __forceinline__ void load_tiles(const Arguments& args, Ring ring, const BlockWork& work) {
  int loaded = load_first_weights(args, ring, work);  // stages whose weights are on their way already
  wait_for_previous_kernel();
  StagePlace place;
#pragma unroll 1
  for (plan::Tiles tiles(args); tiles.has_tile(); tiles.advance()) {
    const GemmTile tile = tiles.tile();
    const Tile features = work.features(tile);
#pragma unroll 1
    for (int slab = work.first_slab(tile), end = work.end_slab(tile); slab < end; ++slab) {
      if (loaded > 0) {
        --loaded;
      } else {
        wait_barrier(ring.empty(place), place.parity ^ 1);  // returns at once in the first round
        load_weights(args, ring, place, features, slab);
      }
      plan::Activations::load(args.activation_map, ring.activations(place), tile.tokens * plan::kTokens, args.m, slab,
                              ring.full(place), !work.splits_k(), work.rank());
      place.advance();
    }
  }
  // The other block's consumers release stages of this block, and its shared memory must exist until they have.
  for (int i = 0; i < plan::kStages; ++i) {
    wait_barrier(ring.empty(place), place.parity ^ 1);
    place.advance();
  }
}

/// Main loop of the consumer warps.
///
/// A warp is blocked while it starts wgmma instructions whose A operand comes from registers, and the tensor cores then
/// wait for what the warp still has to do before the next slab. Everything but the conversion of words is therefore
/// done early: if plan::kWordsAhead, words are loaded a whole slab before their conversion, which takes registers.
///
/// Where a step begins another unit of the sums (see weight_format/w4_group_scales.cuh), the warpgroup waits for its
/// products and multiplies the sums, while the tensor cores have the other warpgroup's products.
class Consumer {
 public:
  using Sums = plan::Product::Sums;
  using Words = plan::Weights::Words;

  __device__ __forceinline__ Consumer(Ring ring, const BlockWork& work)
      : ring_(ring), lane_releases_(lane_index() < (work.splits_k() ? 1 : 2)) {
    // Lane i of each warp releases stages of block i of the cluster, or lane 0 those of its own block.
    const int rank = work.splits_k() ? work.rank() : lane_index() % 2;
    released_ = address_in_block(ring.empty(StagePlace()), rank);
  }

  /// Sets `sums` to the products of slabs `first` to `end` - 1 of a tile; there is at least one slab.
  __device__ __forceinline__ void multiply(const Arguments& args, Tile features, int first, int end, Sums& sums) {
    plan::Weights weights(args, features, first, ring_.base);
    Words words[kWordSets];
    previous_ = ahead_;
    current_ = ahead_;
    sums.begin();
    load_words(weights, words[0]);
    weights.template convert<0>(words[0]);
    if (plan::kWordsAhead && first + 1 < end) load_words(weights, words[kWordSets - 1]);
    describe_activations();
#pragma unroll 1
    for (int slab = first; slab < end; slab += 2) {
      multiply_slab<0>(weights, words, sums, slab > first, end - slab);
      if (slab + 1 < end) multiply_slab<1>(weights, words, sums, true, end - slab - 1);
    }
    complete_products(sums);
    release(previous_);
    weights.scale(sums);
  }

 private:
  static constexpr int kWordSets = plan::kWordsAhead ? 2 : 1;

  /// Starts the products of one slab, and meanwhile makes the operands of the next slab. `left`: slabs of the tile from
  /// this one on.
  template <int kBuffer>
  __device__ __forceinline__ void multiply_slab(plan::Weights& weights, Words (&words)[kWordSets], Sums& sums,
                                                bool adds, int left) {
    constexpr int kNext = kWordSets - 1 - kBuffer * (kWordSets - 1);  // set of the next slab's words
    constexpr bool kBeginsUnit = plan::Weights::template begins_unit<kBuffer>(0);
    if (kBeginsUnit && adds) {
      complete_products(sums);
      release(previous_);
      weights.change_unit(sums, 0);
    }
    fence_products();
#pragma unroll
    for (int step = 0; step < persistent_lanes::kSteps; ++step) {
      if (step > 0 && plan::Weights::template begins_unit<kBuffer>(step)) {
        commit_products();
        complete_products(sums);
        weights.change_unit(sums, step);
        fence_products();
      }
      plan::Product::start(sums, weights.template operand<kBuffer>(step),
                           activations_ + step * plan::Activations::kStepOffset,
                           step > 0 || (adds && !plan::Product::kRestarts) ? 1 : 0);
    }
    commit_products();
    if (!plan::kWordsAhead && left > 1) load_words(weights, words[0]);
    if constexpr (!kBeginsUnit) {
      wait_products<1>();
      if (adds) release(previous_);
    }
    previous_ = current_;
    current_.advance();
    if (left == 1) return;
    if (plan::kWordsAhead && left > 2) load_words(weights, words[kWordSets - 1 - kNext]);
    describe_activations();
    weights.template convert<kBuffer ^ 1>(words[kNext]);
  }

  static __device__ __forceinline__ void complete_products(Sums& sums) {
    wait_products<0>();
    plan::Product::settle(sums);
  }

  /// Waits for the next stage and loads its words.
  __device__ __forceinline__ void load_words(const plan::Weights& weights, Words& words) {
    wait_barrier(ring_.full(ahead_), ahead_.parity);
    weights.load(words, ring_.weights(ahead_));
    ahead_.advance();
  }

  /// The shuffle shows the compiler that the address is equal in all lanes, which matrix descriptors require.
  __device__ __forceinline__ void describe_activations() {
    activations_ = plan::Activations::describe(__shfl_sync(kFullWarp, ring_.activations(current_), 0));
  }

  /// All products that read the stage are complete.
  __device__ __forceinline__ void release(StagePlace place) const {
    __syncwarp();
    if (lane_releases_) release_in_block(released_ + 16 * place.index);
  }

  Ring ring_;
  bool lane_releases_;
  uint32 released_;      ///< `empty` barrier of stage 0 in the block whose stages this lane releases
  uint64 activations_;   ///< descriptor of the current slab's activations
  StagePlace ahead_;     ///< stage whose words are loaded next
  StagePlace current_;   ///< stage whose products are started next
  StagePlace previous_;  ///< stage whose products were started last
};

using Partial = PartialSums<plan::Product::Sum, plan::kTokens / 8>;

__device__ __forceinline__ void compute_tiles(const Arguments& args, Ring ring, const BlockWork& work) {
  const int warpgroup = warp_index() / 4;
  Consumer consumer(ring, work);
  plan::Epilogue epilogue(args, args.output_map,
                          ring.base + plan::kStagingAt + warpgroup * 2 * plan::Epilogue::kStagingBytes);
#pragma unroll 1
  for (plan::Tiles tiles(args); tiles.has_tile(); tiles.advance()) {
    GemmTile tile = tiles.tile();
    Consumer::Sums sums;
    consumer.multiply(args, work.features(tile), work.first_slab(tile), work.end_slab(tile), sums);
    tiles.settle();
    tile = tiles.tile();
    if (tile.is_part) {
      Partial(args, tiles.cluster(), work.rank()).store(sums.of);
      continue;
    }
#pragma unroll 1
    for (int i = 1; i <= tile.partials; ++i) Partial(args, tiles.cluster() - i, work.rank()).add_to(sums.of);
    int first = 0;
    int count = plan::kTokens;
    if (work.splits_k()) {
      exchange_halves(sums.of, ring.base, ring.exchange(), work.rank(), warpgroup, thread_index() % 128);
      count /= 2;
      first = work.rank() * count;
    }
    epilogue.store(sums.of, work.features(tile), tile.tokens * plan::kTokens + first, count);
  }
  epilogue.finish();
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kThreads, 1)
    persistent_gemm(const __grid_constant__ cubit::Arguments args) {
  using namespace cubit;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Ring ring{shared_address(shared)};
  const BlockWork work{args};
  allow_next_kernel();
  if (threadIdx.x == 0) {
    prefetch_map(args.weight_map);
    prefetch_map(args.activation_map);
    prefetch_map(args.output_map);
    ring.init_barriers(persistent_lanes::kConsumerWarps * (work.splits_k() ? 1 : 2));
  }
  __syncthreads();
  arrive_in_cluster();
  wait_for_cluster();
  if (warp_index() >= kProducerWarp) {
    give_registers<plan::kProducerRegisters>();
    if (warp_index() == kProducerWarp && elect_one()) load_tiles(args, ring, work);
  } else {
    take_registers<plan::kConsumerRegisters>();
    wait_for_previous_kernel();
    compute_tiles(args, ring, work);
  }
  arrive_in_cluster();
  wait_for_cluster();
}
