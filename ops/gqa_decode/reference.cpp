// What the operator means, in double precision, and the conversions that the meaning rests on.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops::gqa_decode {
namespace {

double half_to_double(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double magnitude = 0;
  if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t half_from_float(float value) {
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.f) return sign | 0x7c00;  // rounds to 65536, beyond the largest number
  const int exponent = std::max(magnitude == 0 ? -14 : std::ilogb(magnitude), -14);
  // In units of the last place this is an integer up to 2048; nearbyint rounds half to even.
  const double units = std::nearbyint(std::ldexp(double{magnitude}, 10 - exponent));
  const auto mantissa = static_cast<int>(units);
  return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + mantissa));
}

std::uint16_t bfloat16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

std::uint16_t saturated_half(float value) { return half_from_float(std::clamp(value, -65504.f, 65504.f)); }

double load16(const char* src, Element element) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, src, 2);
  return to_double(element, bits);
}

}  // namespace

double to_double(Element element, std::uint16_t bits) {
  if (element == Element::fp16) return half_to_double(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t from_float(Element element, float value) {
  return element == Element::fp16 ? half_from_float(value) : bfloat16_from_float(value);
}

/// Per group: lo, hi the extremes in float; q = clamp(round-half-even((x - lo) * 15 / ((hi - lo) + 1e-8)), 0, 15);
/// stored scale = fp16((hi - lo) / 15), shift = fp16(lo), both saturated. This is what FBGEMM writes.
void quantise_int4_row(const float* src, int head_dim, int groups, std::uint8_t* dst) {
  const int width = head_dim / groups;
  std::memset(dst + 4 * groups, 0, head_dim / 2);
  for (int group = 0; group < groups; ++group) {
    const auto [lo, hi] = std::minmax_element(src + group * width, src + (group + 1) * width);
    const float range = *hi - *lo;
    const std::uint16_t header[2] = {saturated_half(range / 15.f), saturated_half(*lo)};
    std::memcpy(dst + 4 * group, header, 4);
    for (int channel = group * width; channel < (group + 1) * width; ++channel) {
      const float steps = std::nearbyint((src[channel] - *lo) * 15.f / (range + 1e-8f));
      const auto q = static_cast<unsigned>(std::clamp(steps, 0.f, 15.f));
      dst[4 * groups + channel / 2] |= static_cast<std::uint8_t>(q << (channel % 2 * 4));
    }
  }
}

void dequantise_row(const GqaDecode& descriptor, const void* src, double* dst) {
  const char* bytes = static_cast<const char*>(src);
  if (descriptor.kv != KvFormat::int4_rows) {
    const Element element = descriptor.kv == KvFormat::bf16 ? Element::bf16 : Element::fp16;
    for (int channel = 0; channel < descriptor.head_dim; ++channel) dst[channel] = load16(bytes + 2 * channel, element);
    return;
  }
  const int width = descriptor.head_dim / descriptor.groups;
  for (int channel = 0; channel < descriptor.head_dim; ++channel) {
    const char* header = bytes + 4 * (channel / width);
    const int packed = static_cast<unsigned char>(bytes[4 * descriptor.groups + channel / 2]);
    const int q = packed >> (channel % 2 * 4) & 15;
    dst[channel] = load16(header, Element::fp16) * q + load16(header + 2, Element::fp16);
  }
}

ReferenceHead reference_head(const GqaDecode& descriptor, const double* query, const char* key, const char* value,
                             std::int64_t row_stride, int length, double softmax_scale) {
  const int channels = descriptor.head_dim;
  std::vector<double> row(channels);
  std::vector<double> weights(length);
  double peak = -std::numeric_limits<double>::infinity();
  for (int token = 0; token < length; ++token) {
    dequantise_row(descriptor, key + token * row_stride, row.data());
    double score = 0;
    for (int channel = 0; channel < channels; ++channel) score += query[channel] * row[channel];
    weights[token] = score * softmax_scale;
    peak = std::max(peak, weights[token]);
  }
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - peak);
  ReferenceHead result{std::vector<double>(channels), std::vector<double>(channels), peak + std::log(sum)};
  for (int token = 0; token < length; ++token) {
    dequantise_row(descriptor, value + token * row_stride, row.data());
    for (int channel = 0; channel < channels; ++channel) {
      result.output[channel] += weights[token] / sum * row[channel];
      result.contributions[channel] += weights[token] / sum * std::fabs(row[channel]);
    }
  }
  if (length == 0) result.lse = -std::numeric_limits<double>::infinity();
  return result;
}

}  // namespace cubit::ops::gqa_decode
