#include "check/kv_cache/row_values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "check/byte_values.hpp"
#include "check/rounding.hpp"
#include "ops/element/element.hpp"

namespace cubit::check::kv_cache {
namespace {

std::uint16_t saturated_half(float value) { return from_float(Element::fp16, std::clamp(value, -65504.f, 65504.f)); }

constexpr std::uint16_t kHalfNan = 0x7e00;  ///< the NaN that cubit stores in fp16
constexpr std::uint32_t kFloatNan = 0x7fc00000;

bool are_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

double load16(Element element, const char* src) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, src, 2);
  return to_double(element, bits);
}

void store16(Element element, float value, char* dst) {
  const std::uint16_t bits = from_float(element, value);
  std::memcpy(dst, &bits, 2);
}

/// Quantises one row to int4_rows, as FBGEMM does. Let lo and hi be a group's extremes in float. Then q =
/// clamp(round-half-even((x - lo) * 15 / ((hi - lo) + 1e-8)), 0, 15), the stored scale is fp16((hi - lo) / 15) and the
/// stored shift is fp16(lo), both saturated. A shift or a scale of zero is stored as +0. A group with an infinity or
/// NaN has the scale and the shift NaN, and q = 0.
void quantise_int4(const RowFormat& format, const float* src, char* dst) {
  const int groups = format.groups;
  const int width = format.head_dim / groups;
  auto* packed = reinterpret_cast<std::uint8_t*>(dst + format.header_bytes());
  std::memset(packed, 0, format.head_dim / 2);
  for (int group = 0; group < groups; ++group) {
    if (!are_finite(std::span(src, format.head_dim).subspan(group * width, width))) {
      const std::uint16_t header[2] = {kHalfNan, kHalfNan};
      std::memcpy(dst + 4 * group, header, 4);
      continue;
    }
    const auto [lo, hi] = std::minmax_element(src + group * width, src + (group + 1) * width);
    const float lowest = *lo + 0.f;
    const float range = *hi + 0.f - lowest;
    const std::uint16_t header[2] = {saturated_half(range / 15.f), saturated_half(lowest)};
    std::memcpy(dst + 4 * group, header, 4);
    for (int channel = group * width; channel < (group + 1) * width; ++channel) {
      const float steps = round_half_even((src[channel] - lowest) * 15.f / (range + 1e-8f));
      const auto q = std::isnan(steps) ? 0U : static_cast<unsigned>(std::clamp(steps, 0.f, 15.f));
      packed[channel / 2] |= static_cast<std::uint8_t>(q << (channel % 2 * 4));
    }
  }
}

void dequantise_int4(const RowFormat& format, const char* src, double* dst) {
  const int width = format.head_dim / format.groups;
  const char* const packed = src + format.header_bytes();
  for (int group = 0; group < format.groups; ++group) {
    const double scale = load16(Element::fp16, src + 4 * group);
    const double shift = load16(Element::fp16, src + 4 * group + 2);
    for (int channel = group * width; channel < (group + 1) * width; ++channel) {
      const int q = static_cast<unsigned char>(packed[channel / 2]) >> (channel % 2 * 4) & 15;
      dst[channel] = scale * q + shift;
    }
  }
}

Fp8 fp8_of(KvFormat kv) { return kv == KvFormat::fp8_e4m3 ? kE4m3 : kE5m2; }

std::uint8_t int8_from_float(float value) {
  return std::isnan(value) ? 0 : static_cast<std::uint8_t>(static_cast<int>(round_half_even(value)));
}

void store_nan_scale(const RowFormat& format, char* dst) {
  if (format.scale_type == ScaleType::fp32)
    std::memcpy(dst, &kFloatNan, sizeof kFloatNan);
  else
    std::memcpy(dst, &kHalfNan, sizeof kHalfNan);
}

/// The byte of x / scale. Of an infinity, fp8 stores NaN, and int8 its largest number.
std::uint8_t byte_of(const RowFormat& format, float x, float scale) {
  const bool is_int8 = format.kv == KvFormat::int8_split;
  const float most = format.largest();
  if (std::isnan(x) || std::isnan(scale) || (std::isinf(x) && !is_int8)) return is_int8 ? 0 : 0x7f;
  if (std::isinf(x)) return int8_from_float(x > 0 ? most : -most);
  const float steps = scale == 0 ? 0.f : std::clamp(x / scale + 0.f, -most, most);  // adding 0 turns -0 into +0
  return is_int8 ? int8_from_float(steps) : fp8_from_float(fp8_of(format.kv), steps);
}

