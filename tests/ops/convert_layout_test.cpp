// convert_layout without running kernels: descriptor texts, the formulas of the layouts, refusals of launches and
// problems, and the comparison. tests/cover checks what kernels write.
#include <cubit/convert_layout.h>
#include <gtest/gtest.h>

#include <vector>

#include "check/convert_layout/problem.hpp"
#include "ops/convert_layout/convert_layout.hpp"
#include "templates/kernels/quantisation/convert_layout_arguments.h"
#include "tests/support/compiled.hpp"
#include "tests/support/descriptor_texts.hpp"
#include "tests/support/launches.hpp"
#include "tests/support/one_pass_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::expect_refused;

constexpr MatrixLayout kLayouts[] = {MatrixLayout::row, MatrixLayout::col32, MatrixLayout::col4_4r2_8c,
                                     MatrixLayout::col32_2r_4r4};

std::vector<ConvertLayout> all_conversions() {
  std::vector<ConvertLayout> all;
  for (const MatrixLayout from : kLayouts)
    for (const MatrixLayout to : kLayouts)
      if (from != to) all.push_back({from, to});
  return all;
}

TEST(ConvertLayoutDescriptor, EveryValueHasOneTextThatParsesBackToIt) {
  tests::expect_one_text_each(all_conversions(), convert_layout::parse);
  EXPECT_EQ(ConvertLayout{}.text(), "convert_layout");
}

TEST(ConvertLayoutDescriptor, RefusesByName) {
  expect_refused([] { convert_layout::parse("convert_layout:from=col32"); },
                 "descriptor \"convert_layout:from=col32\": from and to are both col32, so that there is nothing to "
                 "convert; give two layouts");
  expect_refused([] { convert_layout::parse("convert_layout:to=col8"); },
                 "descriptor \"convert_layout:to=col8\": col8 is not a value of to; accepted: row, col32, col4_4r2_8c, "
                 "col32_2r_4r4");
}

// The bits of a place from the bits of row and column: COL4_4R2_8C has, from the lowest bit, c0 c1 r1 r2 c2 c3 c4 r0,
// and COL32_2R_4R4 c0 … c4 r0 r3 r4 r1 r2.
TEST(MatrixLayouts, PermuteTheBitsOfRowAndColumn) {
  const auto place = [](std::initializer_list<std::int64_t> bits) {
    std::int64_t sum = 0;
    int shift = 0;
    for (const std::int64_t bit : bits) sum += (bit & 1) << shift++;
    return sum;
  };
  constexpr std::int64_t kStride = 4096;
  for (std::int64_t r = 0; r < 96; ++r) {
    for (std::int64_t c = 0; c < 96; ++c) {
      const std::int64_t block = c / 32 * kStride;
      EXPECT_EQ(offset_of(MatrixLayout::row, 100, r, c), 100 * r + c);
      EXPECT_EQ(offset_of(MatrixLayout::col32, kStride, r, c), block + 32 * r + c % 32);
      EXPECT_EQ(offset_of(MatrixLayout::col4_4r2_8c, kStride, r, c),
                block + r / 8 * 256 + place({c, c >> 1, r >> 1, r >> 2, c >> 2, c >> 3, c >> 4, r}));
      EXPECT_EQ(offset_of(MatrixLayout::col32_2r_4r4, kStride, r, c),
                block + r / 32 * 1024 + place({c, c >> 1, c >> 2, c >> 3, c >> 4, r, r >> 3, r >> 4, r >> 1, r >> 2}));
    }
  }
}

cubit_convert_layout_arguments dense_arguments() {
  cubit_convert_layout_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = address(0x1000);
  arguments.output = address(0x8000);
  arguments.input_stride = arguments.columns = 96;
  arguments.rows = 32;
  arguments.output_stride = 1024;
  return arguments;
}

TEST(ConvertLayoutLaunch, HasAThreadForEachPatch) {
  auto arguments = dense_arguments();
  const Launch launch = tests::encode(ConvertLayout{}, &arguments);
  const auto parameters = tests::parameters_of<ConvertLayoutArguments>(launch);
  EXPECT_EQ(parameters.blocks, 3);
  EXPECT_EQ(launch.shape.grid[0], 1u) << "4 groups of 8 rows, 3 blocks of 32 columns, 4 patches each";
  arguments.rows = 1 << 20;
  arguments.output_stride = 32 << 20;
  EXPECT_EQ(tests::encode(ConvertLayout{}, &arguments).shape.grid[0], (1u << 17) * 3 * 4 / 256);
  arguments.rows = 0;
  arguments.input = nullptr;
  EXPECT_TRUE(tests::encode(ConvertLayout{}, &arguments).empty);
}

