#include "ops/kv_cache/row_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.hpp"

namespace cubit::ops::kv_cache {
namespace {

std::uint16_t saturated_half(float value) { return from_float(Element::fp16, std::clamp(value, -65504.f, 65504.f)); }

double load16(Element element, const char* src) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, src, 2);
  return to_double(element, bits);
}

void store16(Element element, float value, char* dst) {
  const std::uint16_t bits = from_float(element, value);
  std::memcpy(dst, &bits, 2);
}

/// Per group: lo, hi the extremes in float; q = clamp(round-half-even((x - lo) * 15 / ((hi - lo) + 1e-8)), 0, 15);
/// stored scale = fp16((hi - lo) / 15), shift = fp16(lo), both saturated. This is what FBGEMM writes. A shift of zero is
/// stored as +0, whichever zero comes first.
void quantise_int4(const RowFormat& format, const float* src, char* dst) {
  const int groups = format.groups;
  const int width = format.head_dim / groups;
  auto* packed = reinterpret_cast<std::uint8_t*>(dst + format.header_bytes());
  std::memset(packed, 0, format.head_dim / 2);
  for (int group = 0; group < groups; ++group) {
    const auto [lo, hi] = std::minmax_element(src + group * width, src + (group + 1) * width);
    const float lowest = *lo + 0.f;
    const float range = *hi - lowest;
    const std::uint16_t header[2] = {saturated_half(range / 15.f), saturated_half(lowest)};
    std::memcpy(dst + 4 * group, header, 4);
    for (int channel = group * width; channel < (group + 1) * width; ++channel) {
      const float steps = std::nearbyint((src[channel] - lowest) * 15.f / (range + 1e-8f));
      const auto q = static_cast<unsigned>(std::clamp(steps, 0.f, 15.f));
      packed[channel / 2] |= static_cast<std::uint8_t>(q << (channel % 2 * 4));
    }
  }
}

void dequantise_int4(const RowFormat& format, const char* src, double* dst) {
  const int width = format.head_dim / format.groups;
  for (int channel = 0; channel < format.head_dim; ++channel) {
    const char* header = src + 4 * (channel / width);
    const int packed = static_cast<unsigned char>(src[format.header_bytes() + channel / 2]);
    const int q = packed >> (channel % 2 * 4) & 15;
    dst[channel] = load16(Element::fp16, header) * q + load16(Element::fp16, header + 2);
  }
}

}  // namespace

std::string_view RowFormat::type() const { return is_16bit() ? element_type(element()) : "U8"; }

void validate_given_fields(const RowFormat& format, std::string_view text) {
  for (const auto& [name, value] : split_fields(text)) {
    if (name == "groups" && format.kv != KvFormat::int4_rows) {
      throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                    "the field groups applies to kv=int4_rows only", "leave groups out or ask for kv=int4_rows");
    }
  }
}

void validate_format(const RowFormat& format, const std::string& canonical) {
  if (format.kv != KvFormat::int4_rows || format.head_dim % (16 * format.groups) == 0) return;
  const int most = std::gcd(format.head_dim / 16, 8);
  throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", canonical),
                fmt::format("{} channels in {} groups are {} per group, not a multiple of 16", format.head_dim,
                            format.groups, format.head_dim / format.groups),
                fmt::format("at most {} group{} for this head_dim", most, most == 1 ? "" : "s"));
}

void load_row(Element element, const char* src, int channels, float* dst) {
  for (int channel = 0; channel < channels; ++channel)
    dst[channel] = static_cast<float>(load16(element, src + 2 * channel));
}

void store_row(Element element, const float* src, int channels, char* dst) {
  for (int channel = 0; channel < channels; ++channel) store16(element, src[channel], dst + 2 * channel);
}

void quantise_row(const RowFormat& format, const float* src, char* dst) {
  if (format.is_16bit()) return store_row(format.element(), src, format.head_dim, dst);
  quantise_int4(format, src, dst);
}

void dequantise_row(const RowFormat& format, const char* src, double* dst) {
  if (!format.is_16bit()) return dequantise_int4(format, src, dst);
  for (int channel = 0; channel < format.head_dim; ++channel)
    dst[channel] = load16(format.element(), src + 2 * channel);
}

}  // namespace cubit::ops::kv_cache
