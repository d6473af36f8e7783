// The gqa_decode descriptors that tests cover: all of them, or a list that covers every pair of values of every two
// fields.
#pragma once

#include <cubit/gqa_decode.hpp>

#include <set>
#include <vector>

#include "tests/support/cache_descriptors.hpp"
#include "tests/support/pairwise.hpp"

namespace cubit::tests {

/// All descriptors with legal values; the architecture chooses the family. Caches with separate scale tensors use only
/// a few numbers of heads, and also pages. Several query tokens use two formats.
inline std::vector<GqaDecode> all_gqa_descriptors() {
  std::vector<GqaDecode> all;
  for (const int head_dim : {64, 80, 96, 112, 128, 160, 192, 256})
    for (int heads = 1; heads <= 64; ++heads)
      for (const KvFormat kv : {KvFormat::bf16, KvFormat::fp16, KvFormat::int4_rows})
        for (const int groups : {1, 2, 4, 8})
          for (const Element query : {Element::bf16, Element::fp16})
            for (const Element output : {Element::bf16, Element::fp16})
              for (const int alignment : {16, 8, 4}) {
                const bool legal = kv == KvFormat::int4_rows
                                       ? has_packed_rows(head_dim) && head_dim % (16 * groups) == 0
                                       : groups == 1;
                if (!legal) continue;
                GqaDecode descriptor{head_dim, heads, kv, groups};
                descriptor.query = query;
                descriptor.output = output;
                descriptor.alignment = alignment;
                all.push_back(descriptor);
              }
  for (const int head_dim : {64, 80, 96, 112, 128, 160, 192, 256})
    for (const int heads : {1, 8, 17, 64})
      for (const KvFormat kv : {KvFormat::int8_split, KvFormat::fp8_e4m3, KvFormat::fp8_e5m2})
        for (const KvScales scales : {KvScales::head, KvScales::token, KvScales::tensor, KvScales::group})
          for (const int groups : {1, 2, 4, 8})
            for (const ScaleType type : {ScaleType::fp32, ScaleType::fp16})
              for (const int alignment : {16, 8, 4}) {
                const bool legal =
                    scales == KvScales::group ? groups > 1 && head_dim % (16 * groups) == 0 : groups == 1;
                if (!legal) continue;
                GqaDecode descriptor{head_dim, heads, kv, groups, scales, type};
                descriptor.alignment = alignment;
                for (const KvAddressing cache : {KvAddressing::contiguous, KvAddressing::paged}) {
                  descriptor.cache = cache;
                  all.push_back(descriptor);
                }
              }
  for (const int head_dim : {64, 96, 128, 192, 256})
    for (const int heads : {1, 3, 8, 64})
      for (const KvFormat kv : {KvFormat::bf16, KvFormat::int4_rows})
        for (int query_tokens = 2; query_tokens <= 16; ++query_tokens)
          for (const QueryMask mask : {QueryMask::causal, QueryMask::tree}) {
            GqaDecode descriptor{head_dim, heads, kv};
            descriptor.query_tokens = query_tokens;
            descriptor.mask = mask;
            descriptor.alignment = descriptor.unpadded_alignment();
            all.push_back(descriptor);
          }
  return all;
}

/// Descriptors whose values have another format or another dimension than keys, or both. The list covers every pair of
/// values of every two fields. `dense_only`: see pairwise_gqa_descriptors(). `formats` limits the list to the first
/// entries of mixed_rows().
inline std::vector<GqaDecode> mixed_gqa_descriptors(bool dense_only, int formats = kMixedFormats) {
  const std::vector<StoredRows>& rows = mixed_rows();
  static const std::vector<StoredChannels> channels = {{128, 128}, {192, 128}, {64, 256},
                                                       {256, 96},  {80, 160},  {112, 64}};
  static const std::vector<int> heads = {1, 8, 12, 33};
  static const std::vector<int> alignments = {16, 8, 4};
  const auto make = [&](const Combination& c) {
    const auto at = [&](std::size_t i) { return static_cast<std::size_t>(c[i]); };
    GqaDecode descriptor;
    set_rows(descriptor, channels[at(2)], rows[at(0)], rows[at(1)]);
    descriptor.heads_per_kv = heads[at(3)];
    descriptor.alignment = alignments[at(4)];
    descriptor.query = c[5] == 0 ? Element::bf16 : Element::fp16;
    descriptor.output = descriptor.query;
    descriptor.cache = c[6] == 0 ? KvAddressing::contiguous : KvAddressing::paged;
    descriptor.query_tokens = c[7] == 0 ? 1 : 5;
    descriptor.mask = c[7] == 2 ? QueryMask::tree : QueryMask::causal;
    descriptor.window = descriptor.sinks = c[8] > 0;
    descriptor.soft_cap = descriptor.alibi = c[8] > 1;
    return descriptor;
  };
  const auto legal = [&](const Combination& c) {
    const StoredChannels& dims = channels[static_cast<std::size_t>(c[2])];
    if (dims.key == dims.value && c[0] == c[1]) return false;
    if (!rows[static_cast<std::size_t>(c[0])].is_legal(dims.key)) return false;
    if (!rows[static_cast<std::size_t>(c[1])].is_legal(dims.value)) return false;
    const GqaDecode descriptor = make(c);
    return !dense_only || (descriptor.row_bytes() % descriptor.alignment == 0 &&
                           descriptor.value_row_bytes() % descriptor.alignment == 0);
  };
  std::vector<GqaDecode> descriptors;
  for (const Combination& c : pairwise_cover({formats, formats, 6, 4, 3, 2, 2, 3, 3}, legal))
    descriptors.push_back(make(c));
  return descriptors;
}

/// A pairwise cover. Of the 64 numbers of heads, the list uses one to three tiles of 8 heads, full and partial, and
/// head groups of equal and unequal size. Of the 16 numbers of query tokens, it uses a few that do and do not fill
/// tiles. `dense_only` keeps only descriptors whose unpadded rows satisfy their alignment, so that dense tensors can be
/// launched.
inline std::vector<GqaDecode> pairwise_gqa_descriptors(bool dense_only) {
  struct Cache {
    KvFormat kv;
    int groups;
    KvScales scales = KvScales::head;
    ScaleType scale_type = ScaleType::fp32;
  };
  static const std::vector<int> head_dims = {64, 80, 96, 112, 128, 160, 192, 256};
  static const std::vector<int> heads = {1, 3, 8, 9, 12, 16, 17, 33, 48, 64};
  static const std::vector<Cache> caches = {{KvFormat::bf16, 1},
                                            {KvFormat::fp16, 1},
                                            {KvFormat::int4_rows, 1},
                                            {KvFormat::int4_rows, 2},
                                            {KvFormat::int4_rows, 4},
                                            {KvFormat::int4_rows, 8},
                                            {KvFormat::int8_split, 1},
                                            {KvFormat::int8_split, 8, KvScales::group, ScaleType::fp16},
                                            {KvFormat::fp8_e4m3, 1, KvScales::token, ScaleType::fp16},
                                            {KvFormat::fp8_e4m3, 2, KvScales::group},
                                            {KvFormat::fp8_e5m2, 1, KvScales::tensor}};
  static const std::vector<Element> elements = {Element::bf16, Element::fp16};
  static const std::vector<int> alignments = {16, 8, 4};
  struct Queries {
    int tokens;
    QueryMask mask = QueryMask::causal;
  };
  static const std::vector<Queries> queries = {{1}, {2}, {5}, {16}, {3, QueryMask::tree}, {16, QueryMask::tree}};
  const auto make = [](const Combination& c) {
    GqaDecode descriptor;
    descriptor.head_dim = head_dims[c[0]];
    descriptor.heads_per_kv = heads[c[1]];
    descriptor.kv = caches[c[2]].kv;
    descriptor.groups = caches[c[2]].groups;
    descriptor.scales = caches[c[2]].scales;
    descriptor.scale_type = caches[c[2]].scale_type;
    descriptor.query = elements[c[3]];
    descriptor.output = elements[c[4]];
    descriptor.alignment = alignments[c[5]];
    descriptor.cache = c[6] == 0 ? KvAddressing::contiguous : KvAddressing::paged;
    descriptor.query_tokens = queries[c[7]].tokens;
    descriptor.mask = queries[c[7]].mask;
    // Score modifications: none; a window with sinks; all modifications except a user's own.
    descriptor.window = descriptor.sinks = c[8] > 0;
    descriptor.soft_cap = descriptor.alibi = c[8] > 1;
    return descriptor;
  };
  const auto legal = [&](const Combination& c) {
    const GqaDecode descriptor = make(c);
    if (descriptor.groups > 1 && descriptor.head_dim % (16 * descriptor.groups) != 0) return false;
    if (descriptor.kv == KvFormat::int4_rows && !has_packed_rows(descriptor.head_dim)) return false;
    return !dense_only || descriptor.row_bytes() % descriptor.alignment == 0;
  };
  std::vector<GqaDecode> descriptors;
  for (const Combination& c : pairwise_cover({8, 10, 11, 2, 2, 3, 2, 6, 3}, legal)) descriptors.push_back(make(c));
  return descriptors;
}

/// Adapts a descriptor to family sm75, which multiplies fp16 only.
inline GqaDecode made_fit_for_sm75(GqaDecode descriptor) {
  if (descriptor.kv == KvFormat::bf16) descriptor.kv = KvFormat::fp16;
  if (descriptor.value == KvFormat::bf16) descriptor.value = KvFormat::fp16;
  if (descriptor.value == KvFormat::fp16 && descriptor.kv == KvFormat::fp16) descriptor.value.reset();
  descriptor.query = descriptor.output = Element::fp16;
  descriptor.family = "sm75";
  return descriptor;
}

/// Descriptors of caches with one byte per channel, adapted to family sm90 whatever `auto` would choose. Each occurs
/// once.
inline std::vector<GqaDecode> sm90_byte_descriptors() {
  std::set<GqaDecode> fitting;
  for (GqaDecode descriptor : pairwise_gqa_descriptors(false)) {
    const bool is_usual = descriptor.head_dim != 80 && descriptor.head_dim != 112 && descriptor.head_dim != 160;
    if (!has_scales(descriptor.kv) || !is_usual) continue;
    descriptor.alignment = 16;
    descriptor.family = "sm90";
    fitting.insert(descriptor);
  }
  return {fitting.begin(), fitting.end()};
}

/// Descriptors adapted to family sm90, which copies rows in bulk together with their scales. Each occurs once.
inline std::vector<GqaDecode> sm90_gqa_descriptors() {
  std::set<GqaDecode> fitting;
  for (GqaDecode descriptor : pairwise_gqa_descriptors(false)) {
    if (descriptor.head_dim == 80 || descriptor.head_dim == 112 || descriptor.head_dim == 160)
      descriptor.head_dim = 192;
    if (descriptor.kv == KvFormat::int4_rows) {
      if (descriptor.head_dim == 96) descriptor.head_dim = 128;  // 4 groups would have 24 channels each
      descriptor.groups = descriptor.groups == 8 && descriptor.head_dim % 128 == 0 ? 8 : 4;
    } else if (descriptor.kv != KvFormat::fp16) {
      descriptor.kv = KvFormat::bf16;
      descriptor.groups = 1;
    }
    descriptor.scales = KvScales::head;
    descriptor.scale_type = ScaleType::fp32;
    descriptor.alignment = 16;
    descriptor.family = "sm90";
    fitting.insert(descriptor);
  }
  return {fitting.begin(), fitting.end()};
}

/// Descriptors for family sm90 whose rows are not a multiple of 16 bytes, so that a bulk copy moves several rows
/// together.
inline std::vector<GqaDecode> sm90_unaligned_row_descriptors() {
  std::set<GqaDecode> fitting;
  for (GqaDecode descriptor : pairwise_gqa_descriptors(false)) {
    if (descriptor.head_dim == 80 || descriptor.head_dim == 112 || descriptor.head_dim == 160)
      descriptor.head_dim = 192;
    descriptor.kv = KvFormat::int4_rows;
    descriptor.groups = descriptor.groups == 1 || descriptor.groups == 4 ? 1 : 2;
    descriptor.scales = KvScales::head;
    descriptor.scale_type = ScaleType::fp32;
    descriptor.cache = KvAddressing::contiguous;
    descriptor.alignment = descriptor.groups == 2 && descriptor.alignment > 4 ? 8 : 4;
    descriptor.family = "sm90";
    fitting.insert(descriptor);
  }
  return {fitting.begin(), fitting.end()};
}

/// Descriptors for family sm75 with one and with two storage formats. Each occurs once.
inline std::vector<GqaDecode> sm75_gqa_descriptors() {
  std::set<GqaDecode> fitting;
  for (const GqaDecode& descriptor : pairwise_gqa_descriptors(false)) fitting.insert(made_fit_for_sm75(descriptor));
  for (const GqaDecode& descriptor : mixed_gqa_descriptors(false)) fitting.insert(made_fit_for_sm75(descriptor));
  return {fitting.begin(), fitting.end()};
}

}  // namespace cubit::tests
