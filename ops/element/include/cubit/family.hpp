// Which of an operator's kernels is meant: each is named after the first architecture that has its instructions. Later
// ones run it too, but for those of sm_90a, which no other has.
#pragma once

namespace cubit {

/// A kernel family; `cubit explain` says why an operator's others were not chosen.
enum class Family {
  automatic,  ///< the one that was measured to be faster
  sm75,       ///< loads and stores instead of cp.async; of fp16
  sm80,       ///< cp.async, ldmatrix, mma.sync
  sm90,       ///< copies of boxes by tensor maps, transaction barriers; GEMMs, on sm_90a alone, with wgmma, and there
              ///< attention of many heads too
};

/// As a descriptor's text has it.
inline const char* family_name(Family family) {
  constexpr const char* kNames[] = {"auto", "sm75", "sm80", "sm90"};
  return kNames[static_cast<int>(family)];
}

}  // namespace cubit
