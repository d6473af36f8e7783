// Conversion of a KV cache's rows on the host, bit for bit as each format defines them.
#pragma once

#include "check/problem.hpp"
#include "ops/kv_cache/row_format.hpp"

namespace cubit::check::kv_cache {

using namespace ops::kv_cache;

/// So many rows are worth starting a thread; see parallel_for.
inline constexpr std::int64_t kRowsOfThread = 64;

/// Quantises one row: the bytes that a kernel must write. `scales` has `groups` scales. They are written if the format
/// computes them from the row (RowFormat::makes_scales), and read otherwise.
void quantise_row(const RowFormat& format, const float* src, char* dst, char* scales = nullptr);
/// Dequantises one row; every value is exact.
void dequantise_row(const RowFormat& format, const char* src, double* dst, const char* scales = nullptr);
/// Stores the scale of values up to `peak`, rounded to the type of scales.
void store_scale(const RowFormat& format, float peak, char* dst);
float load_scale(const RowFormat& format, const char* src);
void load_row(Element element, const char* src, int channels, float* dst);
void store_row(Element element, const float* src, int channels, char* dst);

}  // namespace cubit::check::kv_cache
