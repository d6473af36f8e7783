// Weights through w4_quantize and, as they lie on the device, through w4a16_gemm: the product is that of the dense
// weights within what quantising has been reported to cost. Skipped where there is no NVRTC.
#include <cubit/w4_quantize.h>
#include <cubit/w4a16_gemm.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

constexpr int kM = 3;
constexpr int kN = 64;
constexpr int kK = 256;

/// The fp16 bits of a number that fp16 represents exactly.
std::uint16_t half_bits(float value) {
  if (value == 0) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int exponent = static_cast<int>(bits >> 23 & 255) - 127 + 15;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | static_cast<unsigned>(exponent) << 10 |
                                    (bits >> 13 & 1023));
}
float float_of(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(half & 1023), -24)
                                        : std::ldexp(static_cast<float>(1024 + (half & 1023)), exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

/// Random whole numbers of 1/256: products and sums of them are exact.
std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 source(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(source() % 257) - 128) / 256;
  return values;
}

class Halves {
 public:
  Halves(const Device& device, const std::vector<float>& values) : buffer_(device, 2 * values.size(), 0) {
    std::vector<std::uint16_t> bits;
    for (const float value : values) bits.push_back(half_bits(value));
    device.upload(buffer_.data(), bits.data(), buffer_.bytes());
  }
  void* data() const { return buffer_.data(); }

 private:
  GuardedBuffer buffer_;
};

template <class Number>
std::vector<Number> numbers_of(const GuardedBuffer& buffer) {
  const std::vector<unsigned char> bytes = buffer.download();
  std::vector<Number> result(bytes.size() / sizeof(Number));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

class RoundTrip : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RoundTrip, GivesTheProductWithinTheReportedError) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto [quantiser, gemm] = GetParam();
  const Device device("cpu:sm_80");
  device.watch(CUBIT_WATCH_MEMORY);
  const std::vector<float> weights = numbers(kN * kK, 1);  // [n, k]
  const std::vector<float> activations = numbers(kM * kK, 2);
  const Halves weights_on_device(device, weights);
  const Halves activations_on_device(device, activations);
  const int groups = std::string(quantiser).find("all") != std::string::npos ? 1 : kK / 32;
  const GuardedBuffer qweight(device, kN * kK / 2, 0xff);
  const GuardedBuffer zeros(device, groups * kN / 2, 0xff);
  void* const qzeros = std::string(gemm).find("format=symmetric") == std::string::npos ? zeros.data() : nullptr;
  const GuardedBuffer scales(device, 2 * groups * kN, 0xff);
  const GuardedBuffer max_error(device, 4 * groups * kN, 0xff);
  const GuardedBuffer rms_error(device, 4 * groups * kN, 0xff);
  const GuardedBuffer output(device, 2 * kM * kN, 0xff);
  cubit_w4_quantize_arguments quantise{};
  quantise.size = sizeof quantise;
  quantise.weights = weights_on_device.data();
  quantise.qweight = qweight.data();
  quantise.qzeros = qzeros;
  quantise.scales = scales.data();
  quantise.max_error = static_cast<float*>(max_error.data());
  quantise.rms_error = static_cast<float*>(rms_error.data());
  quantise.weight_stride = kK;
  quantise.n = kN;
  quantise.k = kK;
  engine().get(quantiser, "cpu:sm_80").launch(quantise, {.device = &device});
  cubit_w4a16_gemm_arguments multiply{};
  multiply.size = sizeof multiply;
  multiply.activations = activations_on_device.data();
  multiply.qweight = qweight.data();
  multiply.qzeros = qzeros;
  multiply.scales = scales.data();
  multiply.output = output.data();
  multiply.activation_stride = kK;
  multiply.output_stride = kN;
  multiply.m = kM;
  multiply.n = kN;
  multiply.k = kK;
  multiply.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  engine().get(gemm, "cpu:sm_80").launch(multiply, {.device = &device});
  device.synchronise(nullptr);
  for (const GuardedBuffer* buffer : {&qweight, &zeros, &scales, &max_error, &rms_error, &output})
    EXPECT_TRUE(buffer->guards_intact());

  const auto largest = numbers_of<float>(max_error);
  const auto roots = numbers_of<float>(rms_error);
  const auto products = numbers_of<std::uint16_t>(output);
  double off_at_all = 0;
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      double expected = 0;
      double allowed = 0;
      for (int k = 0; k < kK; ++k) {
        const int group = k * groups / kK;
        expected += activations[m * kK + k] * weights[n * kK + k];
        allowed += std::fabs(activations[m * kK + k]) * largest[group * kN + n];
      }
      const double off = std::fabs(float_of(products[m * kN + n]) - expected);
      EXPECT_LE(off, allowed + 1e-3 * std::fabs(expected) + 1e-3) << m << " " << n;
      off_at_all += off;
    }
  }
  // 15 steps of 1/15 at the widest: a usual error is a fraction of a step, and there is one.
  for (const float root : roots) EXPECT_LT(root, 0.03f);
  for (const float root : roots) EXPECT_GT(root, 0.005f);
  EXPECT_GT(off_at_all, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, RoundTrip,
    ::testing::Values(
        std::pair{"w4_quantize:group_size=32", "w4a16_gemm:group_size=32,tile_m=16,tile_n=256"},
        std::pair{"w4_quantize:format=gptq_v2,group_size=32",
                  "w4a16_gemm:format=gptq_v2,group_size=32,tile_m=16,tile_n=256"},
        std::pair{"w4_quantize:format=awq,group_size=32", "w4a16_gemm:format=awq,group_size=32,tile_m=16,tile_n=256"},
        std::pair{"w4_quantize:format=symmetric,group_size=32",
                  "w4a16_gemm:format=symmetric,group_size=32,tile_m=16,tile_n=256"},
        std::pair{"w4_quantize:format=awq,group_size=all", "w4a16_gemm:format=awq,group_size=all,tile_m=16,tile_n=256"},
        std::pair{"w4_quantize:group_size=32,scheme=symmetric", "w4a16_gemm:group_size=32,tile_m=16,tile_n=256"}));

}  // namespace
}  // namespace cubit::tests
