// Quantised rows on the host, bit for bit as <cubit/quantisation.h> defines them, and the tensors of a result.
#pragma once

#include <cubit/quantisation.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "check/host_tensors.hpp"
#include "check/problem.hpp"

namespace cubit::check::quantisation {

/// The largest code of a type: 127 or 448.
float most_of(Quantised type);
/// The value of a byte before it is multiplied by a scale.
double value_of(Quantised type, std::uint8_t byte);

struct QuantisedRow {
  std::vector<std::uint8_t> bytes;
  float scale = 0;
  int zero_point = 0;
};
/// `given_scale` counts with scale=tensor only.
QuantisedRow quantise(const RowQuantisation& quantisation, std::span<const float> row, float given_scale);

/// The sizes and the order of a result.
struct ResultShape {
  RowQuantisation quantisation;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Element element = Element::fp16;  ///< type of an unquantised result

  /// output, scales and zero_points, as far as the launch writes them.
  std::vector<Tensor> tensors() const;
  /// The place of an element in the dense tensor `output`.
  std::int64_t place(std::int64_t row, std::int64_t column) const;
};

/// The result of a launch in host memory, as Problem::compare gets it.
class ResultView {
 public:
  /// `got`: the data of the tensors in the order of ResultShape::tensors().
  ResultView(const ResultShape& shape, std::span<const void* const> got, float given_scale);
  std::uint8_t byte(std::int64_t row, std::int64_t column) const;
  /// A value of an unquantised result.
  double unquantised(std::int64_t row, std::int64_t column) const;
  float scale(std::int64_t row) const { return scales_ == nullptr ? given_scale_ : scales_[row]; }
  int zero_point(std::int64_t row) const { return zero_points_ == nullptr ? 0 : zero_points_[row]; }
  /// The number of bytes, scales and zero points of the row that differ from `expected`. NaN equals NaN of equal bits.
  std::int64_t differences(std::int64_t row, const QuantisedRow& expected) const;

 private:
  ResultShape shape_;
  const std::uint8_t* bytes_ = nullptr;
  const float* scales_ = nullptr;
  const std::int32_t* zero_points_ = nullptr;
  float given_scale_ = 0;
};

/// Sets the pointers and the stride of a dense result. `device_data`: the addresses of ResultShape::tensors(). `scale`:
/// the address of the given scale, or null.
void set_result(cubit_quantised_rows& arguments, const ResultShape& shape, std::span<void* const> device_data,
                const void* scale);

/// Overwrites values of 16-bit rows so that every case of the formulas occurs: row 1 of every four has the largest code
/// as its largest magnitude, so that its scale is 1; row 2 has a NaN, row 3 an infinity. Of every two rows 3, the first
/// has infinities of both signs. The second has only a positive infinity, which the gate functions keep.
void add_special_values(Element element, Quantised type, std::int64_t rows, std::int64_t columns, char* data);
/// A given scale for 16-bit rows, such that some of the values saturate. `pattern`: of check/random_rows.hpp.
float made_up_scale(Element element, Quantised type, std::int64_t count, const char* data, int pattern);

}  // namespace cubit::check::quantisation
