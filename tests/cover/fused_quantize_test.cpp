// norm_quantize and gate_quantize give the bytes of two launches: the operator with output=unquantised, then quantize.
// The sum of norm_quantize may be written over the residual. Skipped where there is no NVRTC.
#include <cubit/gate_quantize.h>
#include <cubit/norm_quantize.h>
#include <cubit/quantize.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

constexpr int kRows = 6;
constexpr int kColumns = 1056;

/// Numbers of fp16 from -2 to 2, of both signs and many magnitudes.
std::vector<std::uint16_t> halves(std::size_t count, unsigned seed) {
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<std::uint16_t>((seed >> 16 & 0x8000) | (seed >> 8) % 0x4000);
  }
  return values;
}

class Tensor16 {
 public:
  Tensor16(const Device& device, std::size_t count, unsigned seed) : Tensor16(device, halves(count, seed)) {}
  Tensor16(const Device& device, const std::vector<std::uint16_t>& values)
      : buffer_(device, 2 * values.size(), values.data()) {}
  void* data() const { return buffer_.data(); }
  std::vector<unsigned char> bytes() const { return buffer_.download(); }

 private:
  GuardedBuffer buffer_;
};

/// The bytes, scales and zero points of a launch.
class Result {
 public:
  Result(const Device& device, bool has_zero_points)
      : bytes_(device, kRows * kColumns, 0xff),
        scales_(device, 4 * kRows, 0xff),
        zero_points_(device, 4 * kRows, 0xff),
        has_zero_points_(has_zero_points) {}

  cubit_quantised_rows arguments() const {
    cubit_quantised_rows arguments{};
    arguments.output = bytes_.data();
    arguments.scales = static_cast<float*>(scales_.data());
    if (has_zero_points_) arguments.zero_points = static_cast<std::int32_t*>(zero_points_.data());
    arguments.output_stride = kColumns;
    return arguments;
  }
  void expect_equal(const Result& other) const {
    EXPECT_EQ(bytes_.download(), other.bytes_.download());
    EXPECT_EQ(scales_.download(), other.scales_.download());
    EXPECT_EQ(zero_points_.download(), other.zero_points_.download());
  }

 private:
  GuardedBuffer bytes_;
  GuardedBuffer scales_;
  GuardedBuffer zero_points_;
  bool has_zero_points_;
};

class FusedQuantize : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
    device_.watch(CUBIT_WATCH_MEMORY);
  }
  bool has_zero_points() const { return std::string(GetParam()).find("asymmetric") != std::string::npos; }
  template <class Arguments>
  void launch(const std::string& descriptor, const Arguments& arguments) const {
    engine().get(descriptor, "cpu:sm_80").launch(arguments, {.device = &device_});
    device_.synchronise(nullptr);
  }
  void quantise(const Tensor16& rows, const Result& result) const {
    cubit_quantize_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.input = rows.data();
    arguments.result = result.arguments();
    arguments.input_stride = arguments.columns = kColumns;
    arguments.rows = kRows;
    launch(std::string("quantize:") + GetParam(), arguments);
  }
  /// The result of an operator that stores 16-bit rows.
  static cubit_quantised_rows unquantised(const Tensor16& rows) {
    cubit_quantised_rows result{};
    result.output = rows.data();
    result.output_stride = kColumns;
    return result;
  }

  Device device_{"cpu:sm_80"};
};

TEST_P(FusedQuantize, NormHasTheBytesOfTwoLaunches) {
  const Tensor16 input(device_, kRows * kColumns, 1);
  const Tensor16 residual(device_, kRows * kColumns, 2);
  const Tensor16 sum(device_, kRows * kColumns, 3);
  const Tensor16 rows(device_, kRows * kColumns, 4);
  const Tensor16 weight(device_, kColumns, 5);
  const Tensor16 bias(device_, kColumns, 6);
  const Result fused(device_, has_zero_points());
  const Result separate(device_, has_zero_points());
  cubit_norm_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = input.data();
  arguments.residual = residual.data();
  arguments.sum = sum.data();
  arguments.weight = weight.data();
  arguments.bias = bias.data();
  arguments.input_stride = arguments.residual_stride = arguments.sum_stride = arguments.columns = kColumns;
  arguments.rows = kRows;
  arguments.epsilon = 1e-5f;
  arguments.result = unquantised(rows);
  launch("norm_quantize:output=unquantised,norm=layer,residual=true,bias=true", arguments);
  quantise(rows, separate);
  arguments.sum = residual.data();
  arguments.result = fused.arguments();
  launch(std::string("norm_quantize:norm=layer,residual=true,bias=true,") + GetParam(), arguments);
  fused.expect_equal(separate);
  EXPECT_EQ(residual.bytes(), sum.bytes());
}

TEST_P(FusedQuantize, LayerNormOfEqualValuesIsZeroIfTheirSumIsBeyondFloat) {
  constexpr std::uint16_t kLarge = 0x7cf1;  // 1e37 as bf16
  constexpr std::uint16_t kOne = 0x3f80;
  const Tensor16 input(device_, std::vector<std::uint16_t>(kRows * kColumns, kLarge));
  const Tensor16 weight(device_, std::vector<std::uint16_t>(kColumns, kOne));
  const Tensor16 zeros(device_, std::vector<std::uint16_t>(kRows * kColumns));
  const Result fused(device_, has_zero_points());
  const Result separate(device_, has_zero_points());
  cubit_norm_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.input = input.data();
  arguments.weight = weight.data();
  arguments.input_stride = arguments.columns = kColumns;
  arguments.rows = kRows;
  arguments.epsilon = 1e-5f;
  arguments.result = fused.arguments();
  launch(std::string("norm_quantize:norm=layer,input=bf16,") + GetParam(), arguments);
  quantise(zeros, separate);
  fused.expect_equal(separate);
}

TEST_P(FusedQuantize, GateHasTheBytesOfTwoLaunches) {
  const Tensor16 halves_of_one(device_, kRows * 2 * kColumns, 1);
  const Tensor16 rows(device_, kRows * kColumns, 4);
  const Result fused(device_, has_zero_points());
  const Result separate(device_, has_zero_points());
  cubit_gate_quantize_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.gate = halves_of_one.data();
  arguments.up = static_cast<const char*>(halves_of_one.data()) + 2 * kColumns;
  arguments.gate_stride = arguments.up_stride = 2 * kColumns;
  arguments.rows = kRows;
  arguments.columns = kColumns;
  arguments.result = unquantised(rows);
  launch("gate_quantize:output=unquantised", arguments);
  quantise(rows, separate);
  arguments.result = fused.arguments();
  launch(std::string("gate_quantize:") + GetParam(), arguments);
  fused.expect_equal(separate);
}

INSTANTIATE_TEST_SUITE_P(Results, FusedQuantize,
                         ::testing::Values("output=int8", "output=fp8_e4m3", "scheme=asymmetric"));

}  // namespace
}  // namespace cubit::tests
