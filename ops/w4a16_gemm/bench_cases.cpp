// What `cubit bench w4a16_gemm` measures, and what each cell shall reach: the table of docs/performance/w4a16_gemm.md.
#include <fmt/format.h>

#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

struct Shape {
  int n;
  int k;
  double few;    ///< microseconds at most, for 1, 8 and 16 rows
  double share;  ///< of the read floor at least, likewise
  double rows_32;
  double rows_64;
  /// What was measured to be fastest: for up to 16 rows, and for 32 and 64, whose blocks have 16 rows where these are
  /// below 256; and the largest tile of rows, because smaller ones make for fewer parts of k.
  int tile_n = 256;
  int tile_n_of_32 = 256;
  int tile_n_of_64 = 256;
  int most_tile_m = 64;

  int tile_n_of(int m) const { return m <= 16 ? tile_n : m == 32 ? tile_n_of_32 : m == 64 ? tile_n_of_64 : 256; }
};
constexpr Shape kShapes[] = {{4096, 4096, 5.6, 0.65, 0, 0, 32, 64, 128, 32},
                             {8192, 8192, 11.2, 0.82, 14, 18, 64},
                             {28672, 8192, 31.5, 0.90, 38, 50, 224},
                             {8192, 28672, 31.5, 0.90, 0, 0, 64},
                             {16384, 16384, 35, 0.91, 0, 0, 128}};
/// Of keys' or values' projections, whose tiles are few.
constexpr Shape kNarrow = {1024, 8192, 0, 0, 0, 0, 64};

/// The smallest tile up to `most` that holds the rows: see the plan's decision tile_m.
int tile_for(int m, int most) {
  int tile = 8;
  while (tile < m && tile < most) tile *= 2;
  return tile;
}

BenchCase make_case(std::string group, W4a16Gemm descriptor, const Shape& shape, int m) {
  if (!descriptor.batch_invariant) descriptor.tile_n = shape.tile_n_of(m);
  const bool has_few_columns = descriptor.tile_n < 256;
  // The parts of batch_invariant are as they are.
  descriptor.tile_m = tile_for(m, has_few_columns ? 16 : descriptor.batch_invariant ? 64 : shape.most_tile_m);
  const double target = m <= 16 ? shape.few : m == 32 ? shape.rows_32 : m == 64 ? shape.rows_64 : 0;
  return {std::move(group),
          fmt::format("N={} K={} M={}", shape.n, shape.k, m),
          descriptor.text(),
          {{"m", m}, {"n", shape.n}, {"k", shape.k}},
          target,
          m <= 16 ? shape.share : 0};
}

/// In blocks of 256 columns, which share k in any way, where the other case has fewer.
BenchCase make_wide_case(std::string group, Shape shape, int m) {
  shape.tile_n = 256;
  BenchCase one = make_case(std::move(group), {}, shape, m);
  one.target_microseconds = one.target_share = 0;
  return one;
}

}  // namespace

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  for (const Shape& shape : kShapes) {
    for (const int m : {1, 8, 16, 32, 64, 128}) cases.push_back(make_case("gptq, groups of 128, fp16", {}, shape, m));
  }
  for (const Shape& shape : kShapes) {
    for (const int m : {1, 8, 16}) {
      if (make_case({}, {}, shape, m).descriptor == make_wide_case({}, shape, m).descriptor) continue;
      cases.push_back(make_wide_case("the same in blocks of 256 columns", shape, m));
    }
  }
  for (const int m : {1, 16}) cases.push_back(make_case("1024 columns", {}, kNarrow, m));
  for (const int m : {1, 16}) cases.push_back(make_wide_case("1024 columns in blocks of 256", kNarrow, m));
  const auto add_variant = [&](const char* group, const W4a16Gemm& descriptor) {
    for (const int m : {1, 16}) {
      BenchCase one = make_case(group, descriptor, kShapes[1], m);
      one.target_microseconds = one.target_share = 0;
      cases.push_back(std::move(one));
    }
  };
  // gptq once more: a card that has become warm is slower than the first cases were.
  add_variant("other formats and types", {});
  add_variant("other formats and types", {.format = W4Format::gptq_v2});
  add_variant("other formats and types", {.format = W4Format::symmetric});
  add_variant("other formats and types", {.format = W4Format::awq});
  add_variant("other formats and types", {.element = Element::bf16});
  add_variant("other formats and types", {.group_size = 32});
  add_variant("weights of 8 bits", {.bits = 8});
  add_variant("weights of 8 bits", {.bits = 8, .element = Element::bf16});
  for (const Shape& shape : {kShapes[0], kShapes[1], kShapes[2]}) {
    for (const int m : {1, 16, 64}) {
      BenchCase one = make_case("batch invariant", {.batch_invariant = true}, shape, m);
      one.target_microseconds = one.target_share = 0;
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

}  // namespace cubit::ops::w4a16_gemm
