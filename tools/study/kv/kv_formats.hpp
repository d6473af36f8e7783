// The formats of a KV cache that the study of its accuracy compares.
#pragma once

#include <string>
#include <vector>

namespace cubit::tools {

/// A format that the study compares: a row of the study's table.
struct KvFormat {
  std::string kv;      ///< value of the field kv: "int8_split"; of a simulated format: "int8" or "int4"
  std::string scales;  ///< what shares a scale: "tensor", "token", "head", "group", "channel"; "" for 16 bits
  int groups = 1;      ///< quantisation groups of a row

  /// cubit has no kernel for scales per channel, which all tokens share.
  bool is_simulated() const { return scales == "channel"; }
  /// Whether the caller gives the scales to kv_append, which computes all other scales itself.
  bool takes_scales() const { return scales == "tensor" || scales == "token"; }
  /// Whether the scales are tensors of their own. Rows of int4_rows hold scales and shifts.
  bool has_scale_tensors() const { return !scales.empty() && kv != "int4_rows"; }
  /// The largest magnitude of a code of int8_split and fp8.
  double largest_code() const;
  std::string name() const;  ///< "int8", "fp8_e4m3", "int4"
  /// The fields that kv_append and gqa_decode share: "kv=int8_split,scales=group,groups=4".
  std::string fields() const;
};

/// 16 bits, INT8 per tensor, token, head and group, FP8, INT4 with 1 to 8 groups, and the simulated formats. Formats
/// whose groups the head cannot have are left out, because a group has a multiple of 16 channels.
std::vector<KvFormat> kv_formats(int head_dim);

/// Keeps the formats whose names are in a list such as "int8,int4"; an empty list keeps all. Throws BadInput.
std::vector<KvFormat> chosen_formats(const std::vector<KvFormat>& formats, const std::string& names);

}  // namespace cubit::tools
