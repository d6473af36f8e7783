// Rows of a KV cache on the host: the bits of each format, bit for bit.
#pragma once

#include "check/problem.hpp"
#include "ops/kv_cache/row_format.hpp"

namespace cubit::check::kv_cache {

using namespace ops::kv_cache;

/// One row, as KvFormat has it: what a kernel must write, bit for bit. `scales`: its `groups` scales, written where
/// the row makes them, else read.
void quantise_row(const RowFormat& format, const float* src, char* dst, char* scales = nullptr);
/// One row of values, each exact.
void dequantise_row(const RowFormat& format, const char* src, double* dst, const char* scales = nullptr);
/// The scale of values up to `peak`, rounded to its type, as it is stored.
void store_scale(const RowFormat& format, float peak, char* dst);
float load_scale(const RowFormat& format, const char* src);
void load_row(Element element, const char* src, int channels, float* dst);
void store_row(Element element, const float* src, int channels, char* dst);

}  // namespace cubit::check::kv_cache
