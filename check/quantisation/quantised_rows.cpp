#include "check/quantisation/quantised_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "check/byte_values.hpp"
#include "check/rounding.hpp"
#include "ops/element/element.hpp"

namespace cubit::check::quantisation {
namespace {

constexpr float kLeastScale = 1e-8f;
constexpr std::uint32_t kNan = 0x7fc00000;
constexpr std::int64_t kBlock = 32;  ///< columns of a COL32 block

std::uint8_t byte_of(int code) { return static_cast<std::uint8_t>(static_cast<std::int8_t>(code)); }

/// The code of x / scale with a scale that is a number.
std::uint8_t code_of(Quantised type, float x, float scale) {
  const float most = most_of(type);
  if (type == Quantised::int8)
    return std::isnan(x) ? 0 : byte_of(static_cast<int>(round_half_even(std::clamp(x / scale, -most, most))));
  // Adding 0 turns -0 into +0.
  return fp8_from_float(kE4m3, std::isfinite(x) ? std::clamp(x / scale + 0.f, -most, most) : x - x);
}

QuantisedRow with_given_scale(Quantised type, std::span<const float> row, float scale) {
  QuantisedRow result;
  result.scale = scale;
  const bool is_valid = scale >= 0x1p-100f && scale <= 0x1p100f;
  const std::uint8_t invalid = type == Quantised::int8 ? 0 : 0x7f;
  for (const float x : row) result.bytes.push_back(is_valid ? code_of(type, x, scale) : invalid);
  return result;
}

QuantisedRow with_zero_point(std::span<const float> row) {
  const auto [least, largest] = std::minmax_element(row.begin(), row.end());
  const float lowest = std::min(*least, 0.f);
  const float highest = std::max(*largest, 0.f);
  const float highest_steps = highest / 255.f;
  const float lowest_steps = lowest / 255.f;
  QuantisedRow result;
  result.scale = std::max(highest_steps - lowest_steps, kLeastScale);
  const float above = lowest / result.scale;
  result.zero_point = static_cast<int>(round_half_even(std::clamp(-128.f - above, -128.f, 127.f)));
  for (const float x : row) {
    const float steps = x / result.scale;
    const float code = std::clamp(steps + static_cast<float>(result.zero_point), -128.f, 127.f);
    result.bytes.push_back(byte_of(static_cast<int>(round_half_even(code))));
  }
  return result;
}

QuantisedRow symmetric(Quantised type, std::span<const float> row) {
  float peak = 0;
  for (const float x : row) peak = std::max(peak, std::fabs(x));
  QuantisedRow result;
  result.scale = std::max(peak / most_of(type), kLeastScale);
  for (const float x : row) result.bytes.push_back(code_of(type, x, result.scale));
  return result;
}

float load_value(Element element, const char* data, std::int64_t index) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, data + 2 * index, sizeof bits);
  return static_cast<float>(to_double(element, bits));
}

}  // namespace

float most_of(Quantised type) { return type == Quantised::int8 ? 127.f : 448.f; }

double value_of(Quantised type, std::uint8_t byte) {
  return type == Quantised::int8 ? static_cast<std::int8_t>(byte) : fp8_to_double(kE4m3, byte);
}

QuantisedRow quantise(const RowQuantisation& quantisation, std::span<const float> row, float given_scale) {
  if (quantisation.scale == ScaleScope::tensor) return with_given_scale(quantisation.output, row, given_scale);
  if (!std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); }))
    return {std::vector<std::uint8_t>(row.size()), std::bit_cast<float>(kNan), 0};
  return quantisation.has_zero_points() ? with_zero_point(row) : symmetric(quantisation.output, row);
}

std::vector<Tensor> ResultShape::tensors() const {
  const std::string_view type = quantisation.output == Quantised::none   ? element_type(element)
                                : quantisation.output == Quantised::int8 ? "I8"
                                                                         : "F8_E4M3";
  std::vector<std::int64_t> shape = {rows, columns};
  if (quantisation.layout == RowLayout::col32) shape = {columns / kBlock, rows, kBlock};
  std::vector<Tensor> list = {dense("output", type, std::move(shape), nullptr)};
  if (quantisation.writes_scales()) list.push_back(dense("scales", "F32", {rows}, nullptr));
  if (quantisation.has_zero_points()) list.push_back(dense("zero_points", "I32", {rows}, nullptr));
  return list;
}

std::int64_t ResultShape::place(std::int64_t row, std::int64_t column) const {
  if (quantisation.layout == RowLayout::row) return row * columns + column;
  return column / kBlock * kBlock * rows + kBlock * row + column % kBlock;
}

ResultView::ResultView(const ResultShape& shape, std::span<const void* const> got, float given_scale)
    : shape_(shape), bytes_(static_cast<const std::uint8_t*>(got[0])), given_scale_(given_scale) {
  if (got.size() > 1) scales_ = static_cast<const float*>(got[1]);
  if (got.size() > 2) zero_points_ = static_cast<const std::int32_t*>(got[2]);
}

double ResultView::unquantised(std::int64_t row, std::int64_t column) const {
  return load_value(shape_.element, reinterpret_cast<const char*>(bytes_), row * shape_.columns + column);
}

std::uint8_t ResultView::byte(std::int64_t row, std::int64_t column) const { return bytes_[shape_.place(row, column)]; }

std::int64_t ResultView::differences(std::int64_t row, const QuantisedRow& expected) const {
  std::int64_t count = 0;
  if (std::bit_cast<std::uint32_t>(scale(row)) != std::bit_cast<std::uint32_t>(expected.scale)) ++count;
  if (zero_point(row) != expected.zero_point) ++count;
  for (std::int64_t column = 0; column < shape_.columns; ++column)
    if (byte(row, column) != expected.bytes[column]) ++count;
  return count;
}

void set_result(cubit_quantised_rows& arguments, const ResultShape& shape, std::span<void* const> device_data,
                const void* scale) {
  arguments.output = device_data[0];
  arguments.scale = static_cast<const float*>(scale);
  if (device_data.size() > 1) arguments.scales = static_cast<float*>(device_data[1]);
  if (device_data.size() > 2) arguments.zero_points = static_cast<std::int32_t*>(device_data[2]);
  arguments.output_stride = shape.quantisation.layout == RowLayout::row ? shape.columns : kBlock * shape.rows;
}

void add_special_values(Element element, Quantised type, std::int64_t rows, std::int64_t columns, char* data) {
  const auto set = [&](std::int64_t row, std::int64_t column, float value) {
    const std::uint16_t bits = from_float(element, value);
    std::memcpy(data + 2 * (row * columns + column % columns), &bits, sizeof bits);
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t column = 37 * row + 5;
    if (row % 4 == 1) set(row, column, row % 8 == 1 ? most_of(type) : -most_of(type));
    if (row % 4 == 2) set(row, column, std::numeric_limits<float>::quiet_NaN());
    if (row % 4 == 3) set(row, column, kInfinity);
    if (row % 8 == 3) set(row, column + 1, -kInfinity);
  }
}

float made_up_scale(Element element, Quantised type, std::int64_t count, const char* data, int pattern) {
  constexpr int kTies = 3;
  if (pattern == kTies) return 1;
  constexpr float kSaturating = 0.6f;
  float peak = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(load_value(element, data, i));
    if (std::isfinite(magnitude)) peak = std::max(peak, magnitude);
  }
  return peak == 0 ? 1.f : kSaturating * peak / most_of(type);
}

}  // namespace cubit::check::quantisation
