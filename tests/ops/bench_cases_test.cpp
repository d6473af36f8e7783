// Proves that the benchmark's table is one that can be measured: texts are canonical, cases differ, and what a case's bytes
// are agrees with the floors that its targets were derived from.
#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops {
namespace {

std::vector<BenchCase> cases() { return gqa_decode_operator().bench_cases(); }

/// Throws nothing: a head count of a later version is no mistake of the table.
bool is_known(const BenchCase& one) {
  try {
    gqa_decode::parse(one.descriptor);
    return true;
  } catch (const Failure&) {
    return false;
  }
}

TEST(BenchCases, AreCanonicalAndDiffer) {
  std::set<std::string> seen;
  int known = 0;
  for (const BenchCase& one : cases()) {
    EXPECT_TRUE(seen.insert(one.group + one.name + one.descriptor).second) << one.name << " " << one.descriptor;
    if (!is_known(one)) continue;
    ++known;
    EXPECT_EQ(gqa_decode_operator().canonical(one.descriptor), one.descriptor);
  }
  EXPECT_GE(known, 28);
}

// The same cases with few tokens: every size is one that made-up data takes.
TEST(BenchCases, SizesAreThoseOfRandomData) {
  for (const BenchCase& one : cases()) {
    if (!is_known(one)) continue;
    Numbers sizes = one.sizes;
    sizes.at("context") = 16;
    EXPECT_GT(gqa_decode_operator().random(one.descriptor, sizes, 1)->bytes_read(), 0u) << one.descriptor;
  }
}

// Reading is the least a kernel does: no target is below the bytes at the bandwidth of an H200, 4.8 TB/s by its data sheet.
TEST(BenchCases, TargetsArePossible) {
  constexpr double kBytesPerMicrosecond = 4.8e6;
  for (const BenchCase& one : cases()) {
    EXPECT_LE(one.target_share, 1);
    if (one.target_microseconds == 0 || !is_known(one)) continue;
    const double rows = 2 * one.sizes.at("batch") * one.sizes.at("context") * one.sizes.at("kv_heads");
    const double bytes = rows * gqa_decode::parse(one.descriptor).row_bytes();
    EXPECT_GE(one.target_microseconds, bytes / kBytesPerMicrosecond) << one.descriptor << " " << one.name;
  }
}

}  // namespace
}  // namespace cubit::ops
