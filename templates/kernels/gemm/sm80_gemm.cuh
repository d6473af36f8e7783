// GEMM with mma.sync: output[m, n] = epilogue(sum over k of activations[m, k] · weights[k, n]).
//
// Rows are tokens m and columns are output features n. The weights are the A operand of the mma instructions, so
// columns are the M of an instruction and rows are its N. Few rows therefore waste little of an instruction.
//
// Families: sm80 uses cp.async, ldmatrix and mma.sync, on sm_80 and later. Family sm75 replaces cp.async by loads and
// stores (stage_copies_registers.cuh). On sm_75 two m16n8k8 replace m16n8k16 (mma.cuh), and four m8n8k16 replace
// m16n8k32 (mma_bytes.cuh). Family sm75 supports fp16 and signed bytes only.
//
// Block tile, with one block per (256 columns, kTileM rows, split-K slice) or with a balanced schedule (split_k.cuh):
//
//                    kTileM rows, 8 per mma
//                  +-----------+
//    256 columns:  |  warp 0   |   A warp has all rows of kWarpStrips strips of 32 columns. A strip is two mma tiles of
//                  |    …      |   16 columns. A lane has four columns of a strip, and two of each 8 rows.
//                  |  last     |   With a gated epilogue, the second 128 columns are the up-projection columns, which
//                  +-----------+   begin args.n / 2 further on than the gate columns.
//
// With tile_n = 64 or 32 the block uses intra-block split-K instead: it computes all of k, and every warp has all
// columns, its own slice of k and its own ring of stages. In the main loop the warps do not wait for each other. At the
// end they add their partial sums in shared memory. Before the loop all warps wait once if the block fills a table of
// factors (w4_activation_order.cuh). See intra_block_split_k.cuh.
//
// Main loop: a stage is kStageK values along k. With packed weights, an mma operand is a 4-bit or 8-bit weight minus
// its zero, which is exact. Within a quantisation group products accumulate in fp32. At the end of a group, sum +=
// scale · product. Other scaling roles scale at the end, or not at all.
//
// Shared memory:
//   stages { weights | activations | scales of the stage's groups | zeros of these groups }
//   scales and zeros, if one group spans all of k
//   sums of the up-projection columns, if the epilogue is gated
//   table of factors of all groups, with activation order in blocks of few columns
//
// Who waits for whom:
// - Copies::wait completes the thread's own copies of a stage. The __syncthreads that follows completes the copies of
//   the other threads. The same __syncthreads shows that all warps have read the stage that is filled next.
// - Copies staged through registers use a single stage. A __syncthreads of its own precedes the stores into that stage.
// - For the merge of split-K slices see split_k_merge.cuh.
//
// Batch invariance: the split-K slices are the same for any number of rows; see batch_invariant_split_k.cuh.
//
// Several layers: tiles are counted layer by layer (tile_columns.cuh), and the copies of a tile read the tensors of the
// layer that has the tile's columns (weight_format/packed_layers.cuh).
//
// Activation order: stages have the groups of their values along k in the place of scales and zeros, and no group ends
// within the loop; see w4_activation_order.cuh.
//
// Overlapping launches: the kernel waits for the preceding kernel of the stream before it reads anything. The next
// kernel may begin when a block has finished the main loop of its first work tile.
//
// Columns from n on, rows from m on, and values from k on are not read; they arrive as zeros.
//
// Roles that the plan chooses:
//   plan::Weights      weight operand           weight_format/w4_words_by_k.cuh
//   plan::Activations  activation operand       gemm/word_activations.cuh
//   plan::Product      accumulator and MMA      gemm/mma_product.cuh
//   plan::Scaling      from products to sums    gemm/scaling.cuh
//   plan::Scheduler    which tiles, which k     gemm/split_k.cuh
//   plan::Epilogue     from sums to outputs     gemm/epilogue.cuh
//   plan::Copies       how copies are made      pipeline/stage_copies_async.cuh
// The byte offsets that each lane accesses are in gemm_lanes.h, which the plan's proofs use as well. stage_fetcher.cuh
// has the copies of a stage.
//
// PTX ISA: "Asynchronous copy: cp.async", "ldmatrix", "Matrix fragments for mma.m16n8k16 with floating point type",
// "atom", "Memory Consistency Model".
#include "plan.cuh"

