// Weight operand of the persistent GEMM with activation order: g_idx[k] names the quantisation group of each k. The
// words are those of W4OperandByK (w4_register_operand.cuh).
//
// Neighbouring weights along k share no scale, so that sums have no unit. Each weight is dequantised, and the product
// (q - zero) · scale is rounded once to the element's type. Numbers and scales are multiplied in fp16, or in fp32 for
// bf16 operands.
//
// A table in shared memory has the scales and zeros of the block's features in all groups. The consumer warps fill the
// table when a tile begins. A lane has the same two features of every word, so an entry has two scales and two zeros:
//   row of a group: [64 pairs of features] { two scales | two zeros, as fp16 }
// The four lanes 4 g … 4 g + 3 look up different groups. A row is 32 bytes longer than its entries, so that
// neighbouring groups are in other banks.
//
// A stage has the groups of its values along k behind its words.
//
// PTX ISA: register fragments of wgmma.m64k16, "cp.async.bulk".
#pragma once

#include "core/bulk_copies.cuh"
#include "core/copies.cuh"
#include "core/types.cuh"
#include "core/wgmma.cuh"
#include "gemm/cluster_exchange.cuh"
#include "gemm/persistent_gemm_lanes.h"
#include "kernels/gemm/persistent_gemm_arguments.h"
#include "weight_format/feature_tile.cuh"
#include "weight_format/one_unit.cuh"
#include "weight_format/ordered_pair.cuh"
#include "weight_format/w4_integer_values.cuh"
#include "weight_format/w4_register_operand.cuh"

namespace cubit {

/// kWordsAt: offset of a byte of the words in a stage. kTableAt: offset of the table in shared memory.
template <class Element, int (*kWordsAt)(int, int), bool kGated, bool kStoredZeros, int kZeroOffset, int kTableAt>
class W4OrderedOperand : public OneUnit {
 public:
  using Arguments = PersistentOrderedArguments;
  using Features = persistent_lanes::FeaturesByK<kGated>;
  using Tile = FeatureTile<kGated>;
  static constexpr uint32 kBytes = persistent_lanes::kSlabK * persistent_lanes::kBlockFeatures / 2;

 private:
  using Loader = W4WordLoader<Features, kWordsAt, kGated>;

 public:
  struct Words : Loader::Words {
    uint32 entries[persistent_lanes::kSteps][2][2];  ///< addresses, [half of the step][value of the pair along k]
  };

  static __device__ __forceinline__ void load_stage(const Arguments& args, const TensorMap& map, uint32 dst, Tile tile,
                                                    int slab, uint32 barrier) {
    load_word_boxes<kBytes>(args, map, dst, tile, 1, slab * (persistent_lanes::kSlabK / 8), barrier);
    // Values beyond the end of k have group 0. The thread's arrival at `barrier` comes after these stores.
    for (uint32 i = group_bytes(args, slab); i < 4 * persistent_lanes::kSlabK; i += 4)
      store_shared_word(dst + kBytes + i, 0);
    fence_async_proxy();  // orders these stores before later bulk copies to the same bytes
    copy_bytes(dst + kBytes, args.g_idx + slab * persistent_lanes::kSlabK, group_bytes(args, slab), barrier);
  }
  static __device__ __forceinline__ uint32 stage_bytes(const Arguments& args, int slab) {
    return kBytes + group_bytes(args, slab);
  }

  __device__ __forceinline__ W4OrderedOperand(const Arguments& args, Tile tile, int, uint32 shared)
      : last_group_(args.groups - 1), select_(lane_index() % 4) {
    const uint32 table = shared + kTableAt;
    sync_threads<kThreads>(kConsumerBarrier);  // no warp reads the table of the previous tile any more
    fill_table(args, tile, table);
    sync_threads<kThreads>(kConsumerBarrier);
    entries_ = table + (warp_index() * 8 + lane_index() / 4) * kEntryBytes;
  }

  /// Groups beyond the last one become the last one.
  __device__ __forceinline__ void load(Words& words, uint32 stage) const {
    loader_.load(words, stage);
    const uint32 own = stage + kBytes + 8 * (lane_index() % 4);
#pragma unroll
    for (int i = 0; i < 2 * persistent_lanes::kSteps; ++i) {
      uint32(&entries)[2] = words.entries[i / 2][i % 2];
      load_shared(entries, own + 32 * i);
#pragma unroll
      for (uint32& entry : entries) entry = entries_ + min(entry, last_group_) * kRowBytes;
    }
  }

