// Shared-memory accesses of the main loop that several kernel families make: reads of keys and values, and stores of
// the padding next to their headers.
#include <algorithm>

#include "ops/gqa_decode/accesses.hpp"

namespace cubit::ops::gqa_decode {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using kv_cache::RowFormat;

/// RowsOfBytes::load_words for keys or for values: pairs of steps of 16 channels, and the last step alone if the number
/// of steps is odd.
void add_byte_words(const RowFormat& format, const char* pairs, const char* last, int first_row,
                    std::vector<TileAccess>& accesses) {
  const int steps = format.head_dim / 16;
  accesses.push_back({pairs, AccessKind::ldmatrix, 16, steps / 2, [=](int pair, int lane) -> MaybeByte {
                        return byte_at(lanes::byte_words(lane, pair, first_row));
                      }});
  if (steps % 2 == 0) return;
  accesses.push_back({last, AccessKind::ldmatrix, 16, 1, [=](int, int lane) -> MaybeByte {
                        if (lane >= 16) return std::nullopt;
                        return byte_at(lanes::byte_last_words(lane, steps - 1, first_row));
                      }});
}

/// Matrices of packed words, each of 32 channels.
void add_int4_words(const RowFormat& format, const char* pairs, const char* last, int first_row,
                    std::vector<TileAccess>& accesses) {
  add_int4_matrices(format.head_dim / 32, padded_header_bytes(format), pairs, last, first_row, accesses);
}

/// ldmatrix.x2 takes 16 row addresses from the first 16 lanes.
TileAccess int4_header_matrices(const RowFormat& format, const char* name, int first_row) {
  return {name, AccessKind::ldmatrix, 16, padded_header_bytes(format) / 16, [=](int chunk, int lane) -> MaybeByte {
            if (lane >= 16) return std::nullopt;
            return byte_at(lanes::int4_header_matrices(lane, chunk, first_row));
          }};
}

/// Loads of value scales for several tiles of query rows, in the order in which the products need the scales.
TileAccess int4_token_headers(const RowFormat& format, const char* name, int first_row) {
  const int pairs = std::min(format.groups, 4);
  const int vectors = format.groups / pairs;
  return {name, AccessKind::load, 4 * pairs, 4 * vectors, [=](int instance, int lane) -> MaybeByte {
            return byte_at(lanes::int4_token_pairs(lane, instance / vectors, pairs * (instance % vectors), first_row));
          }};
}

}  // namespace

int padded_header_bytes(const RowFormat& format) { return (format.header_bytes() + 15) / 16 * 16; }

int stage_row_bytes(const kv_cache::RowFormat& format) {
  return format.row_bytes() - format.header_bytes() + padded_header_bytes(format);
}

void add_int4_matrices(int matrices, int start, const char* pairs, const char* last, int first_row,
                       std::vector<TileAccess>& accesses) {
  accesses.push_back({pairs, AccessKind::ldmatrix, 16, matrices / 2, [=](int instance, int lane) -> MaybeByte {
                        return byte_at(lanes::int4_words(lane, 2 * instance, start, first_row));
                      }});
  if (matrices % 2 == 0) return;
  accesses.push_back({last, AccessKind::ldmatrix, 16, 1, [=](int, int lane) -> MaybeByte {
                        if (lane >= 16) return std::nullopt;
                        return byte_at(lanes::int4_last_words(lane, matrices - 1, start, first_row));
                      }});
}

TileAccess int4_header_loads(const RowFormat& format, const char* name, int first_row) {
  const int pairs = std::min(format.groups, 4);
  const int vectors = format.groups / pairs;
  return {name, AccessKind::load, 4 * pairs, 2 * vectors, [=](int instance, int lane) -> MaybeByte {
            return byte_at(lanes::int4_header_pairs(lane, instance / vectors, pairs * (instance % vectors), first_row));
          }};
}

void add_padding_stores(const RowFormat& format, int rows, std::vector<TileAccess>& accesses) {
  const int header = format.header_bytes();
  const int padding_words = (padded_header_bytes(format) - header) / 4;
  if (padding_words == 0) return;
  accesses.push_back(
      {"zeros next to headers", AccessKind::store, 4, rows / 8, [=](int instance, int lane) -> MaybeByte {
         if (lane / 8 >= padding_words) return std::nullopt;
         return byte_at(lanes::int4_padding(lane, 8 * instance, header));
       }});
}

void add_key_reads(const RowFormat& format, std::vector<TileAccess>& accesses) {
  if (format.kv == KvFormat::int4_rows) {
    accesses.push_back(int4_header_matrices(format, "ldmatrix.x2 of key headers", 0));
    accesses.push_back(int4_header_loads(format, "loads of key scales", 0));
    add_int4_words(format, "ldmatrix.x4 of key words", "ldmatrix.x2 of the last key words", 0, accesses);
  } else if (format.has_scales()) {
    add_byte_words(format, "ldmatrix.x4 of keys", "ldmatrix.x2 of the last keys", 0, accesses);
  } else {
    accesses.push_back({"ldmatrix.x4 of keys", AccessKind::ldmatrix, 16, format.head_dim / 16,
                        [](int step, int lane) -> MaybeByte { return byte_at(lanes::rows16_keys(lane, step)); }});
  }
}

void add_value_reads(const RowFormat& format, int head_tiles, std::vector<TileAccess>& accesses) {
  constexpr int kFirst = lanes::kTileRows;
  if (format.kv == KvFormat::int4_rows) {
    accesses.push_back(int4_header_matrices(format, "ldmatrix.x2.trans of value headers", kFirst));
    const char* const scales = "loads of value scales";
    accesses.push_back(head_tiles > 1 ? int4_token_headers(format, scales, kFirst)
                                      : int4_header_loads(format, scales, kFirst));
    add_int4_words(format, "ldmatrix.x4.trans of value words", "ldmatrix.x2.trans of the last value words", kFirst,
                   accesses);
  } else if (format.has_scales()) {
    add_byte_words(format, "ldmatrix.x4.trans of values", "ldmatrix.x2.trans of the last values", kFirst, accesses);
  } else {
    accesses.push_back({"ldmatrix.x4.trans of values", AccessKind::ldmatrix, 16, format.head_dim / 16,
                        [](int step, int lane) -> MaybeByte { return byte_at(lanes::rows16_values(lane, step)); }});
  }
}

}  // namespace cubit::ops::gqa_decode