#include "core/overlap.cuh"
#include "core/types.cuh"
#include "gemm/gemm_block.cuh"
#include "gemm/gemm_lanes.h"
#include "gemm/split_k_merge.cuh"
#include "gemm/stage_fetcher.cuh"

namespace cubit {

using Arguments = Weights::Arguments;

// Groups of 16 values along k are half of a step: see multiply_half_steps.
constexpr bool kHalvesSteps = Weights::kStageGroups > kStageSteps;
constexpr int kGroupSteps = kHalvesSteps ? 1 : kStageSteps / Weights::kStageGroups;
constexpr int kUnrolledGroups = kFewRegisters ? 1 : Weights::kStageGroups;
// With 64 rows and copies staged through registers, the loads of more than two steps would spill.
constexpr int kUnrolledSteps = kGroupSteps > 2 && kRowTiles > 4 && plan::Copies::kHolds ? 2 : kGroupSteps;
constexpr int kScaleRowBytes = 2 * plan::kTileN;
constexpr int kZeroRowBytes = Weights::kZeroBytes / (gemm_lanes::kBlockColumns / plan::kTileN);

/// Offsets at which a lane's accesses begin, for each strip of the warp and for the activations.
struct WarpPlaces {
  Weights::Places words[kWarpStrips];
  Activations::Places activations;
  Weights::FactorPlaces factors[kWarpStrips];

  __device__ __forceinline__ WarpPlaces() {
#pragma unroll
    for (int strip = 0; strip < kWarpStrips; ++strip) {
      const int own = first_strip() + strip;
      const int lane = lane_index();
      words[strip] = Weights::places(lane, own);
      if (strip == 0) activations = Activations::places(lane);
      factors[strip] = Weights::factor_places(lane, own);
    }
  }
  static __device__ __forceinline__ int first_strip() { return kWarpStrips * column_warp(); }
};

template <int kProduct, int kTile>
__device__ __forceinline__ void multiply_tile(const Weights::Words& words, const Weights::Zeros& zeros,
                                              const uint32 (&b)[kRowTiles][4], RowProducts (&products)[kRowTiles]) {
  uint32 a[4];
  Weights::operand<kProduct, kTile>(a, words, zeros);
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t)
    plan::Product::multiply(products[t][kTile], a, b[t][2 * kProduct], b[t][2 * kProduct + 1]);
}

template <int kProduct>
__device__ __forceinline__ void multiply_tiles(const Weights::Words& words, const Weights::Zeros& zeros,
                                               const uint32 (&b)[kRowTiles][4], RowProducts (&products)[kRowTiles]) {
  multiply_tile<kProduct, 0>(words, zeros, b, products);
  multiply_tile<kProduct, 1>(words, zeros, b, products);
}

/// products += the products of one quantisation group of a stage. `group` is the group's index in the stage, and
/// `zeros` is the address of the group's zeros.
__device__ __forceinline__ void multiply_group(Products& products, uint32 stage, uint32 zeros, const WarpPlaces& places,
                                               int group) {
  Weights::Zeros group_zeros[kWarpStrips];
#pragma unroll
  for (int strip = 0; strip < kWarpStrips; ++strip)
    Weights::load_zeros(group_zeros[strip], zeros, places.factors[strip]);
#pragma unroll(kUnrolledSteps)
  for (int i = 0; i < kGroupSteps; ++i) {
    const int step = group * kGroupSteps + i;
    uint32 b[kRowTiles][4];
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t)
      Activations::load(b[t], stage + plan::kActivationsAt, places.activations, t, step);
#pragma unroll
    for (int strip = 0; strip < kWarpStrips; ++strip) {
      Weights::Words words;
      Weights::load_words(words, stage, places.words[strip], step);
      multiply_tiles<0>(words, group_zeros[strip], b, products[strip]);
      multiply_tiles<1>(words, group_zeros[strip], b, products[strip]);
    }
  }
}

