// GQA decode attention for sm_80 and later: one new token per sequence, or the last few tokens, attends to the
// sequence's KV cache. The loop uses cp.async, ldmatrix and mma.sync.
//
// The same kernel serves sm_75 with fp16. Loads and stores then replace cp.async (tile_copies_registers.cuh), and two
// m16n8k8 products replace an m16n8k16 product (mma.cuh).
//
//   output[b, h] = sum over t < lengths[b] of weight_t · value[b, t, h / heads_per_kv],
//   weight = softmax over t of (scale · query[b, h] · key[b, t, h / heads_per_kv])
//
// With several query tokens, the heads of each token count as separate heads (query rows), and t runs over the tokens
// that the query token sees: query_tokens.cuh. The plan's roles may modify scores, tokens and denominator.
//
// There is one block per (sequence, KV head, split, head group). If registers cannot hold all query rows of a KV head,
// kHeadGroups blocks share the rows, and each of these blocks reads the cache. The kWarps warps of a block process the
// split in chunks of 16 · kWarps tokens. Each warp owns 16 tokens of a chunk from the copy to the accumulator, so the
// main loop has no block-wide barrier.
//
// One warp processes one tile of 16 tokens in two products:
//
//              8 heads        S  = K · Qᵀ      tokens are the M of the MMA, heads its N: with 8 heads per KV head no
//            +---------+                       row or column is wasted
//   16 tokens |  S, P   |      P  = 2^(S - reference), transposed in registers (movmatrix)
//            +---------+
//              8 heads
//            +---------+
//   value_dim |   Oᵀ    |      Oᵀ += Vᵀ · Pᵀ    accumulators in registers
//            +---------+
//
// Shared memory: warp 0 { stage 0 { 16 K rows, 16 V rows }, stage 1 … }, warp 1 …, see kv_stage.cuh. After the loop,
// the same bytes hold WarpResults. In the last block of a sequence, the bytes behind the WarpResults word then hold
// [kPartialsAtOnce][thread] 16 bytes of other blocks' outputs, and [warp][lane] 8 bytes of their sums.
//
// Who waits for whom:
// - A lane's own copies are complete after fetcher.land(). The __syncwarp that follows makes the other lanes' copies
//   visible. The same __syncwarp shows that every lane has finished reading the stage that is filled next.
// - One __syncthreads precedes the merge, because warps store results over the stages of other warps.
// - Splits synchronise through a counter, see split_kv.cuh.
//
// Rows that no query sees, such as rows at or beyond the length, are not read. They arrive as zeros, and their scores
// are masked before the maximum. If scores rise from token to token, the kernel visits tiles from the last to the
// first, so that the softmax's reference seldom moves.
//
// If the launch overlaps with the preceding kernel of the stream, the kernel waits for its predecessor before reading
// anything.
//
// The plan's roles: gqa_decode_block.cuh. Everything behind the main loop: warp_results.cuh. Which lane touches which
// byte: gqa_decode_lanes.h, shared with the plan's proofs.
//
// PTX ISA: "Asynchronous copy: cp.async", "ldmatrix", "movmatrix", "Matrix fragments for mma.m16n8k16 with floating
// point type", "atom", "Memory Consistency Model".
#include "plan.cuh"

#include "attention/gqa_decode_block.cuh"
#include "attention/gqa_decode_lanes.h"
#include "attention/warp_results.cuh"
#include "core/copies.cuh"
#include "core/overlap.cuh"
#include "core/types.cuh"
#include "kernels/attention/gqa_decode_arguments.h"
#include "pipeline/split_kv.cuh"

namespace cubit {

static_assert(plan::kQueryBytes == (Keys::Query::kIsShared ? 4 * kWarpSize * Keys::kHeadTiles * Keys::kQueryWords : 0));

constexpr int kChunkTokens = kStageTokens * plan::kWarps;

/// Vector copies per lane of a tile. For copy i of a lane, the functions return the vector and its place in a stage.
using Stage = plan::Stage;
constexpr int kVectors = Stage::kCopies;
constexpr int kUnrolledVectors = kVectors <= 24 ? kVectors : 8;  // narrow copies of wide rows would fill registers
constexpr __device__ lanes::Place place_of(int i, int lane) { return Stage::vector(i, lane); }
constexpr __device__ int slot_of(int i, int lane) { return Stage::slot(place_of(i, lane)); }

/// Zeroes the padding of headers; called once per stage, before the first copy.
__device__ __forceinline__ void clear_padding(uint32 stage) {
  Keys::clear_padding(stage, 0);
  Values::clear_padding(stage, kTileTokens);
}

/// Copies tiles of 16 tokens to shared memory, keys and then values, with kVectors copies of kCopyBytes per lane; see
/// kv_stage.cuh.
///
/// With a paged cache there are two cases. If every tile lies in one page, lane i looks up the i-th of 32 tiles. If
/// pages are no multiple of 16 tokens, lane i looks up row i of the stage, and passes the row's address to the lanes
/// that copy its vectors.
template <class Cache>
class Fetcher {
 public:
  using Place = typename Cache::Place;

