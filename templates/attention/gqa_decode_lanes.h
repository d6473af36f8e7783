// Which byte of a stage and which element of a merge each lane touches: one statement, used by the kernels and by the
// plan's proofs (ops/gqa_decode/accesses.cpp). Rows of a stage: 16 of keys, then 16 of values.
#pragma once

#include "core/shared_code.h"

namespace cubit::lanes {

inline constexpr int kTileRows = 16;
inline constexpr int kWarpSize = 32;

struct Place {
  int row;
  int byte;
};

/// Copies: what a lane takes with the i-th copy of `rows` rows, 16 or 32; byte counts from the row's start in the
/// cache, and rows beyond the last are none. Whole rows in order, so that lanes read consecutive bytes.
///
/// Not so for narrow copies of rows with a header, whose number of pieces is no power of two: there first come the
/// words, a power of two per row, then the headers. Then a copy's rows are the lane's row plus a constant, and nothing
/// has to be divided by 17. Rows of words that are copied together are 4, 2, 1 apart (the lane's bits reversed): at a
/// pitch of 80 or 48 bytes they fall into different banks. Of words that are a sum of two powers of two (head_dim 96,
/// 160 and 192) the last, as many as the smaller one, come after the others of every row.
CUBIT_SHARED_CODE Place copied_piece(int i, int lane, int header_bytes, int row_bytes, int copy_bytes, int rows) {
  const unsigned pieces = row_bytes / copy_bytes;
  if (header_bytes == 0 || copy_bytes == 16) {
    const unsigned piece = i * kWarpSize + lane;  // unsigned, for the compiler's sake
    return {static_cast<int>(piece / pieces), static_cast<int>(piece % pieces) * copy_bytes};
  }
  const int header = header_bytes / copy_bytes;
  const int words = static_cast<int>(pieces) - header;
  const int word_copies = words * rows / kWarpSize;
  if (i >= word_copies) {
    const int first = (i - word_copies) * (kWarpSize / header);
    return {first + lane / header, lane % header * copy_bytes};
  }
  int most = 1;
  while (2 * most <= words) most *= 2;
  const int most_copies = most * rows / kWarpSize;
  if (i < most_copies) {
    const int steps = most / 4;  // copies of 8 rows
    const int at = lane / most;
    const int reversed = (at & 1) * 4 + (at & 2) + at / 4;
    return {i / steps * 8 + i % steps + reversed, header_bytes + lane % most * copy_bytes};
  }
  const int rest = words - most;
  const int apart = rest * copy_bytes == 32 ? 2 : 1;  // at a pitch of 112 bytes four neighbours would meet in a bank
  const int at = i - most_copies;
  const int row = at / apart * (apart * kWarpSize / rest) + at % apart + lane / rest * apart;
  return {row, header_bytes + (most + lane % rest) * copy_bytes};
}

/// How many of them there are.
CUBIT_SHARED_CODE int count_copies(int header_bytes, int row_bytes, int copy_bytes, int rows) {
  const int pieces = row_bytes / copy_bytes * rows;
  if (header_bytes == 0 || copy_bytes == 16) return (pieces + kWarpSize - 1) / kWarpSize;
  const int headers = header_bytes / copy_bytes * rows;
  return (pieces - headers) / kWarpSize + (headers + kWarpSize - 1) / kWarpSize;
}

/// Family sm90, piece `piece` of 16 bytes of the keys of a stage, or of its values, row after row.
CUBIT_SHARED_CODE Place bulk_piece(int piece, int row_bytes) {
  const int pieces = row_bytes / 16;
  return {piece / pieces, piece % pieces * 16};
}

/// Rows that `threads` take at a time, a piece each; where a row has more pieces than there are threads, one.
CUBIT_SHARED_CODE int bulk_rows(int row_bytes, int threads) {
  const int rows = threads / (row_bytes / 16);
  return rows > 1 ? rows : 1;
}

/// ldmatrix.x4 of 16 key rows × 16 columns: matrices a0 … a3 of the A operand.
CUBIT_SHARED_CODE Place rows16_keys(int lane, int step) { return {lane % 16, 32 * step + 16 * (lane / 16)}; }

/// ldmatrix.x4.trans of 16 value rows × 16 channels: transposed, they are a0 … a3 of Vᵀ.
CUBIT_SHARED_CODE Place rows16_values(int lane, int step) {
  return {kTileRows + lane % 8 + 8 * (lane / 16), 32 * step + 16 * (lane / 8 % 2)};
}

/// ldmatrix.x4 of bytes: rows 0-7 and 8-15 of 16 channels, then of the next 16.
CUBIT_SHARED_CODE Place byte_words(int lane, int pair, int first_row) {
  return {first_row + lane % 16, 32 * pair + 16 * (lane / 16)};
}

/// ldmatrix.x2 of bytes: rows 0-7 and 8-15 of 16 channels without a next; lanes from 16 on repeat the addresses.
CUBIT_SHARED_CODE Place byte_last_words(int lane, int step, int first_row) {
  return {first_row + lane % 16, 16 * step};
}

/// ldmatrix.x4 of packed words: rows 0-7 and 8-15 of matrix `matrix`, then of the next.
CUBIT_SHARED_CODE Place int4_words(int lane, int matrix, int words_start, int first_row) {
  return {first_row + lane % 16, words_start + 16 * (matrix + lane / 16)};
}

/// ldmatrix.x2 of packed words: rows 0-7 and 8-15 of a matrix without a next; lanes from 16 on repeat the addresses.
CUBIT_SHARED_CODE Place int4_last_words(int lane, int matrix, int words_start, int first_row) {
  return {first_row + lane % 16, words_start + 16 * matrix};
}

/// ldmatrix.x2 of headers: rows 0-7 and 8-15 of one 16-byte chunk; lanes from 16 on repeat the addresses.
CUBIT_SHARED_CODE Place int4_header_matrices(int lane, int chunk, int first_row) {
  return {first_row + lane % 16, 16 * chunk};
}

/// Loads of (scale, shift) pairs from pair `pair` on, of row r (half 0) or r + 8 (half 1).
CUBIT_SHARED_CODE Place int4_header_pairs(int lane, int half, int pair, int first_row) {
  return {first_row + lane / 4 + 8 * half, 4 * pair};
}

/// The same of rows 2c, 2c + 1, 2c + 8 and 2c + 9, in this order, of which several head tiles' weights want the scales.
CUBIT_SHARED_CODE Place int4_token_pairs(int lane, int i, int pair, int first_row) {
  return {first_row + 2 * (lane % 4) + i % 2 + 8 * (i / 2), 4 * pair};
}

/// Zeros beside a header: 8 rows from `row` on, one word per 8 lanes.
CUBIT_SHARED_CODE Place int4_padding(int lane, int row, int header_bytes) {
  return {row + lane % 8, header_bytes + lane / 8 * 4};
}

/// Of an accumulator element i of head tile `tile`: its head.
CUBIT_SHARED_CODE int accumulator_head(int lane, int tile, int i) { return 8 * tile + 2 * (lane % 4) + (i & 1); }

/// The same where heads are rows: its first head, or its second.
CUBIT_SHARED_CODE int row_head(int lane, int head) { return lane / 4 + 8 * head; }

/// Rows16ByHeads: the first of the two channels that a lane holds of 8.
CUBIT_SHARED_CODE int row_channel(int lane, int eight) { return 8 * eight + 2 * (lane % 4); }

/// Rows16: the channel of element i of block `step`.
CUBIT_SHARED_CODE int rows16_channel(int lane, int step, int i) { return 16 * step + 8 * (i / 2) + lane / 4; }

/// RowsOfBytes: the first of the two channels of step `step` that a lane holds.
CUBIT_SHARED_CODE int byte_channel(int lane, int step) { return 16 * step + 2 * (lane / 4); }

/// Int4Rows: the first of the four channels of matrix `matrix` that a lane holds.
CUBIT_SHARED_CODE int int4_channel(int lane, int matrix) { return 32 * matrix + 4 * (lane / 4); }

/// Int4Rows whose rows begin anywhere in 16 bytes: of those in which a row's words begin, so many words come before. A
/// lane has the same word, or transposed the same half of a word, of each 16 bytes: of a matrix, which begins in some
/// and ends in the next, this one.
CUBIT_SHARED_CODE int int4_word_between(int lane, int words_before) { return (lane + 4 - words_before) % 4; }
CUBIT_SHARED_CODE int int4_half_between(int lane, int words_before) { return (lane / 4 + 8 - 2 * words_before) % 8; }

/// The same rows: as int4_channel.
CUBIT_SHARED_CODE int int4_channel_between(int lane, int matrix, int words_before) {
  return 32 * matrix + 4 * int4_half_between(lane, words_before);
}

/// Floats from head to head where the warps' outputs are merged; what is added keeps the heads of a store in different
/// banks.
CUBIT_SHARED_CODE int merge_pitch(int head_dim, bool heads_are_rows) { return head_dim + (heads_are_rows ? 8 : 4); }

}  // namespace cubit::lanes