/// sums += scale · products. `scales` is the address of the group's scales.
template <class Scaling>
__device__ __forceinline__ void scale_group(Sums& sums, const Products& products, uint32 scales,
                                            const WarpPlaces& places) {
#pragma unroll
  for (int strip = 0; strip < kWarpStrips; ++strip) {
    Weights::Scales group_scales;
    Weights::load_scales(group_scales, scales, places.factors[strip]);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) Scaling::add(sums[strip][t], products[strip][t], group_scales);
  }
}

/// sums += scale · products of a group that is half of a step, for one strip. Formats by n have the group's values
/// along k in product kProduct of the step. Formats by k have them in both products, in half of the lanes: the
/// activations of the other lanes are replaced by zeros. `stage` is the stage's address, and `group` the group's index
/// in the stage.
template <class Halved, class Scaling, int kProduct>
__device__ __forceinline__ void multiply_half_group(RowSums (&sums)[kRowTiles], uint32 stage, int group,
                                                    const typename Halved::FactorPlaces& places,
                                                    const typename Halved::Words& words,
                                                    const uint32 (&b)[kRowTiles][4]) {
  constexpr bool kIsProduct = Halved::kHalvesAreProducts;
  constexpr int kProducts = kIsProduct ? 1 : 2;
  typename Halved::Zeros zeros;
  Halved::load_zeros(zeros, stage + plan::kZerosAt + group * kZeroRowBytes, places);
  uint32 a[kProducts][2][4];  // [product][tile of 16 columns]
  Halved::template operand<kProduct, 0>(a[0][0], words, zeros);
  Halved::template operand<kProduct, 1>(a[0][1], words, zeros);
  if constexpr (!kIsProduct) {
    Halved::template operand<1, 0>(a[1][0], words, zeros);
    Halved::template operand<1, 1>(a[1][1], words, zeros);
  }
  typename Halved::Scales scales;
  Halved::load_scales(scales, stage + plan::kScalesAt + group * kScaleRowBytes, places);
  const uint32 kept = kIsProduct || lane_index() / 2 % 2 == group % 2 ? ~0u : 0u;
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
    RowProducts products = {};
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      const int first = 2 * (kProduct + i);
      const uint32 own[2] = {b[t][first] & kept, b[t][first + 1] & kept};
      plan::Product::multiply(products[0], a[i][0], own[0], own[1]);
      plan::Product::multiply(products[1], a[i][1], own[0], own[1]);
    }
    Scaling::add(sums[t], products, scales);
  }
}

/// sums += scale · products of a stage whose steps have two quantisation groups each.
template <class Halved, class Scaling>
__device__ __forceinline__ void multiply_half_steps(Sums& sums, uint32 stage, const WarpPlaces& places) {
#pragma unroll 1
  for (int step = 0; step < kStageSteps; ++step) {
    uint32 b[kRowTiles][4];
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t)
      Activations::load(b[t], stage + plan::kActivationsAt, places.activations, t, step);
#pragma unroll
    for (int strip = 0; strip < kWarpStrips; ++strip) {
      typename Halved::Words words;
      Halved::load_words(words, stage, places.words[strip], step);
      const auto& factors = places.factors[strip];
#pragma unroll(kFewRegisters ? 1 : 2)
      for (int half = 0; half < 2; ++half) {
        const int group = 2 * step + half;
        if (Halved::kHalvesAreProducts && half == 1) {
          multiply_half_group<Halved, Scaling, Halved::kHalvesAreProducts ? 1 : 0>(sums[strip], stage, group, factors,
                                                                                   words, b);
        } else {
          multiply_half_group<Halved, Scaling, 0>(sums[strip], stage, group, factors, words, b);
        }
      }
    }
  }
}

