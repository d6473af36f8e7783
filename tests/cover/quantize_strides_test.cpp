// quantize over padded rows and blocks: strides of input and output that differ from the row's length, and blocks of
// COL32 with rows between them that belong to somebody else. Skipped where there is no NVRTC.
#include <cubit/quantize.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

constexpr int kRows = 5;
constexpr int kColumns = 96;
constexpr int kPitch = 112;  // elements from row to row of the input
constexpr std::uint8_t kUntouched = 0xa5;

/// A value from -127 to 127. Every row contains 127, so that its scale is 1.
int code(int row, int column) { return column == row ? 127 : (row * 31 + column * 7) % 255 - 127; }

std::uint16_t bfloat16_bits(int value) {
  const auto number = static_cast<float>(value);  // of at most 7 bits and the sign, which bf16 holds
  std::uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

std::vector<std::uint8_t> quantised(const char* descriptor, std::int64_t stride, std::size_t bytes) {
  const Device device("cpu:sm_80");
  device.watch(CUBIT_WATCH_MEMORY);
  std::vector<std::uint16_t> values(kRows * kPitch, 0x7fc0);  // NaN between the rows
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column) values[row * kPitch + column] = bfloat16_bits(code(row, column));
  const GuardedBuffer input(device, 2 * values.size(), values.data());
  const GuardedBuffer output(device, bytes, kUntouched);
  const GuardedBuffer scales(device, 4 * kRows, 0xff);
  cubit_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = input.data();
  arguments.result.output = output.data();
  arguments.result.scales = static_cast<float*>(scales.data());
  arguments.result.output_stride = stride;
  arguments.input_stride = kPitch;
  arguments.rows = kRows;
  arguments.columns = kColumns;
  engine().get(descriptor, "cpu:sm_80").launch(arguments, {.device = &device});
  device.synchronise(nullptr);
  EXPECT_TRUE(output.guards_intact());
  return output.download();
}

TEST(QuantizeStrides, RowsAndBlocksMayBePadded) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  constexpr int kRowStride = 128;
  std::vector<std::uint8_t> expected(kRows * kRowStride, kUntouched);
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column)
      expected[row * kRowStride + column] = static_cast<std::uint8_t>(code(row, column));
  EXPECT_EQ(quantised("quantize:input=bf16", kRowStride, expected.size()), expected);

  constexpr int kBlockStride = 32 * (kRows + 3);
  expected.assign(3 * kBlockStride, kUntouched);
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column)
      expected[column / 32 * kBlockStride + 32 * row + column % 32] = static_cast<std::uint8_t>(code(row, column));
  EXPECT_EQ(quantised("quantize:layout=col32,input=bf16", kBlockStride, expected.size()), expected);
}

}  // namespace
}  // namespace cubit::tests
