// Shape constants of int4_rows: how a row's header divides into 16-byte chunks, and its groups of channels into
// matrices of words.
#pragma once

#include "core/types.cuh"

namespace cubit {

/// A matrix of ldmatrix has 16 bytes of each row: 4 words, or 32 channels. A matrix is two halves of 16 channels; lanes
/// with lane % 4 = 0 or 1 hold the first half of an untransposed matrix, and the other lanes hold the second half. A
/// group is a whole number of halves. If that number is odd, every second boundary between groups is in the middle of a
/// matrix, which two groups then share.
template <int kChannels, int kGroupCount>
struct Int4RowsShape {
  static constexpr int kGroups = kGroupCount;
  static constexpr int kMatrices = kChannels / 32;
  static constexpr int kGroupChannels = kChannels / kGroups;
  static_assert(kGroupChannels % 16 == 0 && kChannels % 32 == 0);
  static constexpr int kHalvesPerGroup = kGroupChannels / 16;
  static constexpr bool kGroupsShareMatrices = kHalvesPerGroup % 2 == 1;
  static constexpr int kMatricesPerGroup =
      (kHalvesPerGroup + 1) / 2;  // matrices that have channels of a group, the shared matrix included
  static constexpr int kHeaderBytes = 4 * kGroups;
  static constexpr int kHeaderChunks = (kHeaderBytes + 15) / 16;
  static constexpr int kWordsStart = 16 * kHeaderChunks;  // in a stage's row with a padded header
  static constexpr int kRowBytes = kHeaderBytes + kChannels / 2;
  static constexpr float kSubnormal = 16777216.f;  // 2^24, the factor that nibbles read as fp16 lack

  static constexpr __device__ int first_matrix(int group) { return group * kHalvesPerGroup / 2; }
  // In the following functions, `matrix` is one of the group's kMatricesPerGroup matrices from first_matrix(group) on.

  /// Whether one half of the matrix belongs to another group.
  static constexpr __device__ bool is_shared(int matrix, int group) {
    return kGroupsShareMatrices &&
           (2 * matrix < group * kHalvesPerGroup || 2 * matrix + 2 > (group + 1) * kHalvesPerGroup);
  }
  /// Whether the previous group shares the matrix and has already used it.
  static constexpr __device__ bool is_begun(int matrix, int group) { return 2 * matrix < group * kHalvesPerGroup; }
  /// The group's half of a shared matrix.
  static constexpr __device__ int half_of(int matrix, int group) { return 2 * matrix < group * kHalvesPerGroup; }
};

}  // namespace cubit