/// products += the products of one step and one strip, whose weights have their own scales and zeros.
template <class Dequantised>
__device__ __forceinline__ void multiply_dequantised_strip(RowProducts (&products)[kRowTiles], uint32 stage, int step,
                                                           const WarpPlaces& places, int strip,
                                                           const typename Dequantised::Factors& factors) {
  typename Dequantised::Words words;
  Dequantised::load_words(words, stage, places.words[strip], step);
  uint32 a[4][4];  // [column][pair of values along k]
  Dequantised::dequantise(a, words, factors);
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
    uint32 b[4];
    Activations::load(b, stage + plan::kActivationsAt, places.activations, t, step);
#pragma unroll
    for (int item = 0; item < 4; ++item) {  // per tile of 16 columns: two products
      const int tile = item / 2;
      const int j = item % 2 * 2;
      const auto& low = a[2 * tile];
      const auto& high = a[2 * tile + 1];
      const uint32 operand[4] = {low[j], high[j], low[j + 1], high[j + 1]};
      plan::Product::multiply(products[t][tile], operand, b[j], b[j + 1]);
    }
  }
}

/// Products of stages whose weights have their own scales and zeros: see w4_activation_order.cuh. The object is made
/// before the first stage of a work tile is multiplied.
template <class Dequantised>
class DequantisedStages {
 public:
  /// `table`: address of the table of scales and zeros, which fill_table() fills.
  __device__ __forceinline__ DequantisedStages(const Arguments& args, const WorkTile& work_tile, uint32 table)
      : args_(args), work_tile_(work_tile), table_(table), has_table_(Dequantised::has_table(args)) {}

  /// All threads of the block call the function once per work tile.
  __device__ __forceinline__ void fill_table() const {
    if constexpr (Dequantised::kTableBytes > 0) {
      if (has_table_) {
        Dequantised::fill_table(args_, table_, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
                                [&](int place) { return weight_column(args_, work_tile_.column_tile, place); });
      }
      __syncthreads();
    }
  }

  /// products += the products of the stage at address `stage`.
  __device__ __forceinline__ void multiply(Products& products, uint32 stage, const WarpPlaces& places) const {
    if (Dequantised::kTableBytes > 0 && has_table_) {
      multiply_steps<true>(products, stage, places);
    } else {
      multiply_steps<false>(products, stage, places);
    }
  }

 private:
  template <bool kFromTable>
  __device__ __forceinline__ void multiply_steps(Products& products, uint32 stage, const WarpPlaces& places) const {
#pragma unroll(kIntraBlockSplitK ? 2 : 1)
    for (int step = 0; step < kStageSteps; ++step) {
      typename Dequantised::Groups groups;
      Dequantised::load_groups(groups, args_, stage + plan::kScalesAt, step);
#pragma unroll
      for (int strip = 0; strip < kWarpStrips; ++strip) {
        typename Dequantised::Factors factors;
        if constexpr (kFromTable) {
          Dequantised::look_up_factors(factors, groups, table_, WarpPlaces::first_strip() + strip);
        } else {
          // Lanes whose columns do not exist use the scales and zeros of column 0.
          const int column = max(0, strip_column(args_, work_tile_.column_tile, WarpPlaces::first_strip() + strip));
          Dequantised::load_factors(factors, groups, args_, column);
        }
        multiply_dequantised_strip<Dequantised>(products[strip], stage, step, places, strip, factors);
      }
    }
  }

  const Arguments& args_;
  const WorkTile& work_tile_;
  uint32 table_;
  bool has_table_;
};

/// For weights that are not dequantised before their product.
struct NoDequantisedStages {
  __device__ __forceinline__ NoDequantisedStages(const Arguments&, const WorkTile&, uint32) {}
  __device__ __forceinline__ void fill_table() const {}
  __device__ __forceinline__ void multiply(Products&, uint32, const WarpPlaces&) const {}
};
template <class Operand, bool kDequantises>
struct ChooseDequantisedStages {
  using Type = NoDequantisedStages;
};
template <class Operand>
struct ChooseDequantisedStages<Operand, true> {
  using Type = DequantisedStages<Operand>;
};

