// Queries, keys and values of the KV-cache study, their attention in double precision, and simulated formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/study/kv/kv_formats.hpp"
#include "tools/study/matrix.hpp"

namespace cubit::tools {

struct KvSizes {
  std::size_t batch = 1;
  std::size_t tokens = 512;
  std::size_t kv_heads = 2;
  std::size_t heads_per_kv = 4;
  std::size_t head_dim = 128;
  double outliers = 8;  ///< factor of the outlier channels of keys
  std::uint64_t seed = 1;
};

/// Rows of head_dim channels, all rounded to fp16.
struct KvData {
  KvSizes sizes;
  Matrix query;  ///< rows (sequence, query head)
  Matrix key;    ///< rows (sequence, token, KV head)
  Matrix value;  ///< as key
};

/// Normal values. In each KV head, 4 channels of the keys at fixed places are multiplied by `outliers`.
KvData made_up_data(const KvSizes& sizes);

/// Reads the tensors query [batch, query heads, head_dim], key and value [batch, tokens, KV heads, head_dim] of any
/// floating-point type. Throws BadInput.
KvData read_data(const std::string& path);

/// The attention output in double precision, rounded to fp32: rows (sequence, query head).
Matrix attention(const KvData& data);

/// The magnitudes that share one scale each, divided by the format's largest code: [1] or [batch · tokens].
std::vector<float> given_scales(const KvFormat& format, const KvSizes& sizes, const Matrix& rows);

/// Quantises and dequantises a simulated format in double precision: one scale per channel of a KV head, which all
/// tokens share, for keys; values have a scale per row.
KvData simulated(const KvFormat& format, const KvData& data);
/// Bytes of a token of all KV heads in a simulated format. Scales are fp32; those that all tokens share count once.
double simulated_bytes(const KvFormat& format, const KvSizes& sizes);

}  // namespace cubit::tools
