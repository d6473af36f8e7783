// Tests of the lanes of w4a16_gemm without a device: copies take every byte, lanes agree with the fragments of the ISA,
// and addresses are at constant distances from a lane's first address.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "codegen/fragments.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/gemm_lanes.h"
#include "tests/support/gemm_descriptors.hpp"
#include "tests/support/gemm_launches.hpp"

namespace cubit::ops {
namespace {

using tests::plan_if_any;
using tests::plan_of;

// The copies of a stage take every byte of the stage's tiles once.
TEST(GemmLanes, CopiesTakeEveryByteOnce) {
  for (const W4a16Gemm& descriptor : tests::pairwise_gemm_descriptors()) {
    const auto planned = plan_if_any(descriptor, "sm_80");
    if (!planned) continue;
    const tests::PlannedGemm& plan = *planned;
    const auto expect_once = [&](const codegen::TileLayout& layout, const codegen::TileAccess& copies) {
      std::set<std::pair<int, int>> taken;
      for (int i = 0; i < copies.instances; ++i) {
        for (int lane = 0; lane < 32; ++lane) {
          const auto at = copies.at(i, lane);
          if (!at) continue;  // a stage has fewer rows of scales and zeros than a warp could copy
          EXPECT_TRUE(taken.insert({at->row, at->byte}).second) << copies.name;
        }
      }
      EXPECT_EQ(static_cast<int>(taken.size()) * copies.bytes_per_lane, layout.rows * layout.row_bytes) << copies.name;
    };
    // Words and activations, and without activation_order also scales and zeros.
    EXPECT_EQ(plan.report().tiles.size(), descriptor.activation_order ? 2u : 3u + w4a16_gemm::stores_zeros(descriptor));
    for (const Tile& tile : plan.report().tiles) expect_once(tile.layout, tile.accesses.at(0));
  }
}

// Lane (r, c) of an operand has row r and pair c. The lane's words and activations must belong to the same k's.
TEST(GemmLanes, AgreeWithTheFragmentsOfTheIsa) {
  const auto& c_fragment = codegen::find_fragment("mma.m16n8k16 C, 32-bit");
  for (int lane = 0; lane < 32; ++lane) {
    const int row = c_fragment.at(lane, 0).row;
    const auto words = gemm_lanes::words_by_k(lane, 3, 2);
    const auto activations = gemm_lanes::activations_by_k(lane, 5, 2);
    EXPECT_EQ(words.byte, 4 * (32 * 3 + 4 * row));
    EXPECT_EQ(activations.row, 8 * 5 + row) << "the B operand's column is r";
    EXPECT_EQ(8 * words.row, activations.byte / 2) << "both hold the same 8 k's";
    EXPECT_EQ(gemm_lanes::first_column(lane), 4 * row);
    for (const int half : {0, 1}) {
      const auto bytes = gemm_lanes::byte_words_by_k(lane, 3, 2, half);
      EXPECT_EQ(bytes.byte, words.byte) << "the same four columns";
      EXPECT_EQ(4 * bytes.row, activations.byte / 2 + 4 * half) << "the 8 k's in two words";
    }
    EXPECT_EQ(gemm_lanes::byte_zeros(lane, 3, 0).byte, 32 * 3 + gemm_lanes::first_column(lane));
    // ldmatrix: lanes 8i … 8i + 7 address the rows of matrix i, and the rows are 8 input features.
    const auto by_n = gemm_lanes::words_by_n(lane, 3, 2);
    EXPECT_EQ(by_n.row, 32 * 2 + lane / 8 * 8 + lane % 8);
    EXPECT_EQ(by_n.byte, 32 * 3 / 2);
    EXPECT_EQ(gemm_lanes::activations_by_n(lane, 5, 2).byte, 2 * (32 * 2 + 8 * (lane / 8)));
  }
}

// The kernel computes a lane's first address, and finds all other addresses at constant distances from the first. The
// distances must therefore be the same for all lanes. Some accesses compute more than one address: copies of words and
// loads of activations by n two, intra-block split-K's copies of activations four, and loads of 8-bit words one for
// each half.
TEST(GemmLanes, AddressesAreAtTheSameDistancesForAllLanes) {
  for (const W4a16Gemm& descriptor : tests::pairwise_gemm_descriptors()) {
    const auto planned = plan_if_any(descriptor, "sm_80");
    if (!planned) continue;
    const tests::PlannedGemm& plan = *planned;
    const auto words = plan.words().accesses.at(1);
    const auto activations = plan.activations().accesses.at(1);
    const auto address = [](const codegen::TileLayout& layout, const codegen::TileAccess& access, int instance,
                            int lane) { return layout.address(access.at(instance, lane).value()); };
    const int tiles = descriptor.tile_m / 8;
    const int period = descriptor.format == W4Format::awq ? 2 : 1;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < words.instances; ++i) {
        const int strip = i % plan.block.strips();
        const int half = descriptor.bits == 8 ? i / plan.block.strips() % 2 * plan.block.strips() : 0;
        EXPECT_EQ(
            address(plan.words().layout, words, i, lane) - address(plan.words().layout, words, half + strip, lane),
            address(plan.words().layout, words, i - strip, 0) - address(plan.words().layout, words, half, 0));
      }
      for (int i = 0; i < activations.instances; ++i) {
        const int first = i / tiles % period * tiles;
        EXPECT_EQ(address(plan.activations().layout, activations, i, lane) -
                      address(plan.activations().layout, activations, first, lane),
                  address(plan.activations().layout, activations, i, 0) -
                      address(plan.activations().layout, activations, first, 0));
      }
    }
    const auto expect_same_distances = [&](const codegen::TileLayout& layout, const codegen::TileAccess& copies,
                                           int every) {
      for (int i = 0; i < copies.instances; ++i) {
        const int warp = i % plan.block.warps;
        const int first = i / plan.block.warps % every * plan.block.warps;
        for (int lane = 0; lane < 32; ++lane) {
          EXPECT_EQ(address(layout, copies, i, lane) - address(layout, copies, first + warp, lane),
                    address(layout, copies, i - warp, 0) - address(layout, copies, first, 0));
        }
      }
    };
    expect_same_distances(plan.words().layout, plan.words().accesses.at(0), descriptor.bits == 8 ? 4 : 2);
    // With intra-block split-K one warp copies the activations, two rows at a time.
    expect_same_distances(plan.activations().layout, plan.activations().accesses.at(0),
                          plan.block.k_partitions > 1 ? 4 : 1);
  }
}