/// Quantises one row to 8 bits; see <cubit/kv_append.h>.
void quantise_bytes(const RowFormat& format, const float* src, char* dst, char* scales) {
  const int width = format.head_dim / format.groups;
  for (int group = 0; group < format.groups; ++group, src += width, dst += width, scales += format.scale_bytes()) {
    if (format.makes_scales() && !are_finite(std::span(src, static_cast<std::size_t>(width)))) {
      store_nan_scale(format, scales);
      std::memset(dst, 0, static_cast<std::size_t>(width));
      continue;
    }
    if (format.makes_scales()) {
      float peak = 0;
      for (int i = 0; i < width; ++i) peak = std::max(peak, std::fabs(src[i]));
      store_scale(format, peak, scales);
    }
    const float scale = load_scale(format, scales);
    for (int i = 0; i < width; ++i) dst[i] = static_cast<char>(byte_of(format, src[i], scale));
  }
}

/// The value of every byte of a cache with one byte per channel.
std::array<double, 256> values_of_bytes(KvFormat kv) {
  std::array<double, 256> values{};
  for (int byte = 0; byte < 256; ++byte) {
    const auto bits = static_cast<std::uint8_t>(byte);
    values[byte] = kv == KvFormat::int8_split ? static_cast<std::int8_t>(bits) : fp8_to_double(fp8_of(kv), bits);
  }
  return values;
}

const std::array<double, 256>& table_of_bytes(KvFormat kv) {
  static const auto int8 = values_of_bytes(KvFormat::int8_split);
  static const auto e4m3 = values_of_bytes(KvFormat::fp8_e4m3);
  static const auto e5m2 = values_of_bytes(KvFormat::fp8_e5m2);
  return kv == KvFormat::int8_split ? int8 : kv == KvFormat::fp8_e4m3 ? e4m3 : e5m2;
}

void dequantise_bytes(const RowFormat& format, const char* src, double* dst, const char* scales) {
  const int width = format.head_dim / format.groups;
  const std::array<double, 256>& values = table_of_bytes(format.kv);
  for (int group = 0; group < format.groups; ++group) {
    const double scale = load_scale(format, scales + group * format.scale_bytes());
    for (int channel = group * width; channel < (group + 1) * width; ++channel)
      dst[channel] = scale * values[static_cast<std::uint8_t>(src[channel])];
  }
}

}  // namespace

float load_scale(const RowFormat& format, const char* src) {
  if (format.scale_type == ScaleType::fp16) return static_cast<float>(load16(Element::fp16, src));
  float scale = 0;
  std::memcpy(&scale, src, 4);
  return scale;
}

void store_scale(const RowFormat& format, float peak, char* dst) {
  const float scale = std::max(peak / format.largest(), 1e-8f);
  if (format.scale_type == ScaleType::fp32) {
    std::memcpy(dst, &scale, 4);
  } else {
    const std::uint16_t bits = saturated_half(scale);
    std::memcpy(dst, &bits, 2);
  }
}

void load_row(Element element, const char* src, int channels, float* dst) {
  for (int channel = 0; channel < channels; ++channel)
    dst[channel] = static_cast<float>(load16(element, src + 2 * channel));
}

void store_row(Element element, const float* src, int channels, char* dst) {
  for (int channel = 0; channel < channels; ++channel) store16(element, src[channel], dst + 2 * channel);
}

void quantise_row(const RowFormat& format, const float* src, char* dst, char* scales) {
  if (format.is_16bit()) return store_row(format.element(), src, format.head_dim, dst);
  if (format.has_scales()) return quantise_bytes(format, src, dst, scales);
  quantise_int4(format, src, dst);
}

void dequantise_row(const RowFormat& format, const char* src, double* dst, const char* scales) {
  if (format.has_scales()) return dequantise_bytes(format, src, dst, scales);
  if (!format.is_16bit()) return dequantise_int4(format, src, dst);
  for (int channel = 0; channel < format.head_dim; ++channel)
    dst[channel] = load16(format.element(), src + 2 * channel);
}

}  // namespace cubit::check::kv_cache
