// Ring of pipeline stages that producer warps fill by TMA or cp.async: addresses of the stages and of their mbarriers.
//
// Each stage has a `full` and an `empty` mbarrier. A producer waits at `empty` until the consumers have read the stage,
// and consumers wait at `full` until all copies have arrived. A producer waits at `empty` with the opposite parity of
// its place. Its waits in the first round of the ring therefore name the phase before the first, and return at once.
#pragma once

#include "core/bulk_copies.cuh"
#include "core/types.cuh"

namespace cubit {

/// Place in the ring and phase of its barriers, in one register; advance<kSteps>() moves kSteps stages on. RingPlace
/// (bulk_copies.cuh) takes two registers and less arithmetic.
template <int kCount>
struct RoundPlace {
  int number;  // index in two rounds of the ring

  __device__ __forceinline__ uint32 parity() const { return number >= kCount ? 1 : 0; }
  __device__ __forceinline__ int index() const { return number - (number >= kCount ? kCount : 0); }
  template <int kSteps>
  __device__ __forceinline__ void advance() {
    number += kSteps;
    if (number >= 2 * kCount) number -= 2 * kCount;
  }
};

template <int kCount>
__device__ __forceinline__ int index_of(RingPlace<kCount> place) {
  return place.index;
}
template <int kCount>
__device__ __forceinline__ int index_of(RoundPlace<kCount> place) {
  return place.index();
}

/// kBarriersAt: offset of the first stage's mbarriers. kBarrierBytes: bytes of a stage's mbarriers, 8 each.
template <int kStageBytes, int kBarriersAt, int kBarrierBytes>
struct StageRing {
  uint32 base;

  template <class Place>
  __device__ __forceinline__ uint32 stage(Place place) const {
    return base + index_of(place) * kStageBytes;
  }
  template <class Place>
  __device__ __forceinline__ uint32 full(Place place) const {
    return barriers(index_of(place));
  }
  template <class Place>
  __device__ __forceinline__ uint32 empty(Place place) const {
    return barriers(index_of(place)) + 8;
  }

 protected:
  /// Address of the mbarriers of a stage. Further mbarriers of the block may follow those of the last stage.
  __device__ __forceinline__ uint32 barriers(int index) const { return base + kBarriersAt + kBarrierBytes * index; }
};

}  // namespace cubit