TEST(ConvertLayoutLaunch, RefusesByName) {
  using Given = cubit_convert_layout_arguments;
  const auto refused = [](void (*change)(Given&), const char* text, const std::string& sentence) {
    auto arguments = dense_arguments();
    change(arguments);
    expect_refused([&] { tests::encode(convert_layout::parse(text), &arguments); }, sentence);
  };
  refused([](Given& a) { a.columns = 80; }, "convert_layout",
          "columns = 80: col32 has no partial tiles, so that it must be a multiple of 32; pad the matrix");
  refused([](Given& a) { a.columns = 0; }, "convert_layout", "columns = 0: it must be from 32 to 2147483616");
  refused([](Given& a) { a.rows = 36; }, "convert_layout:to=col4_4r2_8c",
          "rows = 36: col4_4r2_8c has no partial tiles, so that it must be a multiple of 8; pad the matrix");
  refused([](Given& a) { a.rows = 8; }, "convert_layout:from=col32_2r_4r4,to=row",
          "rows = 8: col32_2r_4r4 has no partial tiles, so that it must be a multiple of 32; pad the matrix");
  refused([](Given& a) { a.rows = -1; }, "convert_layout", "rows = -1: it must be from 0 to 2147483647");
  refused([](Given& a) { a.rows = a.columns = 2147483616; }, "convert_layout",
          "rows * columns = 4611685880988435456: it must be at most 549755813632");
  refused([](Given& a) { a.output = nullptr; }, "convert_layout", "output = NULL: the tensor is needed");
  refused([](Given& a) { a.input_stride = 100; }, "convert_layout",
          "input stride 0 of 100 bytes: it is not a multiple of 16 bytes; align it, and pad its rows");
  refused([](Given& a) { a.output = address(0x2008); }, "convert_layout",
          "output at 0x2008: the address is not a multiple of 16 bytes; align it, and pad its blocks");
  refused([](Given& a) { a.output_stride = 1008; }, "convert_layout",
          "output_stride = 1008: outputs would overwrite one another, for the dimensions within this stride span 1024 "
          "elements; accepted: a magnitude of 1024 and more");
}

TEST(ConvertLayoutProblem, CountsEveryByteThatDiffers) {
  std::vector<std::int8_t> bytes(2 * 64);
  for (int i = 0; i < 128; ++i) bytes[i] = static_cast<std::int8_t>(i);
  const std::vector<check::Tensor> tensors = {{"input", "I8", {2, 64}, {}, bytes.data()}};
  const auto problem = check::find_problems("convert_layout").problem("convert_layout", tensors, {});
  ASSERT_EQ(problem->outputs().size(), 1u);
  EXPECT_EQ(problem->outputs()[0].shape, (std::vector<std::int64_t>{2, 2, 32}));
  std::vector<std::int8_t> result(128);
  for (int row = 0; row < 2; ++row)
    for (int column = 0; column < 64; ++column)
      result[column / 32 * 64 + 32 * row + column % 32] = static_cast<std::int8_t>(64 * row + column);
  const void* got[] = {result.data()};
  EXPECT_EQ(problem->compare(got).error, 0);
  std::swap(result[32], result[33]);
  EXPECT_EQ(problem->compare(got).error, 2);
  EXPECT_EQ(problem->compare(got).worst, "row 1");
}

TEST(ConvertLayoutProblem, RefusesByName) {
  std::vector<std::int8_t> bytes(4096);
  const auto refused = [&](const char* text, const std::vector<check::Tensor>& tensors, const std::string& sentence) {
    expect_refused([&] { check::find_problems(text).problem(text, tensors, {}); }, sentence);
  };
  refused("convert_layout", {}, "tensors without input: convert_layout needs it");
  refused("convert_layout", {{"input", "F16", {2, 64}, {}, bytes.data()}},
          "tensor input of type F16: it must have bytes; accepted: I8, U8, F8_E4M3");
  refused("convert_layout:to=col4_4r2_8c", {{"input", "I8", {4, 64}, {}, bytes.data()}},
          "rows = 4: col4_4r2_8c has no partial tiles, so that it must be a multiple of 8; pad the matrix");
  expect_refused(
      [] {
        check::find_problems("convert_layout").random("convert_layout", {{"m", 2}}, 1);
      },
      "size m: convert_layout has no such size; accepted: rows, columns");
}

TEST(ConvertLayoutPlan, CompilesForEveryArchitectureWithoutSpills) {
  std::vector<std::string> texts;
  for (const ConvertLayout& descriptor : all_conversions()) texts.push_back(descriptor.text());
  constexpr int kMostRegisters = 64;
  tests::expect_no_spills(tests::some_in_turn(texts, 2), kMostRegisters);
}

}  // namespace
}  // namespace cubit::ops
