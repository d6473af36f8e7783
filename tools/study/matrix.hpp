// Matrices of fp32 for the studies of accuracy: made-up values, products, errors, and their form in 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace cubit::tools {

/// Row-major: tokens of channels, or a weight [out, in]. A norm's weight has one row.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<float> values;

  const float* row(std::size_t i) const { return values.data() + i * columns; }
  float* row(std::size_t i) { return values.data() + i * columns; }
  std::vector<std::int64_t> shape() const {
    return {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
  }
};

/// Normal values with mean 0. The same generator gives the same values with every standard library.
Matrix random_matrix(std::mt19937& random, std::size_t rows, std::size_t columns, double deviation);

/// inputs [tokens, in] · weight [out, in]ᵀ, with sums in double precision.
Matrix product(const Matrix& inputs, const Matrix& weight);
Matrix sum(Matrix a, const Matrix& b);

/// |got - exact| / |exact| in the Euclidean norm; 0 if both are zero.
double relative_error(const Matrix& got, const Matrix& exact);

/// The values in fp16, rounded half to even. Throws WorkFailed that names `what` ("the input of mlp.up_proj") if a
/// value is not finite in fp16.
std::vector<std::uint16_t> half_values(const Matrix& matrix, const std::string& what);
/// The values of fp16 bits. Throws WorkFailed that names `what` if a value is not finite.
Matrix matrix_of_halves(std::size_t rows, std::size_t columns, std::span<const std::byte> bytes,
                        const std::string& what);

}  // namespace cubit::tools
