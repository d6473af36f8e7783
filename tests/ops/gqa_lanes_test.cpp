// The bytes that lanes of gqa_decode touch: copies take each byte once, and operands match the fragments of the PTX
// ISA.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "codegen/fragments.hpp"
#include "ops/gqa_decode/sm80/sm80.hpp"
#include "templates/attention/gqa_decode_lanes.h"
#include "tests/support/gqa_descriptors.hpp"

namespace cubit::ops {
namespace {

// Copies take every byte of 16 rows of keys and 16 rows of values once. No copy spans a row's header and its words.
TEST(GqaLanes, CopiesTakeEveryByteOnce) {
  for (const GqaDecode& descriptor : tests::pairwise_gqa_descriptors(false)) {
    const auto plan = gqa_decode::sm80::make_plan(descriptor, codegen::find_architecture("sm_80"));
    const int header = plan.formats().key.header_bytes();
    const int row_bytes = descriptor.row_bytes();
    std::vector<int> taken(static_cast<std::size_t>(2 * lanes::kTileRows * row_bytes / plan.copy_bytes));
    for (int i = 0; i < row_bytes / plan.copy_bytes; ++i) {
      for (int lane = 0; lane < lanes::kWarpSize; ++lane) {
        const auto [row, byte] = lanes::copied_piece(i, lane, header, row_bytes, plan.copy_bytes, 32);
        ASSERT_TRUE(row >= 0 && row < 2 * lanes::kTileRows && byte >= 0 && byte + plan.copy_bytes <= row_bytes);
        ASSERT_EQ(byte % plan.copy_bytes, 0);
        ASSERT_TRUE(byte >= header || byte + plan.copy_bytes <= header);
        ++taken[static_cast<std::size_t>((row * row_bytes + byte) / plan.copy_bytes)];
      }
    }
    EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), std::ssize(taken)) << descriptor.text();
  }
}

// If keys and values have different formats, separate copies take 16 rows of each. They take every byte once; lanes
// without a row are idle.
TEST(GqaLanes, CopiesOfTwoFormatsTakeEveryByteOnce) {
  std::size_t with_idle_lanes = 0;
  for (const GqaDecode& descriptor : tests::mixed_gqa_descriptors(false)) {
    const auto plan = gqa_decode::sm80::make_plan(descriptor, codegen::find_architecture("sm_80"));
    for (const std::size_t which : {0, 1}) {
      const kv_cache::RowFormat format = plan.formats()[which];
      const int header = format.header_bytes();
      const int row_bytes = format.row_bytes();
      std::vector<int> taken(static_cast<std::size_t>(lanes::kTileRows * row_bytes / plan.copy_bytes));
      const int copies = lanes::count_copies(header, row_bytes, plan.copy_bytes, lanes::kTileRows);
      for (int i = 0; i < copies; ++i) {
        for (int lane = 0; lane < lanes::kWarpSize; ++lane) {
          const auto [row, byte] = lanes::copied_piece(i, lane, header, row_bytes, plan.copy_bytes, lanes::kTileRows);
          if (row >= lanes::kTileRows) {
            ++with_idle_lanes;
            continue;
          }
          ASSERT_TRUE(row >= 0 && byte >= 0 && byte + plan.copy_bytes <= row_bytes && byte % plan.copy_bytes == 0);
          ASSERT_TRUE(byte >= header || byte + plan.copy_bytes <= header);
          ++taken[static_cast<std::size_t>((row * row_bytes + byte) / plan.copy_bytes)];
        }
      }
      EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), std::ssize(taken)) << descriptor.text();
    }
  }
  EXPECT_GT(with_idle_lanes, 0u);
}

TEST(GqaLanes, AgreeWithTheFragmentsOfTheIsa) {
  const auto& a = codegen::find_fragment("mma.m16n8k16 A, 16-bit");
  const auto& b = codegen::find_fragment("mma.m16n8k16 B, 16-bit");
  const auto& c = codegen::find_fragment("mma.m16n8k16 C, 32-bit");
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {  // tokens are the MMA's k dimension for softmax weights
      EXPECT_EQ(lanes::int4_token_pairs(lane, i, 2, lanes::kTileRows).row, lanes::kTileRows + b.at(lane, i).row);
      EXPECT_EQ(lanes::int4_token_pairs(lane, i, 2, lanes::kTileRows).byte, 8);
    }
    // ldmatrix: lanes 8i … 8i+7 address the rows of the matrix that lands in register i. This matrix starts at element
    // (0, 2i) of lane 0.
    const auto matrix = a.at(0, lane / 8 * 2);
    for (const int step : {0, 1, 5}) {
      const auto key = lanes::rows16_keys(lane, step);
      EXPECT_EQ(key.row, matrix.row + lane % 8);
      EXPECT_EQ(key.byte, 2 * (16 * step + matrix.column));
      const auto value = lanes::rows16_values(lane, step);  // transposed: rows of the operand are channels
      EXPECT_EQ(value.row, lanes::kTileRows + matrix.column + lane % 8);
      EXPECT_EQ(value.byte, 2 * (16 * step + matrix.row));
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(lanes::accumulator_head(lane, 3, i), 24 + c.at(lane, i).column);
      EXPECT_EQ(lanes::rows16_channel(lane, 2, i), 32 + c.at(lane, i).row);
    }
    // Bytes: an operand's rows r and r + 8 are channels 2r and 2r + 1.
    EXPECT_EQ(lanes::byte_channel(lane, 3), 48 + 2 * c.at(lane, 0).row);
    EXPECT_EQ(lanes::byte_words(lane, 1, 16).row, 16 + lane % 16);
    EXPECT_EQ(lanes::byte_words(lane, 1, 16).byte, 32 + 16 * (lane / 16));
    // Packed words: 16 units of 4 channels per two matrices of 32; a lane's accumulator row is its unit.
    EXPECT_EQ(lanes::int4_channel(lane, 1), 32 + 4 * c.at(lane, 0).row);
  }
}

}  // namespace
}  // namespace cubit::ops
