// The cases that `cubit bench w4a16_gemm` measures, and the time or share of the floor that each case has to reach.
#include <cubit/w4a16_gemm.h>
#include <fmt/format.h>

#include <map>
#include <string>

#include "check/w4a16_gemm/problem.hpp"
#include "ops/gemm/model.hpp"
#include "ops/w4a16_gemm/members.hpp"

namespace cubit::check::w4a16_gemm {
namespace {

struct Shape {
  int n;
  int k;
  double few = 0;    ///< upper limit in microseconds for 1, 8 and 16 rows
  double share = 0;  ///< lower limit of the share of the read floor for 1, 8 and 16 rows
  double rows_32 = 0;
  double rows_64 = 0;
};
constexpr Shape kShapes[] = {{4096, 4096, 5.6, 0.65},
                             {8192, 8192, 11.2, 0.82, 14, 18},
                             {28672, 8192, 31.5, 0.90, 38, 50},
                             {8192, 28672, 31.5, 0.90},
                             {16384, 16384, 35, 0.91}};
/// Shapes of key and value projections, which have few tiles.
constexpr Shape kNarrow = {1024, 8192};

BenchCase make_case(std::string group, const W4a16Gemm& descriptor, const Shape& shape, int m) {
  const double target = m <= 16 ? shape.few : m == 32 ? shape.rows_32 : m == 64 ? shape.rows_64 : 0;
  return {std::move(group),
          fmt::format("N={} K={} M={}", shape.n, shape.k, m),
          descriptor.text(),
          {{"m", m}, {"n", shape.n}, {"k", shape.k}},
          target,
          m <= 16 ? shape.share : 0};
}

/// Makes cases with the tiles that `cubit suggest` names for their sizes. Each set is planned once, because a plan of
/// its members takes a millisecond.
class SuggestedCases {
 public:
  BenchCase make(std::string group, const W4a16Gemm& descriptor, const Shape& shape, int m) {
    const std::string set = descriptor.text();
    auto found = choices_.find(set);
    if (found == choices_.end()) found = choices_.emplace(set, choice_of(descriptor, *device_.architecture)).first;
    return make_case(std::move(group), fastest_member(found->second, m, shape.n, shape.k, device_), shape, m);
  }

 private:
  const runtime::DeviceFacts device_ = ops::gemm::h200();
  std::map<std::string, ops::w4a16_gemm::GemmChoice> choices_;
};

/// The descriptor with 256 columns and the smallest tile that holds the rows: tiles of 256 columns allow every
/// decomposition.
W4a16Gemm with_wide_tile(W4a16Gemm descriptor, int m) {
  descriptor.tile_n = 256;
  for (descriptor.tile_m = 8; descriptor.tile_m < m && descriptor.tile_m < 64;) descriptor.tile_m *= 2;
  return descriptor;
}

/// A case with the tiles of its descriptor: without a suggestion, or to show what another choice costs.
BenchCase make_wide_case(std::string group, const W4a16Gemm& descriptor, const Shape& shape, int m) {
  return make_case(std::move(group), with_wide_tile(descriptor, m), shape, m);
}

/// The descriptor that comparisons of decompositions use.
BenchCase compared(BenchCase one, const W4a16Gemm& descriptor, int m) {
  one.comparable = with_wide_tile(descriptor, m).text();
  return one;
}

BenchCase without_target(BenchCase one) {
  one.target_microseconds = one.target_share = 0;
  return one;
}

}  // namespace

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  SuggestedCases suggested;
  for (const Shape& shape : kShapes)
    for (const int m : {1, 8, 16, 32, 64, 128})
      cases.push_back(compared(suggested.make("gptq, groups of 128, fp16", {}, shape, m), {}, m));
  for (const Shape& shape : kShapes)
    for (const int m : {1, 8, 16})
      cases.push_back(without_target(make_wide_case("the same in blocks of 256 columns", {}, shape, m)));
  for (const int m : {1, 16})
    cases.push_back(make_case("1024 columns", {.tile_m = m <= 8 ? 8 : 16, .tile_n = 64}, kNarrow, m));
  for (const int m : {1, 16}) cases.push_back(make_wide_case("1024 columns in blocks of 256", {}, kNarrow, m));
  const auto add_variant = [&](const char* group, const W4a16Gemm& descriptor) {
    for (const int m : {1, 16}) cases.push_back(without_target(suggested.make(group, descriptor, kShapes[1], m)));
  };
  // gptq once more at the end: a GPU that has become warm is slower than it was for the first cases.
  add_variant("other formats and types", {});
  add_variant("other formats and types", {.format = W4Format::gptq_v2});
  add_variant("other formats and types", {.format = W4Format::symmetric});
  add_variant("other formats and types", {.format = W4Format::awq});
  add_variant("other formats and types", {.element = Element::bf16});
  add_variant("other formats and types", {.group_size = 32});
  add_variant("weights of 8 bits", {.bits = 8});
  add_variant("weights of 8 bits", {.bits = 8, .element = Element::bf16});
  for (const int m : {128, 256, 512, 1024, 2048, 4096, 8192})
    for (const int tile_m : {128, 256}) cases.push_back(make_case("many rows", {.tile_m = tile_m}, kShapes[1], m));
  constexpr int kDenseCases[][2] = {{1, 16},     {16, 16},    {32, 32},    {64, 64},   {128, 128},  {128, 64},
                                    {256, 256},  {256, 128},  {512, 256},  {512, 128}, {1024, 256}, {1024, 128},
                                    {1024, 192}, {2048, 256}, {4096, 256}, {8192, 256}};  // rows, and those of a tile
  for (const auto& [m, tile_m] : kDenseCases)
    cases.push_back(
        without_target(make_case("dense weights", {.format = W4Format::dense, .tile_m = tile_m}, kShapes[1], m)));
  for (const Shape& shape : {kShapes[0], kShapes[1]})
    for (const int m : {1, 16, 64, 256, 1024})
      for (const W4a16Gemm& descriptor : {W4a16Gemm{}, W4a16Gemm{.activation_order = true}})
        cases.push_back(without_target(suggested.make("activation order, and none", descriptor, shape, m)));
  const W4a16Gemm invariant = {.batch_invariant = true};
  for (const Shape& shape : {kShapes[0], kShapes[1], kShapes[2]})
    for (const int m : {1, 16, 64})
      cases.push_back(compared(without_target(make_wide_case("batch invariant", invariant, shape, m)), invariant, m));
  return cases;
}

std::vector<Decomposition> decompositions() {
  return {{"data_parallel", {{"decomposition", CUBIT_W4A16_DATA_PARALLEL}}},
          {"split_k", {{"decomposition", CUBIT_W4A16_SPLIT_K}}},
          {"stream_k", {{"decomposition", CUBIT_W4A16_STREAM_K}}},
          {"split_k_atomic", {{"decomposition", CUBIT_W4A16_SPLIT_K_ATOMIC}}, "atomic_splits=true"}};
}

}  // namespace cubit::check::w4a16_gemm