  __device__ __forceinline__ Fetcher(const Cache& cache, const plan::Tokens& tokens) : cache_(cache), tokens_(tokens) {
    if constexpr (plan::kKeepOffsets) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) offsets_[i] = offset(place_of(i, lane_index()), strides());
    }
    if constexpr (kKeepSlots) {
#pragma unroll
      for (int i = 0; i < plan::kSlotPeriod; ++i) slots_[i] = settled(static_cast<uint32>(slot_of(i, lane_index())));
    }
  }

  /// Looks up pages; called once for each tile before the tile is fetched, while the previous tile is in use. `tile`
  /// counts the `tiles` tiles that the warp visits, and `first_of(i)` is the first token of the i-th tile.
  template <class FirstOf>
  __device__ __forceinline__ void look_up(int tile, int tiles, const FirstOf& first_of) {
    if constexpr (Cache::kIsPaged) {
      if (!cache_.has_tiles_in_pages()) {
        const int token = first_of(tile) + lane_index() % kTileTokens;
        place_ = tokens_.has(token) ? cache_.place(token) : Place{};
      } else if (tile % static_cast<uint32>(kWarpSize) == 0) {
        const int own = tile + lane_index();
        place_ = own < tiles ? place_of_tile(first_of(own)) : Place{};
      }
    }
  }

  /// Place in a paged cache of the lane's row in the most recently fetched tile.
  __device__ __forceinline__ Place own_place() const {
    return tile_place_.behind(cache_.has_tiles_in_pages() ? lane_index() % kTileTokens : 0);
  }

  /// Starts the copies of tokens first … first + 15, which are the `tile`-th visited tile. Rows that are not read
  /// become zeros.
  __device__ __forceinline__ void fetch(uint32 stage, int tile, int first) {
    stage_ = stage;
    if constexpr (Cache::kIsPaged) {
      tile_place_ = place_;
      if (!cache_.has_tiles_in_pages()) return fetch_rows(stage, first);
      tile_place_ = place_.of_lane(tile % static_cast<uint32>(kWarpSize));
    }
    const Place place = Cache::kIsPaged ? tile_place_ : cache_.place(first);
    const char* const keys = cache_.key(place);
    const char* const values = cache_.value(place);
    if (Copies::kHeld == 0 && tokens_.has_tile(first)) {
      int lane = lane_index();
      if constexpr (!plan::kKeepOffsets) lane = recomputed(lane);
#pragma unroll(kUnrolledVectors)
      for (int i = 0; i < kVectors; ++i) {
        const lanes::Place place = place_of(i, lane);
        const char* src = is_value(i, place) ? values : keys;
        src += plan::kKeepOffsets ? offsets_[i] : offset(place, strides());
        // The address is a kept slot plus a distance that is a constant.
        const int kept = i % plan::kSlotPeriod;
        const uint32 slot = kKeepSlots ? slots_[kept] + (slot_of(i, 0) - slot_of(kept, 0)) : slot_of(i, lane);
        if (!Stage::is_idle(i, lane)) copies_.start(stage + slot, src);
      }
      return;
    }
    start_checked(stage, [&](lanes::Place place) {
      const char* src = (place.row >= kTileTokens ? values : keys) + offset(place, strides());
      const bool valid = tokens_.has(first + place.row % kTileTokens);
      return VectorSource{src, valid};
    });
  }

  /// Closes a tile's copies; called after each fetch, and in place of a fetch when no tile is left.
  __device__ __forceinline__ void close() { copies_.close(); }

  /// Waits until this lane's vectors have arrived for all tiles except the kStages - 2 tiles fetched last.
  __device__ __forceinline__ void land() {
    copies_.land([&](int i) { return stage_ + slot_of(i, lane_index()); },
                 [](int i) { return Stage::is_idle(i, lane_index()); });
  }
  __device__ __forceinline__ void land_all() { copies_.land_all(); }

 private:
  using Copies = plan::TileCopies;

  struct VectorSource {
    const char* src;
    bool valid;
  };
  /// Starts the copy of each source(place). The first loop covers the vectors that wait in registers, whose indices
  /// must be constants; the second loop covers the remaining vectors.
  template <class Source>
  __device__ __forceinline__ void start_checked(uint32 stage, Source&& source) {
#pragma unroll
    for (int i = 0; i < Copies::kHeld; ++i) {
      const VectorSource vector = source(place_of(i, lane_index()));
      copies_.hold(i, vector.src, vector.valid && !Stage::is_idle(i, lane_index()));
    }
#pragma unroll(Copies::kUnrolled)
    for (int i = Copies::kHeld; i < kVectors; ++i) {
      const lanes::Place place = place_of(i, lane_index());
      const VectorSource vector = source(place);
      if (!Stage::is_idle(i, lane_index())) copies_.start(stage + Stage::slot(place), vector.src, vector.valid);
    }
  }

  // More slots would fill registers. If rows are padded instead of swizzled, the compiler finds the constants itself.
  static constexpr bool kKeepSlots = plan::kSlotPeriod <= 4;

  struct Strides {
    int key;
    int value;
  };
  __device__ __forceinline__ Strides strides() const { return {cache_.key_stride(), cache_.value_stride()}; }

  /// Place of a tile's first row; the tile lies in one page.
  __device__ __forceinline__ Place place_of_tile(int first) const {
    const int token = tokens_.readable(first);
    return tokens_.has(token) ? cache_.place(token).behind(first - token) : Place{};
  }

  /// Starts the copies of rows that may lie in any page.
  __device__ __forceinline__ void fetch_rows(uint32 stage, int first) {
    const int own = lane_index();
    const char* const row = own < kTileTokens ? cache_.key(place_) : cache_.value(place_);
    start_checked(stage, [&](lanes::Place place) {
      const char* const src = from_lane(row, place.row) + place.byte;
      const bool valid = tokens_.has(first + place.row % kTileTokens);
      return VectorSource{src, valid};
    });
  }
  static __device__ __forceinline__ const char* from_lane(const char* address, int lane) {
    const uint64 bits = reinterpret_cast<uint64>(address);
    const uint32 low = __shfl_sync(kFullWarp, static_cast<uint32>(bits), lane);
    const uint32 high = __shfl_sync(kFullWarp, static_cast<uint32>(bits >> 32), lane);
    return reinterpret_cast<const char*>(static_cast<uint64>(high) << 32 | low);
  }

  /// Whether a copy's vector belongs to a value row; a constant except for a copy that covers both keys and values.
  static constexpr __device__ bool is_value(int i, lanes::Place place) {
    if (place_of(i, 0).row >= kTileTokens) return true;
    return place_of(i, kWarpSize - 1).row >= kTileTokens && place.row >= kTileTokens;
  }

  /// Distance in bytes from a tile's first row to a vector.
  static __device__ __forceinline__ int offset(lanes::Place place, Strides stride) {
    return place.row % kTileTokens * (place.row >= kTileTokens ? stride.value : stride.key) + place.byte;
  }

  Cache cache_;
  plan::Tokens tokens_;
  Copies copies_;
  uint32 stage_ = 0;  // of the most recently fetched tile
  Place place_;       // of the lane's tile among 32 tiles, or of the lane's row of the next tile
  Place tile_place_;  // of the most recently fetched tile, or of the lane's row of that tile
  int offsets_[plan::kKeepOffsets ? kVectors : 1];
  uint32 slots_[kKeepSlots ? plan::kSlotPeriod : 1];
};

