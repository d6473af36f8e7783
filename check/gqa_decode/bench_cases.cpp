// The cases that `cubit bench gqa_decode` measures, and the time or share of the floor that each case has to reach.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "check/gqa_decode/problem.hpp"
#include "ops/text.hpp"

namespace cubit::check::gqa_decode {
namespace {

constexpr const char* kOneGroup = "kv=int4_rows";
constexpr const char* kFourGroups = "kv=int4_rows,groups=4";
constexpr const char* kSignedBytes = "kv=int8_split";
constexpr const char* kFp8 = "kv=fp8_e4m3";

std::string descriptor(int heads_per_kv, std::string_view format = {}) {
  std::string fields = heads_per_kv == 1 ? "" : fmt::format("heads_per_kv={}", heads_per_kv);
  if (!fields.empty() && !format.empty()) fields += ",";
  fields += format;
  return fields.empty() ? "gqa_decode" : "gqa_decode:" + fields;
}

Numbers sizes(int batch, int context, int kv_heads) {
  return {{"batch", batch}, {"context", context}, {"kv_heads", kv_heads}};
}

/// A batch size, and the targets of each cache format at that size.
struct Cell {
  int batch;
  double bf16;         ///< microseconds of the best peer measured
  double four_groups;  ///< microseconds of int4_rows with four groups
  double share;        ///< share of the read floor: int4_rows with four groups, and 8-bit formats
  double fp8;          ///< microseconds of FlashAttention-3 in full fp8, measured once
};

/// Adds batches of sequences of equal length with one KV head. int4_rows with one group reads fewer bytes than with
/// four groups, so one group has the target of four.
void add_batches(std::vector<BenchCase>& cases) {
  constexpr Cell kCells[] = {{8, 0, 6, 0, 0},
                             {32, 37.7, 13.2, 0.83, 31.1},
                             {64, 67.4, 22.5, 0.89, 47.7},
                             {128, 121.8, 41, 0.93, 77},
                             {256, 236.5, 77, 0.96, 150.4},
                             {512, 469.5, 152, 0.96, 308.1}};
  const std::string group = "query [B, 1, 8, 128], one KV head, T = 8192";
  const auto add = [&](const Cell& cell, std::string_view format, double microseconds, double share) {
    cases.push_back({group, fmt::format("B={}", cell.batch), descriptor(8, format), sizes(cell.batch, 8192, 1),
                     microseconds, share});
  };
  for (const Cell& cell : kCells) add(cell, {}, cell.bf16, 0);
  for (const Cell& cell : kCells) add(cell, kFourGroups, cell.four_groups, cell.share);
  for (const Cell& cell : kCells) add(cell, kOneGroup, cell.four_groups, 0);
  for (const Cell& cell : kCells) add(cell, kSignedBytes, 0, cell.share);
  for (const Cell& cell : kCells) add(cell, kFp8, cell.fp8, cell.share);
  // A paged cache with pages of 16 tokens. The goal is to be at most 5% slower than the contiguous cache.
  for (const std::string_view format :
       {"cache=paged", "kv=int4_rows,groups=4,cache=paged", "kv=fp8_e4m3,cache=paged"}) {
    for (const Cell& cell : kCells) {
      if (cell.batch == 64 || cell.batch == 128 || cell.batch == 512) add(cell, format, 0, 0);
    }
  }
}

void add_many_heads(std::vector<BenchCase>& cases) {
  struct Shape {
    int batch;
    int context;
    double bf16;
    double four_groups;
  };
  constexpr Shape kShapes[] = {{1, 8192, 13, 8}, {1, 131072, 125.5, 46}, {16, 8192, 121, 44}};
  const auto add = [&](const Shape& shape, std::string_view format, double microseconds) {
    cases.push_back({"32 query heads, 8 KV heads", fmt::format("B={} T={}", shape.batch, shape.context),
                     descriptor(4, format), sizes(shape.batch, shape.context, 8), microseconds, 0});
  };
  for (const Shape& shape : kShapes) add(shape, {}, shape.bf16);
  for (const Shape& shape : kShapes) add(shape, kFourGroups, shape.four_groups);
}

void add_ragged(std::vector<BenchCase>& cases) {
  for (const std::string_view format : {"", kFourGroups}) {
    Numbers ragged = sizes(64, 32768, 1);
    ragged["ragged"] = 1;
    cases.push_back({"64 sequences, lengths log-uniform in 1 to 32768, one KV head", "ragged", descriptor(8, format),
                     std::move(ragged), 0, 0.85});
  }
}

/// Adds cases whose lengths are known on the device alone, as in inference engines: the host knows only an upper bound.
void add_lengths_on_the_device(std::vector<BenchCase>& cases) {
  for (const std::string_view format : {"", kFourGroups}) {
    for (const int batch : {8, 64, 96, 128, 512}) {
      Numbers numbers = sizes(batch, 8192, 1);
      numbers["lengths"] = 1;
      cases.push_back({"lengths on the device, 8 heads, one KV head, T = 8192", fmt::format("B={}", batch),
                       descriptor(8, format), std::move(numbers), 0, 0});
    }
  }
}

/// Adds score modifications. The goal is at most 5% more than the first case, which has none. The window keeps an
/// eighth of the tokens, so that case reads an eighth of the cache.
void add_scores(std::vector<BenchCase>& cases) {
  for (const int batch : {64, 128, 512}) {
    const auto add = [&](const char* fields, double window) {
      Numbers numbers = sizes(batch, 8192, 1);
      if (window > 0) numbers["window"] = window;
      cases.push_back({"scores, query [B, 1, 8, 128], one KV head, T = 8192", fmt::format("B={}", batch),
                       descriptor(8, fields), std::move(numbers), 0, 0});
    };
    for (const char* fields : {"", "soft_cap=true", "alibi=true", "sinks=true"}) add(fields, 0);
    add("window=true,sinks=true", 1024);
  }
}

/// Adds cases of four query tokens. The goal is at most 15% more than one query token.
void add_query_tokens(std::vector<BenchCase>& cases) {
  for (const std::string_view format : {"", kFourGroups, kFp8}) {
    for (const int batch : {64, 128, 512}) {
      const std::string fields = fmt::format("{}{}query_tokens=4", format, format.empty() ? "" : ",");
      for (const int heads : {4, 8}) {
        cases.push_back({"4 query tokens, one KV head, T = 8192", fmt::format("B={}, {} heads", batch, heads),
                         descriptor(heads, fields), sizes(batch, 8192, 1), 0, 0});
      }
    }
  }
}

/// Adds caches whose values have fewer bits or fewer channels than the keys, as some models have.
void add_mixed_caches(std::vector<BenchCase>& cases) {
  for (const char* text :
       {"gqa_decode:heads_per_kv=8,kv=fp8_e4m3,value=int4_rows,value_groups=4",
        "gqa_decode:heads_per_kv=8,value=fp8_e4m3", "gqa_decode:head_dim=192,heads_per_kv=8,value_dim=128"}) {
    for (const int batch : {64, 128, 512}) {
      cases.push_back({"values stored otherwise than keys, 8 heads, one KV head, T = 8192", fmt::format("B={}", batch),
                       text, sizes(batch, 8192, 1), 0, 0});
    }
  }
}

void add_head_counts(std::vector<BenchCase>& cases) {
  for (const int heads : {1, 64}) {
    for (const std::string_view format : {"", kFourGroups}) {
      cases.push_back({"B = 128, one KV head, T = 8192", counted(heads, "head"), descriptor(heads, format),
                       sizes(128, 8192, 1), 0, 0.85});
    }
  }
}

/// Adds the remaining head dimensions and group counts.
void add_rows(std::vector<BenchCase>& cases) {
  struct Rows {
    int head_dim;
    std::vector<int> groups;
  };
  const auto add = [&](const std::string& fields) {
    cases.push_back({"rows, B = 128, 8 heads, one KV head, T = 8192", "B=128", fmt::format("gqa_decode:{}", fields),
                     sizes(128, 8192, 1), 0, 0.8});
  };
  const Rows dimensions[] = {{64, {1, 2, 4}}, {96, {1, 2}}, {128, {2, 8}}, {192, {1, 2, 4}}, {256, {1, 2, 4, 8}}};
  for (const Rows& rows : dimensions) {
    const std::string heads =
        rows.head_dim == 128 ? "heads_per_kv=8" : fmt::format("head_dim={},heads_per_kv=8", rows.head_dim);
    if (rows.head_dim != 128) add(heads);
    for (const int groups : rows.groups) {
      add(fmt::format("{},kv=int4_rows{}", heads, groups == 1 ? "" : fmt::format(",groups={}", groups)));
    }
  }
}

}  // namespace

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  add_batches(cases);
  add_many_heads(cases);
  add_ragged(cases);
  add_lengths_on_the_device(cases);
  add_head_counts(cases);
  add_scores(cases);
  add_query_tokens(cases);
  add_mixed_caches(cases);
  add_rows(cases);
  return cases;
}

}  // namespace cubit::check::gqa_decode
