// Shared-memory accesses of each lane: which byte of a stage and which element of a merge a lane reads or writes. The
// kernels and the plan's proofs (ops/gqa_decode/accesses.cpp) use the same functions.
//
// The rows of a stage are 16 rows of keys followed by 16 rows of values. As in mma.cuh, r is lane / 4 and c is
// lane % 4.
//
// PTX ISA, "ldmatrix": lanes 8i … 8i + 7 give the row addresses of matrix i. The functions for ldmatrix return the row
// whose address the lane gives. A matrix is 8 rows × 16 bytes.
#pragma once

#include "core/shared_code.h"

namespace cubit::lanes {

inline constexpr int kTileRows = 16;
inline constexpr int kWarpSize = 32;

/// Row of a stage, and byte within the row.
struct Place {
  int row;
  int byte;
};

/// Vector of copy_bytes bytes that a lane copies with its i-th copy of `rows` rows, where `rows` is 16 or 32. Bytes are
/// counted from the row's start in the cache. If the returned row is not below `rows`, the lane copies nothing. By
/// default the vectors are numbered row after row, and copy i has vectors 32i … 32i + 31, so that neighbouring lanes
/// read consecutive bytes.
///
/// Copies of 4 or 8 bytes have another order if rows have a header, because the number of vectors per row is then no
/// power of two. The vectors of packed nibbles ("words" below) of all rows come first, and the headers of all rows come
/// last. The row of copy i is therefore a function of the lane plus a function of i, and nothing needs a division by
/// 17. A copy of words takes 1, 2, 4 or 8 rows of 8. Two rows are 4 apart, four rows are 2 apart, and their order is
/// bit-reversed. At a pitch of 80 or 48 bytes these rows fall into different banks.
///
/// If the number of words per row is a sum of two powers of two (head_dim 96, 160 and 192), copies first take `most`
/// words of every row, where `most` is the larger power. The remaining words of every row follow.
CUBIT_SHARED_CODE Place copied_piece(int i, int lane, int header_bytes, int row_bytes, int copy_bytes, int rows) {
  const unsigned vectors = row_bytes / copy_bytes;
  if (header_bytes == 0 || copy_bytes == 16) {
    const unsigned vector = i * kWarpSize + lane;  // unsigned: the compiler needs fewer instructions
    return {static_cast<int>(vector / vectors), static_cast<int>(vector % vectors) * copy_bytes};
  }
  const int header = header_bytes / copy_bytes;
  const int words = static_cast<int>(vectors) - header;
  const int word_copies = words * rows / kWarpSize;
  if (i >= word_copies) {
    const int first = (i - word_copies) * (kWarpSize / header);
    return {first + lane / header, lane % header * copy_bytes};
  }
  int most = 1;
  while (2 * most <= words) most *= 2;
  const int most_copies = most * rows / kWarpSize;
  if (i < most_copies) {
    const int steps = most / 4;  // number of copies that 8 rows take
    const int at = lane / most;
    const int reversed = (at & 1) * 4 + (at & 2) + at / 4;
    return {i / steps * 8 + i % steps + reversed, header_bytes + lane % most * copy_bytes};
  }
  const int rest = words - most;
  const int apart = rest * copy_bytes == 32 ? 2 : 1;  // at a pitch of 112 bytes four adjacent rows would share a bank
  const int at = i - most_copies;
  const int row = at / apart * (apart * kWarpSize / rest) + at % apart + lane / rest * apart;
  return {row, header_bytes + (most + lane % rest) * copy_bytes};
}

/// Number of copies per lane of copied_piece().
CUBIT_SHARED_CODE int count_copies(int header_bytes, int row_bytes, int copy_bytes, int rows) {
  const int vectors = row_bytes / copy_bytes * rows;
  if (header_bytes == 0 || copy_bytes == 16) return (vectors + kWarpSize - 1) / kWarpSize;
  const int headers = header_bytes / copy_bytes * rows;
  return (vectors - headers) / kWarpSize + (headers + kWarpSize - 1) / kWarpSize;
}

/// Place of 16-byte vector number `vector` of a stage's keys, or of its values, in the sm_90 kernel. Vectors are
/// numbered row after row.
CUBIT_SHARED_CODE Place bulk_piece(int vector, int row_bytes) {
  const int vectors = row_bytes / 16;
  return {vector / vectors, vector % vectors * 16};
}

/// Rows that `threads` threads copy at once, one vector each; at least one row, even if a row has more vectors than
/// there are threads.
CUBIT_SHARED_CODE int bulk_rows(int row_bytes, int threads) {
  const int rows = threads / (row_bytes / 16);
  return rows > 1 ? rows : 1;
}

/// ldmatrix.x4 of 16 key rows × 16 columns: the matrices are a0 … a3 of the A operand.
CUBIT_SHARED_CODE Place rows16_keys(int lane, int step) { return {lane % 16, 32 * step + 16 * (lane / 16)}; }

/// ldmatrix.x4.trans of 16 value rows × 16 channels: the transposed matrices are a0 … a3 of Vᵀ.
CUBIT_SHARED_CODE Place rows16_values(int lane, int step) {
  return {kTileRows + lane % 8 + 8 * (lane / 16), 32 * step + 16 * (lane / 8 % 2)};
}

/// ldmatrix.x4 of bytes: rows 0-7 and 8-15 of 16 channels, then the same rows of the next 16 channels.
CUBIT_SHARED_CODE Place byte_words(int lane, int pair, int first_row) {
  return {first_row + lane % 16, 32 * pair + 16 * (lane / 16)};
}

/// ldmatrix.x2 of bytes: rows 0-7 and 8-15 of the last 16 channels; lanes from 16 on repeat the addresses.
CUBIT_SHARED_CODE Place byte_last_words(int lane, int step, int first_row) {
  return {first_row + lane % 16, 16 * step};
}

/// ldmatrix.x4 of packed words: rows 0-7 and 8-15 of matrix `matrix`, then the same rows of the next matrix.
CUBIT_SHARED_CODE Place int4_words(int lane, int matrix, int words_start, int first_row) {
  return {first_row + lane % 16, words_start + 16 * (matrix + lane / 16)};
}

/// ldmatrix.x2 of packed words: rows 0-7 and 8-15 of the last matrix; lanes from 16 on repeat the addresses.
CUBIT_SHARED_CODE Place int4_last_words(int lane, int matrix, int words_start, int first_row) {
  return {first_row + lane % 16, words_start + 16 * matrix};
}

/// ldmatrix.x2 of headers: rows 0-7 and 8-15 of one 16-byte chunk; lanes from 16 on repeat the addresses.
CUBIT_SHARED_CODE Place int4_header_matrices(int lane, int chunk, int first_row) {
  return {first_row + lane % 16, 16 * chunk};
}

/// Loads of (scale, shift) pairs from pair `pair` on, for row r (half 0) or row r + 8 (half 1).
CUBIT_SHARED_CODE Place int4_header_pairs(int lane, int half, int pair, int first_row) {
  return {first_row + lane / 4 + 8 * half, 4 * pair};
}

/// Loads of (scale, shift) pairs for rows 2c, 2c + 1, 2c + 8 and 2c + 9, in this order. The weights of several head
/// tiles need the scales of these rows.
CUBIT_SHARED_CODE Place int4_token_pairs(int lane, int i, int pair, int first_row) {
  return {first_row + 2 * (lane % 4) + i % 2 + 8 * (i / 2), 4 * pair};
}

/// Stores of the zeros between a header and the next 16-byte boundary, in the 8 rows from `row` on: lane % 8 selects
/// the row, and lane / 8 selects the word. Lanes beyond the last word of padding store nothing.
CUBIT_SHARED_CODE Place int4_padding(int lane, int row, int header_bytes) {
  return {row + lane % 8, header_bytes + lane / 8 * 4};
}

/// Head of element i of an accumulator of head tile `tile`, in layouts whose accumulator columns are heads.
CUBIT_SHARED_CODE int accumulator_head(int lane, int tile, int i) { return 8 * tile + 2 * (lane % 4) + (i & 1); }

/// First or second head of a lane, in layouts whose accumulator rows are heads.
CUBIT_SHARED_CODE int row_head(int lane, int head) { return lane / 4 + 8 * head; }

/// First of the two channels that a lane of Rows16ByHeads holds of channels 8 · eight … 8 · eight + 7.
CUBIT_SHARED_CODE int row_channel(int lane, int eight) { return 8 * eight + 2 * (lane % 4); }

/// Channel of element i of block `step` in Rows16.
CUBIT_SHARED_CODE int rows16_channel(int lane, int step, int i) { return 16 * step + 8 * (i / 2) + lane / 4; }

/// First of the two channels of step `step` that a lane of RowsOfBytes holds.
CUBIT_SHARED_CODE int byte_channel(int lane, int step) { return 16 * step + 2 * (lane / 4); }

/// First of the four channels of matrix `matrix` that a lane of Int4Rows holds.
CUBIT_SHARED_CODE int int4_channel(int lane, int matrix) { return 32 * matrix + 4 * (lane / 4); }

/// Unaligned rows of Int4Rows: the packed words of a row may begin at any word of a 16-byte vector of the stage, and
/// `words_before` words of that vector come before them. A matrix of 4 packed words then begins in one 16-byte vector
/// and ends in the next. Untransposed, ldmatrix gives a lane word c of every vector; transposed, ldmatrix gives it half
/// word r. These functions return the index of that word, or of that half word, within a matrix of packed words.
CUBIT_SHARED_CODE int int4_word_between(int lane, int words_before) { return (lane + 4 - words_before) % 4; }
CUBIT_SHARED_CODE int int4_half_between(int lane, int words_before) { return (lane / 4 + 8 - 2 * words_before) % 8; }

/// Counterpart of int4_channel for unaligned rows.
CUBIT_SHARED_CODE int int4_channel_between(int lane, int matrix, int words_before) {
  return 32 * matrix + 4 * int4_half_between(lane, words_before);
}

/// Floats from one head to the next where the warps' outputs are merged. The padding puts the heads of one store into
/// different banks.
CUBIT_SHARED_CODE int merge_pitch(int head_dim, bool heads_are_rows) { return head_dim + (heads_are_rows ? 8 : 4); }

}  // namespace cubit::lanes
