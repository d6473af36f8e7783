// Descriptors of KV caches whose values have another format or head dimension than their keys, for tests of all
// operators on caches.
#pragma once

#include <cubit/kv_append.hpp>

#include <vector>

#include "tests/support/pairwise.hpp"

namespace cubit::tests {

/// Whether int4_rows supports this head dimension.
inline bool has_packed_rows(int head_dim) { return head_dim % 32 == 0; }

/// The storage format of keys or values.
struct StoredRows {
  KvFormat kv;
  int groups = 1;
  KvScales scales = KvScales::head;
  ScaleType scale_type = ScaleType::fp32;

  bool is_legal(int channels) const {
    if (groups > 1 && channels % (16 * groups) != 0) return false;
    return kv != KvFormat::int4_rows || has_packed_rows(channels);
  }
  auto operator<=>(const StoredRows&) const = default;
};

/// Formats of values that differ from the keys: every format once, then further variants of these formats.
inline constexpr int kMixedFormats = 9;
inline const std::vector<StoredRows>& mixed_rows() {
  static const std::vector<StoredRows> rows = {{KvFormat::bf16},
                                               {KvFormat::int4_rows, 4},
                                               {KvFormat::fp8_e4m3, 1, KvScales::token},
                                               {KvFormat::int8_split, 4, KvScales::group, ScaleType::fp16},
                                               {KvFormat::int4_rows},
                                               {KvFormat::fp8_e5m2, 1, KvScales::tensor, ScaleType::fp16},
                                               {KvFormat::fp16},
                                               {KvFormat::int4_rows, 8},
                                               {KvFormat::int8_split}};
  return rows;
}

/// Channels per row of keys and of values.
struct StoredChannels {
  int key;
  int value;
};

/// Sets a descriptor's fields for the cache's rows. Fields of values are set only if values differ from keys.
template <class Descriptor>
void set_rows(Descriptor& descriptor, const StoredChannels& channels, const StoredRows& keys,
              const StoredRows& values) {
  descriptor.head_dim = channels.key;
  if (channels.value != channels.key) descriptor.value_dim = channels.value;
  descriptor.kv = keys.kv;
  descriptor.groups = keys.groups;
  descriptor.scales = keys.scales;
  descriptor.scale_type = keys.scale_type;
  if (values == keys) return;
  descriptor.value = values.kv;
  descriptor.value_groups = values.groups;
  descriptor.value_scales = values.scales;
  descriptor.value_scale_type = values.scale_type;
}

/// Descriptors of kv_append or kv_gather whose values have another format or another dimension than keys, or both. The
/// list covers every pair of values of every two fields. `formats` limits the list to the first entries of
/// mixed_rows().
template <class Descriptor>
std::vector<Descriptor> mixed_rows_descriptors(int formats = kMixedFormats) {
  static const std::vector<StoredChannels> channels = {{128, 128}, {192, 128}, {64, 256}, {80, 64}};
  const auto rows = [](int format) { return mixed_rows()[static_cast<std::size_t>(format)]; };
  const auto legal = [&](const Combination& c) {
    const StoredChannels& dims = channels[static_cast<std::size_t>(c[2])];
    return !(c[0] == c[1] && dims.key == dims.value) && dims.key % (16 * rows(c[0]).groups) == 0 &&
           dims.value % (16 * rows(c[1]).groups) == 0;
  };
  std::vector<Descriptor> descriptors;
  for (const Combination& c : pairwise_cover({formats, formats, 4, 2, 3}, legal)) {
    Descriptor descriptor;
    set_rows(descriptor, channels[static_cast<std::size_t>(c[2])], rows(c[0]), rows(c[1]));
    descriptor.cache = c[3] == 0 ? KvAddressing::contiguous : KvAddressing::paged;
    if constexpr (requires { descriptor.rotary; }) descriptor.rotary = static_cast<Rotary>(c[4]);
    descriptors.push_back(descriptor);
  }
  return descriptors;
}

}  // namespace cubit::tests
