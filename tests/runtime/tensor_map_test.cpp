// Proves: a tensor map names the rule that it breaks in one sentence, and describes itself.
#include "runtime/tensor_map.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

/// Two interleaved KV heads with rows of 80 bytes; a box has 64 tokens of one head.
TensorMap rows_of_a_head() {
  return {.base = 0x7f0000001000,
          .element_bytes = 1,
          .rank = 3,
          .sizes = {80, 2, 4096},
          .strides = {80, 160},
          .box = {80, 1, 64}};
}

TEST(TensorMap, GoodOnesBreakNoRule) {
  EXPECT_EQ(broken_rule(rows_of_a_head()), "");
  EXPECT_NO_THROW(validate(rows_of_a_head()));
  TensorMap map = rows_of_a_head();
  map.l2_bytes = 256;
  map.sizes = {128, 2, std::uint64_t{1} << 32};
  map.strides = {128, (std::uint64_t{1} << 40) - 16};
  map.box = {128, 2, 256};
  map.swizzle = TensorSwizzle::span128;
  EXPECT_EQ(broken_rule(map), "");
  EXPECT_EQ(broken_rule({.base = 16, .element_bytes = 8, .sizes = {1}, .box = {2}}), "");
}

TEST(TensorMap, ABoxHasItsElementsInBytes) {
  EXPECT_EQ(rows_of_a_head().box_bytes(), 80u * 64);
  EXPECT_EQ((TensorMap{.element_bytes = 4, .rank = 2, .box = {8, 3, 100}}).box_bytes(), 4u * 8 * 3);
}

TEST(TensorMap, SaysWhatItIs) {
  EXPECT_EQ(rows_of_a_head().text(),
            "tensor map of 80 x 2 x 4096 elements of 1 bytes at 0x7f0000001000 in boxes of 80 x 1 x 64");
}

TEST(TensorMap, EachBrokenRuleIsASentence) {
  struct Row {
    const char* rule;
    std::function<void(TensorMap&)> damage;
  };
  const Row rows[] = {
      {"a tensor has 1 to 5 dimensions, and not 6", [](TensorMap& map) { map.rank = 6; }},
      {"a tensor has 1 to 5 dimensions, and not 0", [](TensorMap& map) { map.rank = 0; }},
      {"an element has 1, 2, 4 or 8 bytes, and not 3", [](TensorMap& map) { map.element_bytes = 3; }},
      {"its address 0x7f0000001008 is not a multiple of 16", [](TensorMap& map) { map.base += 8; }},
      {"dimension 1 has 0 elements, and not 1 to 2^32", [](TensorMap& map) { map.sizes[1] = 0; }},
      {"dimension 2 has 4294967297 elements, and not 1 to 2^32",
       [](TensorMap& map) { map.sizes[2] = (std::uint64_t{1} << 32) + 1; }},
      {"the stride of dimension 1, 72 bytes, is not a multiple of 16 below 2^40",
       [](TensorMap& map) { map.strides[0] = 72; }},
      {"the stride of dimension 2, 1099511627776 bytes, is not a multiple of 16 below 2^40",
       [](TensorMap& map) { map.strides[1] = std::uint64_t{1} << 40; }},
      {"its box has 0 elements in dimension 1, and not 1 to 256", [](TensorMap& map) { map.box[1] = 0; }},
      {"its box has 257 elements in dimension 2, and not 1 to 256", [](TensorMap& map) { map.box[2] = 257; }},
      {"its box has 1048576 bytes, and an mbarrier counts fewer than 2^20",
       [](TensorMap& map) {
         map.box = {128, 32, 256};
       }},
      {"a row of its box has 72 bytes, which is not a multiple of 16", [](TensorMap& map) { map.box[0] = 72; }},
      {"a swizzle is within 32, 64 or 128 bytes, and not 16",
       [](TensorMap& map) { map.swizzle = static_cast<TensorSwizzle>(16); }},
      {"a row of its box has 80 bytes, and a swizzle within 128 bytes needs rows of exactly that size",
       [](TensorMap& map) { map.swizzle = TensorSwizzle::span128; }},
      {"the second-level cache fetches 64, 128 or 256 bytes, and not 32", [](TensorMap& map) { map.l2_bytes = 32; }},
  };
  for (const Row& row : rows) {
    TensorMap map = rows_of_a_head();
    row.damage(map);
    EXPECT_EQ(broken_rule(map), row.rule);
    try {
      validate(map);
      ADD_FAILURE() << row.rule;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::invalid_argument);
      EXPECT_EQ(failure.given(), map.text());
      EXPECT_EQ(failure.rule(), row.rule);
    }
  }
}

}  // namespace
}  // namespace cubit::runtime
