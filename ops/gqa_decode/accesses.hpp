// Shared-memory accesses of gqa_decode's kernels as data: the layout of a stage is searched with these accesses, and
// `cubit explain` prints their proofs.
//
// An access names the place of every lane by the functions of templates/attention/gqa_decode_lanes.h, which the kernels
// use as well. Here are the accesses that several families make; a family adds its own.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ops/gqa_decode/plan.hpp"
#include "templates/attention/gqa_decode_lanes.h"

namespace cubit::ops::gqa_decode {

using MaybeByte = std::optional<codegen::TileByte>;

inline codegen::TileByte byte_at(lanes::Place place) { return {place.row, place.byte}; }

/// Bytes of a row's header in a stage: the header is padded to whole matrix rows of 16 bytes.
int padded_header_bytes(const kv_cache::RowFormat& format);
/// Bytes of one row in a stage, with the padded header.
int stage_row_bytes(const kv_cache::RowFormat& format);

/// Reads of scores() in the role Keys.
void add_key_reads(const kv_cache::RowFormat& format, std::vector<codegen::TileAccess>& accesses);
/// Reads of load_value_scales() and accumulate() in the role Values: the rows of values follow the rows of keys.
void add_value_reads(const kv_cache::RowFormat& format, int head_tiles, std::vector<codegen::TileAccess>& accesses);
/// Int4RowsLoads::clear_padding of `rows` rows; adds nothing if headers need no padding.
void add_padding_stores(const kv_cache::RowFormat& format, int rows, std::vector<codegen::TileAccess>& accesses);
/// Matrices of packed words from byte `start` of a row on: pairs of 16 bytes, and the last matrix alone if their number
/// is odd. `pairs`, `last`: names of the accesses.
void add_int4_matrices(int matrices, int start, const char* pairs, const char* last, int first_row,
                       std::vector<codegen::TileAccess>& accesses);
/// Loads of the scales in the headers of packed rows.
codegen::TileAccess int4_header_loads(const kv_cache::RowFormat& format, const char* name, int first_row);

// After the main loop the warps of a block store their results in shared memory, one row of outputs and one of sums for
// each query row of each warp, and the block merges them.

/// Bytes from the outputs of one query row to the next. `heads_are_m`: warpgroup MMAs with query rows as M made them.
int merge_pitch(const CommonPlan& plan, bool heads_are_m);
/// The word at the beginning, by which the last block of a sequence is known.
inline constexpr int kArrivedWordBytes = 16;
/// Bytes of the results of `warps` warps that have tokens of their own, with the word.
int merge_bytes(const CommonPlan& plan, int warps, int pitch);
/// Stores of a block's first warp. The other warps store in the same way in rows behind.
codegen::TileAccess output_stores(const CommonPlan& plan);
codegen::TileAccess sum_stores(const CommonPlan& plan);
inline constexpr const char* kOutputStores = "stores of warps' outputs";
inline constexpr const char* kSumStores = "stores of warps' sums";
/// The tiles of the merge: outputs, then sums. `outputs`, `sums`: the family's stores.
std::vector<Tile> merge_tiles(const CommonPlan& plan, int warps, int pitch, codegen::TileAccess outputs,
                              codegen::TileAccess sums);

}  // namespace cubit::ops::gqa_decode
