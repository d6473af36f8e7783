// Partial sums of the slices of k: how warps store them, learn which warp is last, and add them in a fixed order.
//
// RowSums are a lane's sums of 8 rows of a strip: two times four. In memory a warp's sums are [four sums][lane], with
// 16 bytes per lane; the atomic merge alone stores [sum][lane]. Sums are floats or integers (see scaling.cuh).
//
// Merge: every warp stores its partial sums and arrives at a counter. The last warp to arrive reads the partial sums of
// all slices in the order of the slices, so the result does not depend on which warp is last. That warp also sets the
// counter back to zero.
//
// Atomic merge, only if the launch requests it: partial sums are added in order of arrival (begin_atomic_sums). Among
// the warps with the same columns, the first warp stores its sums, so the workspace need not be zeroed. The other warps
// wait for this store and then add their sums by atomics. The last warp reads totals. Float totals may differ from run
// to run in their last bits; integer totals do not.
//
// PTX ISA, "Memory Consistency Model": bar.warp.sync orders the stores of a warp before the atom.acq_rel of one of its
// lanes. The last warp observes that atom, which orders the stores before the last warp's loads. The loads of its other
// lanes are ordered by another bar.warp.sync.
#pragma once

#include "core/copies.cuh"
#include "core/types.cuh"

namespace cubit {

constexpr int kFourSumsBytes = 16 * kWarpSize;  // four sums of each lane of a warp

/// Partial sums are stored as floats. These functions convert between a sum and the float with the same bits.
template <class Sum>
__device__ __forceinline__ float bits_of(const Sum& sum) {
  static_assert(sizeof(Sum) == 4);
  return reinterpret_cast<const float&>(sum);
}
template <class Sum>
__device__ __forceinline__ Sum sum_of(float bits) {
  return reinterpret_cast<const Sum&>(bits);
}

template <class Sum>
__device__ __forceinline__ float4 pack_sums(const Sum (&sums)[4]) {
  return make_float4(bits_of(sums[0]), bits_of(sums[1]), bits_of(sums[2]), bits_of(sums[3]));
}
template <class Sum>
__device__ __forceinline__ void unpack_sums(Sum (&sums)[4], const float4& packed) {
  sums[0] = sum_of<Sum>(packed.x);
  sums[1] = sum_of<Sum>(packed.y);
  sums[2] = sum_of<Sum>(packed.z);
  sums[3] = sum_of<Sum>(packed.w);
}
template <class Sum>
__device__ __forceinline__ void add_sums(Sum (&sums)[4], const float (&packed)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] += sum_of<Sum>(packed[i]);
}
template <class Sum>
__device__ __forceinline__ void add_sums(Sum (&sums)[4], const float4& packed) {
  sums[0] += sum_of<Sum>(packed.x);
  sums[1] += sum_of<Sum>(packed.y);
  sums[2] += sum_of<Sum>(packed.z);
  sums[3] += sum_of<Sum>(packed.w);
}

/// Arrives at a counter; all lanes of a warp call the function after their stores. Returns true in all lanes of the
/// warp that arrives last. The counter is then zero again, and the stores of the other warps are visible. Each arrival
/// adds kStep; a caller uses a kStep above 1 if the low bits of the counter hold another count.
template <uint32 kStep = 1>
__device__ __forceinline__ bool last_warp(uint32* counter, int arrivals) {
  __syncwarp();
  uint32 before = 0;
  if (lane_index() == 0) {
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "n"(kStep) : "memory");
    if (before / kStep == static_cast<uint32>(arrivals) - 1) *counter = 0;
  }
  before = __shfl_sync(kFullWarp, before, 0);
  __syncwarp();
  return before / kStep == static_cast<uint32>(arrivals) - 1;
}

/// Ends the thread. The explicit exit tells ptxas that no further work tile follows the wait in begin_atomic_sums;
/// without it ptxas spilled registers.
[[noreturn]] __device__ __forceinline__ void end_thread() {
  asm volatile("exit;");
  __builtin_unreachable();
}

/// Loads a sum that other blocks have stored or added to. The load bypasses the L1, as load_other_blocks does.
__device__ __forceinline__ void load_sum_of_blocks(float& sum, const char* src) {
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(sum) : "l"(src) : "memory");
}
__device__ __forceinline__ void load_sum_of_blocks(int& sum, const char* src) {
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(sum) : "l"(src) : "memory");
}

__device__ __forceinline__ void store_or_add(const char* dst, float sum, bool stores) {
  if (stores) {
    asm volatile("st.global.f32 [%0], %1;" ::"l"(dst), "f"(sum) : "memory");
  } else {
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(dst), "f"(sum) : "memory");
  }
}
__device__ __forceinline__ void store_or_add(const char* dst, int sum, bool stores) {
  if (stores) {
    asm volatile("st.global.s32 [%0], %1;" ::"l"(dst), "r"(sum) : "memory");
  } else {
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(dst), "r"(sum) : "memory");
  }
}

/// Layout of an atomic-merge counter: the low half counts warps that have begun, and the high half counts warps that
/// are done.
constexpr uint32 kDone = 1u << 16;

/// Begins an atomic merge; all lanes of a warp call the function before they store or add. Returns true in all lanes of
/// the first warp, which then stores its sums. All other warps wait until the first warp has stored, and then add. The
/// wait cannot deadlock, because the first warp is already running and waits for no other warp.
__device__ __forceinline__ bool begin_atomic_sums(uint32* counter) {
  uint32 before = 0;
  if (lane_index() == 0) {
    asm volatile("atom.acquire.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    for (uint32 now = before; before != 0 && now < kDone;)
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  }
  before = __shfl_sync(kFullWarp, before, 0);
  __syncwarp();
  return before == 0;
}

/// Stores item `i` of a warp's partial sums: four sums. `dst` is the lane's address of item 0.
template <class Sum>
__device__ __forceinline__ void store_partial(char* dst, int i, const Sum (&sums)[4]) {
  *reinterpret_cast<float4*>(dst + kFourSumsBytes * i) = pack_sums(sums);
}

template <class Sum, int kSums>
__device__ __forceinline__ void clear_sums(Sum (&sums)[kSums][2][4]) {
#pragma unroll
  for (int i = 0; i < 8 * kSums; ++i) sums[i / 8][i / 4 % 2][i % 4] = 0;
}

/// sums += the partial sums of slices 0 … count - 1, in this order. `src` is the lane's address in slice 0, and the
/// slices are kSliceBytes apart. The loads of kAtOnce slices are in flight together. Lanes load nothing for sums[i] if
/// `has_rows(i)` is false.
template <int kAtOnce, int kSliceBytes, class Sum, int kSums, class HasRows>
__device__ __forceinline__ void add_slices(Sum (&sums)[kSums][2][4], const char* src, int count, HasRows&& has_rows) {
  constexpr int kItems = 2 * kSums;
#pragma unroll 1
  for (int left = count; left > 0; left -= kAtOnce) {
    float4 partials[kAtOnce][kItems];
#pragma unroll
    for (int i = 0; i < kAtOnce * kItems; ++i) {
      const int slice = i / kItems;
      const int item = i % kItems;
      partials[slice][item] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (slice < left && has_rows(item / 2))
        partials[slice][item] = load_other_blocks(src + slice * kSliceBytes + kFourSumsBytes * item);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce * kItems; ++i) add_sums(sums[i % kItems / 2][i % 2], partials[i / kItems][i % kItems]);
    src = settled(src + kAtOnce * kSliceBytes);
  }
}

}  // namespace cubit
