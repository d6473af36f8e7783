// Proves with the compiler and static_assert that the emitted layout function equals TileLayout::address.
#include <gtest/gtest.h>

#include <string>

#include "codegen/plan_header.hpp"
#include "codegen/tile_layout.hpp"
#include "fmt/format.h"
#include "tests/codegen/nvrtc_probe.hpp"

namespace cubit::codegen {
namespace {

/// A program that compiles only if the function of `layout` gives the layout's addresses. `error` is added to the last
/// expected address.
std::string proof(const TileLayout& layout, int error) {
  std::string values;
  for (int row = 0; row < layout.rows; ++row) {
    for (int byte = 0; byte < layout.row_bytes; ++byte) {
      const bool last = row == layout.rows - 1 && byte == layout.row_bytes - 1;
      values += fmt::format("{},", layout.address({row, byte}) + (last ? error : 0));
    }
  }
  return PlanHeader("test").layout("key_tile", layout).text() +
         fmt::format(
             "constexpr int expected[] = {{{}}};\n"
             "constexpr __device__ bool agrees() {{\n"
             "  for (int row = 0; row < {}; ++row)\n"
             "    for (int byte = 0; byte < {}; ++byte)\n"
             "      if (plan::key_tile(row, byte) != expected[row * {} + byte]) return false;\n"
             "  return true;\n"
             "}}\n"
             "static_assert(agrees());\n"
             "static_assert(plan::kKeyTilePitch == {} && plan::kKeyTileBytes == {});\n",
             values, layout.rows, layout.row_bytes, layout.row_bytes, layout.pitch, layout.size());
}

TEST(LayoutFunctionNvrtc, GivesEveryAddressOfTheLayout) {
  CUBIT_NEED_NVRTC(probe);
  for (const int pitch : {80, 96, 128}) {
    for (const Swizzle& swizzle :
         {Swizzle{}, Swizzle{.bits = 1, .base = 4, .shift_from = 7}, Swizzle{.bits = 2, .base = 3, .shift_from = 9},
          Swizzle{.bits = 3, .base = 4, .shift_from = 7}}) {
      const TileLayout layout{.rows = 20, .row_bytes = 72, .pitch = pitch, .swizzle = swizzle};
      const NvrtcProbe::Result right = probe->compile(proof(layout, 0), "sm_80");
      EXPECT_TRUE(right.compiled) << right.log;
      EXPECT_FALSE(probe->compile(proof(layout, 1), "sm_80").compiled) << "the proof cannot fail";
    }
  }
  const TileLayout parts{.rows = 16, .row_bytes = 384, .pitch = 128, .swizzle = {3, 4, 7}, .part_bytes = 128};
  const NvrtcProbe::Result right = probe->compile(proof(parts, 0), "sm_80");
  EXPECT_TRUE(right.compiled) << right.log;
}

TEST(PlanHeaderNvrtc, EveryKindOfLineHasItsTypeAndValue) {
  CUBIT_NEED_NVRTC(probe);
  const std::string header = PlanHeader("every kind")
                                 .constant("kSmall", -7)
                                 .constant("kLeastInt", -2147483648LL)
                                 .constant("kBig", 5000000000LL)
                                 .constant("kLeast", INT64_MIN)
                                 .flag("kOn", true)
                                 .alias("Word", "unsigned short")
                                 .text();
  const std::string checks =
      "template <class A, class B> constexpr bool same = false;\n"
      "template <class A> constexpr bool same<A, A> = true;\n"
      "static_assert(plan::kSmall == -7 && same<decltype(plan::kSmall), const int>);\n"
      "static_assert(plan::kLeastInt == -2147483647 - 1 && same<decltype(plan::kLeastInt), const int>);\n"
      "static_assert(plan::kBig == 5000000000LL && same<decltype(plan::kBig), const long long>);\n"
      "static_assert(plan::kLeast < -9223372036854775807LL);\n"
      "static_assert(plan::kOn && same<decltype(plan::kOn), const bool>);\n"
      "static_assert(same<plan::Word, unsigned short>);\n";
  const NvrtcProbe::Result result = probe->compile(header + checks, "sm_80");
  EXPECT_TRUE(result.compiled) << result.log;
}

}  // namespace
}  // namespace cubit::codegen