/// Places of the lane's rows, and therefore of their scales, for tiles whose scales are not loaded yet. With a paged
/// cache the places are kept from the time when the tiles are fetched, because a second page lookup would take longer.
template <class Cache, bool kIsKept>
class OwnPlaces {
 public:
  /// Called once for each tile, after the tile may have been fetched.
  __device__ __forceinline__ void keep(const Fetcher<Cache>& fetcher) {
    if constexpr (kIsKept) {
#pragma unroll
      for (int i = kKept - 1; i > 0; --i) places_[i] = places_[i - 1];
      places_[0] = fetcher.own_place();
    }
  }
  /// Place for the tile kStages - 2 before the tile that was kept last. `first` is the first token of that older tile.
  __device__ __forceinline__ typename Cache::Place oldest(const Cache& cache, int first) const {
    if constexpr (kIsKept) {
      return places_[kKept - 1];
    } else {
      return cache.place(first + lane_index() % kTileTokens);
    }
  }

 private:
  static constexpr int kKept = kIsKept ? plan::kStages - 1 : 1;
  typename Cache::Place places_[kKept];
};

/// Main loop of one warp: processes the warp's tiles of the visited chunks [share.first, share.last).
__device__ __forceinline__ void process_tiles(const Share& share, const plan::Tokens& tokens, const plan::Cache& cache,
                                              const plan::Queries& queries, const Keys::Query& query, uint32 stages,
                                              Softmax& softmax, Values::Accumulator& output, const BlockScores& steps) {
  Fetcher<plan::Cache> fetcher(cache, tokens);
  const int warp = warp_index();
  const auto token_of = [&](int chunk) {
    if constexpr (plan::Score::kRises) chunk = max(0, share.first + share.last - 1 - chunk);  // the last chunk first
    return tokens.token(chunk * kChunkTokens + warp * kTileTokens);
  };
#pragma unroll
  for (int stage = 0; stage < plan::kStages; ++stage) clear_padding(stages + stage * kStageBytes);
  // One loop fills and drains the ring: tile `ahead` is fetched while tile `ahead - (kStages - 1)` is in use. Scales in
  // a separate tensor are loaded while one tile is in use.
  StageScales scales;
  StageScales next_scales;
  OwnPlaces<plan::Cache, Scales::kAny && plan::Cache::kIsPaged> own_places;
  const auto scale_rows = Scales::rows(cache);
  int fill = 0;
  int ahead = share.first;
  const int tiles = share.last - share.first;
  const auto first_of = [&](int tile) { return token_of(share.first + tile); };
  fetcher.look_up(0, tiles, first_of);
  do {  // at least one iteration, so that no value from before the loop is needed
    fetcher.land();
    __syncwarp();
    if (ahead < share.last) fetcher.fetch(stages + fill * kStageBytes, ahead - share.first, token_of(ahead));
    fetcher.close();
    own_places.keep(fetcher);
    if (ahead + 1 < share.last) fetcher.look_up(ahead + 1 - share.first, tiles, first_of);

    fill = fill + 1 == plan::kStages ? 0 : fill + 1;  // the stage that is filled next is the stage in use now
    const int chunk = ahead - (plan::kStages - 1);
    const int first = token_of(chunk);
    scales = next_scales;
    if (Scales::kAny && chunk + 1 >= share.first && chunk + 1 < share.last) {
      const int next = token_of(chunk + 1);
      next_scales.tiles[0].fetch(scale_rows, own_places.oldest(cache, next), next, tokens);
    }
    // The condition is uniform across the warp. The last chunk may lack this warp's tokens.
    if (chunk >= share.first && first < tokens.length()) {
      const uint32 stage = stages + fill * kStageBytes;
      attend(query, stage, ConsecutiveRows{first}, queries, tokens, softmax, output, steps, scales);
    }
  } while (++ahead < share.last + plan::kStages - 1);
  fetcher.land_all();
}

