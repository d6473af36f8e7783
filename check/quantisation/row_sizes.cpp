#include "check/quantisation/row_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "check/made_up_data.hpp"
#include "check/random_rows.hpp"

namespace cubit::check::quantisation {
namespace {

std::size_t bytes_of(const std::vector<Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

}  // namespace

std::string RowSizes::help() {
  return fmt::format("rows, columns, special (1: some rows with NaN, infinities or the largest code), {}",
                     kRowPatternsHelp);
}

RowSizes read_row_sizes(const Numbers& numbers, const char* op) {
  RowSizes sizes;
  constexpr double kMost = 1 << 24;
  for (const auto& [name, value] : numbers) {
    if (name == "rows") {
      sizes.rows = whole_number(name, value, 0, kMost);
    } else if (name == "columns") {
      sizes.columns = whole_number(name, value, 1, kMost);
    } else if (name == "pattern") {
      sizes.pattern = static_cast<int>(whole_number(name, value, 0, kRowPatterns - 1));
    } else if (name == "special") {
      sizes.special = whole_number(name, value, 0, 1) != 0;
    } else {
      reject(fmt::format("size {}", name), fmt::format("{} has no such size", op),
             "accepted: rows, columns, pattern, special");
    }
  }
  require_made_up(fmt::format("rows = {} and columns = {}", sizes.rows, sizes.columns),
                  2 * static_cast<double>(sizes.rows) * static_cast<double>(sizes.columns), "ask for smaller sizes");
  return sizes;
}

void add_rows(Tensors& tensors, const char* name, Element element, const RowSizes& sizes, std::uint64_t seed) {
  tensors.add(dense(name, element_type(element), {sizes.rows, sizes.columns}, nullptr),
              random_rows(element, sizes.rows, static_cast<int>(sizes.columns), sizes.pattern, seed));
}

void add_scale(Tensors& tensors, float scale) {
  auto storage = std::make_unique<char[]>(sizeof scale);
  std::memcpy(storage.get(), &scale, sizeof scale);
  tensors.add(dense("scale", "F32", {1}, nullptr), std::move(storage));
}

float given_scale(const Tensor& tensor) {
  require_type(tensor, "F32");
  require_shape(tensor, {1}, "[1]");
  float scale = 0;
  std::memcpy(&scale, tensor.data, sizeof scale);
  if (!(scale >= 0x1p-100f && scale <= 0x1p100f)) {
    reject(fmt::format("scale = {}", scale), "a given scale must be a positive number",
           "accepted: numbers from 2^-100 to 2^100");
  }
  return scale;
}

void take(Tensors& taken, std::span<const Tensor> inputs, const char* name, const char* op) {
  if (!taken.take(inputs, name)) reject(fmt::format("tensors without {}", name), fmt::format("{} needs it", op));
}

void require_no_numbers(const Numbers& numbers, const char* op) {
  if (numbers.empty()) return;
  reject(fmt::format("number {}", numbers.begin()->first), fmt::format("{} takes no numbers", op), "leave it out");
}

void require_addresses(std::span<void* const> device_data, std::size_t inputs, std::size_t outputs) {
  if (device_data.size() == inputs + outputs) return;
  reject(fmt::format("{} device addresses", device_data.size()),
         fmt::format("this problem has {} inputs and {} outputs", inputs, outputs));
}

void require_outputs(std::span<const void* const> got, std::size_t outputs) {
  if (got.size() == outputs) return;
  reject(fmt::format("{} outputs", got.size()), "every output of the problem is compared",
         fmt::format("accepted: {}", outputs));
}

std::size_t RowProblem::bytes_read() const { return bytes_of(inputs_.list()); }

std::size_t RowProblem::bytes_written() const { return bytes_of(outputs_); }

std::vector<float> row_of(Element element, const char* data, std::int64_t row, std::int64_t columns) {
  std::vector<float> values(columns);
  for (std::int64_t column = 0; column < columns; ++column) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, data + 2 * (row * columns + column), sizeof bits);
    values[column] = static_cast<float>(to_double(element, bits));
  }
  return values;
}

Problem::Comparison worst_of(const std::vector<double>& errors, double tolerance) {
  Problem::Comparison result{0, tolerance, "none"};
  const auto worst = std::max_element(errors.begin(), errors.end());
  if (worst == errors.end()) return result;
  result.error = *worst;
  result.worst = fmt::format("row {}", worst - errors.begin());
  return result;
}

}  // namespace cubit::check::quantisation