/// Main loop: adds the products of all stages of a work tile to `sums`.
__device__ __forceinline__ void multiply_stages(const Arguments& args, const WorkTile& work_tile, uint32 stages,
                                                uint32 table, Sums& sums) {
  using Copies = plan::Copies;
  using Scaling = plan::Scaling;
  constexpr uint32 kZeros = RingBlock::kZerosAt;
  const WarpPlaces places;
  const uint32 whole_factors = stages + plan::kStages * plan::kStageBytes;
  StageFetcher fetcher(args, work_tile);
  wait_for_previous_kernel();  // the code above reads nothing from global memory
  if constexpr (Weights::kIsOneGroup) {
    RingBlock::sync();  // no thread reads the factors of the previous work tile any more
    fetcher.copy_whole_factors(whole_factors);
  }
  typename ChooseDequantisedStages<Weights, Weights::kDequantises>::Type dequantised(args, work_tile, table);
  Products whole = {};
  // One loop fills and drains the pipeline: stage `ahead` is fetched while stage `ahead - kAhead` is multiplied.
  int fill = 0;
#pragma unroll 1
  for (int ahead = work_tile.first; ahead < work_tile.last + Copies::kAhead; ++ahead) {
    Copies::wait();
    if constexpr (Copies::kHolds) {
      __syncthreads();  // no thread reads the stage any more
      if (ahead > work_tile.first) fetcher.store(stages);
    }
    RingBlock::sync();
    if (ahead < work_tile.last) fetcher.fetch(stages + fill * plan::kStageBytes);
    Copies::close();
    fill = fill + 1 == plan::kStages ? 0 : fill + 1;  // the stage that is filled next is the stage in use now
    if constexpr (Weights::kDequantises) {
      if (ahead == work_tile.first + Copies::kAhead - 1) dequantised.fill_table();  // behind the first copies
    }
    if (ahead - Copies::kAhead < work_tile.first) continue;
    const uint32 stage = settled(stages + fill * plan::kStageBytes);
    if constexpr (Weights::kDequantises) {
      dequantised.multiply(whole, stage, places);
    } else if constexpr (!Scaling::kScalesGroups) {
      multiply_group(whole, stage, whole_factors + kZeros, places, 0);
    } else if constexpr (kHalvesSteps) {
      multiply_half_steps<Weights, Scaling>(sums, stage, places);
    } else {
#pragma unroll(kUnrolledGroups)
      for (int group = 0; group < Weights::kStageGroups; ++group) {
        const uint32 scales = stage + plan::kScalesAt + group * kScaleRowBytes;
        const uint32 zeros = stage + plan::kZerosAt + group * kZeroRowBytes;
        Products products = {};
        multiply_group(products, stage, zeros, places, group);
        scale_group<Scaling>(sums, products, scales, places);
      }
    }
  }
  Copies::wait_all();
  if constexpr (Scaling::kScalesEnd) {
    // A warp whose slice has no stage has passed no barrier yet, and other lanes have copied its scales.
    __syncwarp();
    scale_group<Scaling>(sums, whole, whole_factors, places);
  } else if constexpr (!Scaling::kScalesGroups) {
    take_products(sums, whole);
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kPartitionsK* plan::kWarps * 32, plan::kBlocksPerSm)
    gemm(const __grid_constant__ cubit::Arguments args) {
  using namespace cubit;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32 stages = settled(shared_address(shared));
  plan::Scheduler scheduler(args);
  WorkTile work_tile = scheduler.first();
#pragma unroll 1
  do {
    Sums sums = {};
    multiply_stages(args, work_tile, stages + (kIntraBlockSplitK ? warp_index() * plan::kRingBytes : 0),
                    stages + plan::kPartitionsK * plan::kRingBytes, sums);
    allow_next_kernel();
    finish_work_tile(args, scheduler, work_tile, stages, sums);
  } while (scheduler.next(work_tile));
}