struct BlockPlace {
  int head_group;
  int split;
  int sequence;  // batch · kv_heads + kv_head
  int kv_head;
  int batch;
};

/// Computes a block's place in the problem. Head groups of a KV head are neighbouring blocks: they read the same tokens
/// at about the same time, so that all but the first find the tokens in the L2.
__device__ __forceinline__ BlockPlace place_of_block(const GqaDecodeArguments& args, uint32 index) {
  BlockPlace place;
  const uint32 block = index / plan::kHeadGroups;
  const uint32 sequence = block / args.splits;
  const uint32 batch = sequence / args.kv_heads;
  place.head_group = static_cast<int>(index - block * plan::kHeadGroups);
  place.split = static_cast<int>(block - sequence * args.splits);
  place.sequence = static_cast<int>(sequence);
  place.kv_head = static_cast<int>(sequence - batch * args.kv_heads);
  place.batch = static_cast<int>(batch);
  return place;
}

__device__ __forceinline__ Share share_of_block(const GqaDecodeArguments& args, const BlockPlace& place,
                                                const plan::Tokens& tokens) {
  return share_of((tokens.visited() + kChunkTokens - 1) / kChunkTokens, args.splits, place.split);
}

/// Loads the query operands; all warps call the function. If operands are shared, each warp makes the operands of some
/// head tiles, and a barrier then makes them visible to the whole block.
template <class Query>
__device__ __forceinline__ void load_block_query(Query& query, const GqaDecodeArguments& args, int batch, int kv_head,
                                                 int head_group) {
  const float factor = args.scale_log2 * Keys::key_factor(args);
  if constexpr (Query::kIsShared) {
    using OneTile = Keys::OneTile;
#pragma unroll 1
    for (int tile = warp_index(); tile < Keys::kHeadTiles; tile += plan::kWarps) {
      // A tile beyond the last head duplicates that head, as query rows beyond the last do.
      const int first = min(8 * tile, heads_in(head_group) - 1);
      OneTile::RawQuery raw;
      auto one = OneTile::Query::in_block(0);
      OneTile::fetch_query(raw, plan::Queries::rows(args, batch, kv_head, first_query_row(head_group) + first),
                           heads_in(head_group) - first);
      OneTile::load_query(one, raw, factor * Keys::kSharedQueryFactor);
      query.set(tile, one);
    }
    __syncthreads();
  } else {
    Keys::RawQuery raw;
    fetch_queries(raw, args, batch, query_rows_of_warp(kv_head, head_group));
    Keys::load_query(query, raw, factor);
  }
}

}  // namespace cubit