// The narrow kernel of family sm90 computes only a lane's first addresses. The addresses of odd steps are the first
// addresses with bits flipped, and all other addresses are at constant distances.
TEST(GemmLanes, OddStepsOfTheNarrowKernelAreEvenStepsWithBitsFlipped) {
  for (const char* text :
       {"w4a16_gemm:tile_m=16,tile_n=128", "w4a16_gemm:tile_m=16,tile_n=224", "w4a16_gemm:tile_m=16,tile_n=160",
        "w4a16_gemm:tile_m=16,tile_n=96", "w4a16_gemm:group_size=32,tile_m=16,tile_n=64"}) {
    const auto plan = plan_of(text);
    const auto expect_so = [&](const codegen::TileLayout& layout, const codegen::TileAccess& access, int in_step) {
      const auto address = [&](int instance, int lane) { return layout.address(access.at(instance, lane).value()); };
      const int flipped = address(in_step, 0) ^ address(0, 0);
      for (int i = 0; i < access.instances; ++i) {
        const bool is_odd = i / in_step % 2 != 0;
        const int distance = address(i - (is_odd ? in_step : 0), 0) - address(0, 0);
        for (int lane = 0; lane < 32; ++lane)
          EXPECT_EQ(address(i, lane), (is_odd ? address(0, lane) ^ flipped : address(0, lane)) + distance) << text;
      }
    };
    expect_so(plan.words().layout, plan.words().accesses.at(0), plan.block.strips());
    expect_so(plan.activations().layout, plan.activations().accesses.at(0), plan.block.descriptor.tile_m / 8);
  }
}

// By n a strip is a 16-byte chunk of a row. If chunks are swizzled, the strip's number is xor'ed into the address;
// otherwise the strip is at a constant distance.
TEST(GemmLanes, StripsOfTheNarrowKernelByNAreTheFirstStripWithBitsFlipped) {
  for (const char* text : {"w4a16_gemm:format=awq,tile_m=16,tile_n=64", "w4a16_gemm:format=awq,tile_m=16,tile_n=128",
                           "w4a16_gemm:format=awq,tile_m=8,tile_n=224", "w4a16_gemm:format=awq,tile_m=16,tile_n=96",
                           "w4a16_gemm:format=awq,tile_m=16,tile_n=160",
                           "w4a16_gemm:format=awq,tile_m=16,tile_n=128,function=silu_gate"}) {
    const auto plan = plan_of(text);
    const auto access = plan.words().accesses.at(0);
    const int chunks = plan.words().layout.swizzle.bits > 0 ? 0x30 : 0;
    const auto address = [&](int instance, int lane) {
      return plan.words().layout.address(access.at(instance, lane).value());
    };
    for (int i = 0; i < access.instances; ++i) {
      const int at = address(i, 0);
      for (int lane = 0; lane < 32; ++lane)
        EXPECT_EQ(address(i, lane), (address(0, lane) ^ (at & chunks)) + (at & ~chunks)) << text;
    }
    EXPECT_EQ(plan.activations().accesses.size(), 1u) << "TMA stores activations and ldmatrix reads them";
  }
}

}  // namespace
}  // namespace cubit::ops
