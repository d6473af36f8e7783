// Proves that the benchmark's cases can be measured: descriptor texts are canonical, cases differ, sizes are accepted,
// and the bytes of a case agree with the floor from which its targets were derived.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "check/gqa_decode/problem.hpp"

namespace cubit::check {
namespace {

std::vector<BenchCase> gqa_cases() { return find_problems("gqa_decode").bench_cases(); }

/// Upper limits of the sizes that decide how large a problem is. 32 rows are whole tiles of every matrix layout.
Numbers with_few_elements(Numbers sizes) {
  const Numbers limits = {{"context", 16}, {"tokens", 4}, {"rows", 32}, {"columns", 2048}, {"n", 256}, {"k", 1024}};
  for (auto& [name, value] : sizes) {
    const auto limit = limits.find(name);
    if (limit != limits.end()) value = std::min(value, limit->second);
  }
  return sizes;
}

TEST(BenchCases, AreCanonicalAndDiffer) {
  for (const OperatorProblems& problems : operator_problems()) {
    std::set<std::string> seen;
    for (const BenchCase& one : problems.bench_cases()) {
      SCOPED_TRACE(one.descriptor + " " + one.name);
      EXPECT_TRUE(seen.insert(one.group + one.name + one.descriptor).second);
      ASSERT_EQ(&find_problems(one.descriptor), &problems) << "a descriptor of another operator";
      EXPECT_EQ(find_operator(one.descriptor).canonical(one.descriptor), one.descriptor);
      if (!one.comparable.empty()) {
        EXPECT_EQ(find_operator(one.comparable).canonical(one.comparable), one.comparable);
      }
    }
  }
}

// The same cases with few elements prove that made-up data accepts every size.
TEST(BenchCases, SizesAreThoseOfRandomData) {
  constexpr std::size_t kMostBytes = 64 << 20;
  for (const OperatorProblems& problems : operator_problems()) {
    for (const BenchCase& one : problems.bench_cases()) {
      SCOPED_TRACE(one.descriptor + " " + one.name);
      const std::size_t bytes = problems.random(one.descriptor, with_few_elements(one.sizes), 1)->bytes_read();
      EXPECT_GT(bytes, 0u);
      ASSERT_LE(bytes, kMostBytes) << "with_few_elements() limits no size of this operator";
    }
  }
}

// A kernel must at least read its bytes. No target is shorter than that at the bandwidth of an H200, 4.8 TB/s according
// to its data sheet.
TEST(BenchCases, TargetsArePossible) {
  constexpr double kBytesPerMicrosecond = 4.8e6;
  for (const BenchCase& one : gqa_cases()) {
    EXPECT_LE(one.target_share, 1);
    if (one.target_microseconds == 0) continue;
    const GqaDecode descriptor = gqa_decode::parse(one.descriptor);
    const double rows = one.sizes.at("batch") * one.sizes.at("context") * one.sizes.at("kv_heads");
    const double bytes = rows * (descriptor.row_bytes() + descriptor.value_row_bytes());
    EXPECT_GE(one.target_microseconds, bytes / kBytesPerMicrosecond) << one.descriptor << " " << one.name;
  }
}

// A floor reads as many bytes as the case: keys and values as each is stored, with the scales of both.
TEST(BenchCases, FloorsOfMixedCachesAreThoseOfBothFormats) {
  struct Floor {
    const char* descriptor;
    std::size_t row_bytes;  ///< bytes of a key and a value, with their scales
    std::size_t query_bytes;
  };
  constexpr Floor kFloors[] = {
      {"gqa_decode:heads_per_kv=8,kv=fp8_e4m3,value=int4_rows,value_groups=4", 128 + 4 + 64 + 16, 8 * 2 * 128},
      {"gqa_decode:heads_per_kv=8,value=fp8_e4m3", 256 + 128 + 4, 8 * 2 * 128},
      {"gqa_decode:head_dim=192,heads_per_kv=8,value_dim=128", 384 + 256, 8 * 2 * 192}};
  for (const Floor& floor : kFloors) {
    int measured = 0;
    for (const BenchCase& one : gqa_cases()) {
      if (one.descriptor != floor.descriptor) continue;
      ++measured;
      const auto batch = static_cast<std::size_t>(one.sizes.at("batch"));
      Numbers sizes = one.sizes;
      sizes.at("context") = 16;
      const auto problem = find_problems("gqa_decode").random(one.descriptor, sizes, 1);
      EXPECT_EQ(problem->bytes_read(), batch * (16 * floor.row_bytes + floor.query_bytes)) << one.descriptor;
    }
    EXPECT_EQ(measured, 3) << floor.descriptor;
  }
}

}  // namespace
}  // namespace cubit::check