extern "C" __global__ void __launch_bounds__(plan::kWarps * 32, plan::kBlocksPerSm)
    gqa_decode(const __grid_constant__ cubit::GqaDecodeArguments args) {
  using namespace cubit;
  extern __shared__ __align__(128) unsigned char shared[];
  const BlockPlace place = place_of_block(args, blockIdx.x);
  const int warp = warp_index();
  allow_next_kernel();
  wait_for_previous_kernel();

  const int length = length_of(args, place.batch);
  const plan::Tokens tokens(args, length, plan::Queries::query_position(length, 0));
  const Share share = share_of_block(args, place, tokens);

  if (place.split >= share.active) return;

  Softmax softmax(first_reference());
  Values::Accumulator output;
  {
    Keys::Query query = Keys::Query::in_block(shared_address(shared) + plan::kQueryAt);
    load_block_query(query, args, place.batch, place.kv_head, place.head_group);
    const plan::Cache cache = plan::Cache::rows(args, place.batch, place.kv_head);
    const int query_row = first_query_row(place.head_group);
    const plan::Queries queries = plan::Queries::of_block(args, place.batch, length, query_row);
    const BlockScores steps(args, place.batch, {place.kv_head, query_row, heads_in(place.head_group)}, length);
    process_tiles(share, tokens, cache, queries, query,
                  settled(shared_address(shared) + warp * plan::kStages * kStageBytes), softmax, output, steps);
  }
  finish_softmax<Values>(softmax, output);
  Values::scale_outputs(output, args);

  __syncthreads();  // warps store results over the stages of other warps
  const WarpResults results = results_in(shared);
  Values::store(output, results.outputs + warp * plan::kHeadsPerBlock * kMergePitch, kMergePitch);
  store_stats(softmax, results.stats + warp * plan::kHeadsPerBlock);
  __syncthreads();

  // The place is computed a second time if the main loop has no register to spare.
  const BlockPlace own = Keys::Query::kIsShared ? place_of_block(args, recomputed(blockIdx.x)) : place;
  int active = share.active;
  if constexpr (Keys::Query::kIsShared) {
    const int own_length = length_of(args, own.batch);
    const plan::Tokens own_tokens(args, own_length, plan::Queries::query_position(own_length, 0));
    active = share_of_block(args, own, own_tokens).active;
  }
  const int sequence_and_group =
      own.sequence * plan::kHeadGroups + own.head_group;  // has one counter, and one slot for each split
  const int first = sequence_and_group * args.splits;
  const ResultSlot destination = {{active, first, 0, 1}, first + own.split, args.counters + sequence_and_group};
  merge(args, destination, {own.batch, own.kv_head, 1, own.head_group}, results,
        [&](const PartialResults& partials, int row, int quad) {
          if constexpr (plan::kPartialsAtOnce == 0) {
            return combine<8>(partials, row, quad);
          } else {
            constexpr uint32 kPitch = 16 * plan::kWarps * kWarpSize;
            const uint32 base =
                shared_address(shared) + WarpResults::kOutputsAt;  // not over the word that warps read last
            return combine_through_memory<plan::kPartialsAtOnce>(
                partials, row, quad,
                {base + 16 * threadIdx.x, kPitch, base + plan::kPartialsAtOnce * kPitch + 8 * kWarpSize * warp});
          }
        });
}