  template <int kBuffer>
  __device__ __forceinline__ void convert(const Words& words) {
    Entry entries[2][2][2];  // [parity of the step][half][value]: the next step's entries are loaded early
    look_up(entries[0], words.entries[0]);
#pragma unroll
    for (int step = 0; step < persistent_lanes::kSteps; ++step) {
      if (step + 1 < persistent_lanes::kSteps) look_up(entries[(step + 1) % 2], words.entries[step + 1]);
      uint32(&a)[4] = operands_[kBuffer][step];
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // half i / 2, feature i % 2
        const Entry& first = entries[step % 2][i / 2][0];
        const Entry& second = entries[step % 2][i / 2][1];
        const int halves = i % 2 == 0 ? 0x5410 : 0x7632;
        uint32 numbers = nibbles(select_(words.of[step][i / 2][i % 2]));
        if constexpr (kStoredZeros)
          numbers = Pair<Half>::difference(numbers, __byte_perm(first.of[kZeros], second.of[kZeros], halves));
        a[i] = OrderedPair<Element>::scale(numbers, __byte_perm(first.of[0], second.of[0], halves));
      }
      settle_operand(a);
    }
  }

  template <int kBuffer>
  __device__ __forceinline__ const uint32 (&operand(int step) const)[4] {
    return operands_[kBuffer][step];
  }

 private:
  static constexpr int kThreads = persistent_lanes::kConsumerWarps * kWarpSize;
  static constexpr int kPairs = persistent_lanes::kBlockFeatures / 2;
  static constexpr int kEntryWords = kStoredZeros ? 2 : 1;
  static constexpr int kEntryBytes = 4 * kEntryWords;
  static constexpr int kRowBytes = kPairs * kEntryBytes + 32;
  static constexpr int kZeros = kStoredZeros ? 1 : 0;  ///< word of an entry

  struct Entry {
    uint32 of[kEntryWords];
  };

  /// Bytes of the groups of a slab's values along k.
  static __device__ __forceinline__ uint32 group_bytes(const Arguments& args, int slab) {
    return 4 * min(persistent_lanes::kSlabK, args.k - slab * persistent_lanes::kSlabK);
  }

  static __device__ __forceinline__ void look_up(Entry (&entries)[2][2], const uint32 (&addresses)[2][2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) load_shared(entries[i / 2][i % 2].of, addresses[i / 2][i % 2]);
  }

  /// The two nibbles of a byte from W4ByteSelector as fp16, minus the zero if no zeros are stored.
  static __device__ __forceinline__ uint32 nibbles(uint32 bytes) {
    constexpr uint32 kZero = kStoredZeros ? 0 : kZeroOffset;
    constexpr W4Converter<Half> kConverter = {0x2c003c00u, 0xd400e400u + kZero * 0x00100001u};
    return kConverter.template apply<NibblePair::kByte>(bytes);
  }

  /// Columns outside the weights are replaced by others of the same place in their word.
  static __device__ __forceinline__ void fill_table(const Arguments& args, Tile tile, uint32 table) {
    const int pair = static_cast<int>(thread_index()) % kPairs;
    const int column = tile.column(args.n, Features::feature(pair % 8 * 4, pair / 8, 0));
    const int place = column % 8;
    const int first = min(column, (kGated ? args.n / 2 : args.n) - 8 + place);
    const char* const scales = static_cast<const char*>(args.scales) + 2 * static_cast<int64>(first);
    const char* const zeros = static_cast<const char*>(args.qzeros) + first / 8 * 4;
#pragma unroll 8
    for (int group = static_cast<int>(thread_index()) / kPairs; group < args.groups; group += kThreads / kPairs) {
      Entry entry;
      entry.of[0] = load_scales(scales + 2 * (group * static_cast<int64>(args.n)), args.n);
      if constexpr (kStoredZeros)
        entry.of[kZeros] = load_zeros(zeros + group * static_cast<int64>(args.n / 2), args.n, 4 * place);
      store_shared(table + group * kRowBytes + pair * kEntryBytes, entry.of);
    }
  }
  static __device__ __forceinline__ uint32 load_scales(const char* src, int n) {
    uint32 pair[1];
    if constexpr (kGated) {
      uint16 gate, up;
      asm volatile("ld.global.nc.b16 %0, [%1];" : "=h"(gate) : "l"(src));
      asm volatile("ld.global.nc.b16 %0, [%1];" : "=h"(up) : "l"(src + n));
      pair[0] = gate | static_cast<uint32>(up) << 16;
    } else {
      load_global<1, 4>(pair, src);
    }
    return pair[0];
  }
  static __device__ __forceinline__ uint32 load_zeros(const char* src, int n, int shift) {
    constexpr uint32 k1024 = 0x64006400u;
    uint32 word[1];
    load_global<1, 4>(word, src);
    uint32 up[1] = {word[0] >> 4};
    if constexpr (kGated) load_global<1, 4>(up, src + n / 4);
    const uint32 stored = (word[0] >> shift & 15u) | (up[0] >> shift & 15u) << 16;
    return Pair<Half>::difference(k1024 + stored + kZeroOffset * 0x00010001u, k1024);
  }

  uint32 operands_[2][persistent_lanes::kSteps][4];
  uint32 last_group_;
  W4ByteSelector<Half> select_;
  Loader loader_;
  uint32 entries_;  ///< address of the lane's entry in the row of group 0
};

}  // namespace cubit
