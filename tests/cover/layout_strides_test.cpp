// convert_layout over padded rows and blocks, element by element: strides of input and output that differ from the
// dense ones, and bytes between rows and blocks that belong to somebody else. Skipped where there is no NVRTC.
#include <gtest/gtest.h>
#include <cubit/convert_layout.hpp>

#include <cstdint>
#include <vector>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

constexpr int kRows = 64;
constexpr int kColumns = 96;
constexpr std::uint8_t kUntouched = 0xa5;

std::int64_t padded_stride(MatrixLayout layout) {
  return layout == MatrixLayout::row ? kColumns + 16 : 32 * (kRows + 3);
}

/// The matrix in padded memory. Element (row, column) is 7 row + 5 column, modulo 251.
std::vector<std::uint8_t> matrix(MatrixLayout layout) {
  const std::int64_t stride = padded_stride(layout);
  std::vector<std::uint8_t> bytes(stride * (layout == MatrixLayout::row ? kRows : kColumns / 32), kUntouched);
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column)
      bytes[offset_of(layout, stride, row, column)] = static_cast<std::uint8_t>((7 * row + 5 * column) % 251);
  return bytes;
}

TEST(LayoutStrides, RowsAndBlocksMayBePadded) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Device device("cpu:sm_80");
  device.watch(CUBIT_WATCH_MEMORY);
  constexpr MatrixLayout kLayouts[] = {MatrixLayout::row, MatrixLayout::col32, MatrixLayout::col4_4r2_8c,
                                       MatrixLayout::col32_2r_4r4};
  for (const MatrixLayout from : kLayouts) {
    for (const MatrixLayout to : kLayouts) {
      if (from == to) continue;
      const std::vector<std::uint8_t> given = matrix(from);
      const std::vector<std::uint8_t> expected = matrix(to);
      const GuardedBuffer input(device, given.size(), given.data());
      const GuardedBuffer output(device, expected.size(), kUntouched);
      cubit_convert_layout_arguments arguments{};
      arguments.size = sizeof arguments;
      arguments.input = input.data();
      arguments.output = output.data();
      arguments.input_stride = padded_stride(from);
      arguments.output_stride = padded_stride(to);
      arguments.rows = kRows;
      arguments.columns = kColumns;
      const std::string text = ConvertLayout{from, to}.text();
      engine().get(text, "cpu:sm_80").launch(arguments, {.device = &device});
      device.synchronise(nullptr);
      EXPECT_TRUE(output.guards_intact()) << text;
      EXPECT_EQ(output.download(), expected) << text;
    }
  }
}

}  // namespace
}  // namespace cubit::tests
