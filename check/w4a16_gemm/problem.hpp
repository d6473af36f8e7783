// Problems of the operator w4a16_gemm. The inputs of a problem are dense host tensors in a fixed order: activations,
// qweight, scales, then qzeros, g_idx, bias and residual if the descriptor has them. Dense weights are one tensor
// `weight` in the place of the packed ones. The tensors of a second and of a third layer follow: qweight_2, scales_2 …
#pragma once

#include <array>

#include "check/host_tensors.hpp"
#include "check/matrix_products.hpp"
#include "check/w4a16_gemm/reference.hpp"

namespace cubit::check::w4a16_gemm {

/// The scalar arguments of a launch; see cubit_w4a16_gemm_arguments.
struct LaunchNumbers {
  std::int32_t decomposition = 0;
  std::int32_t splits = 0;

  static constexpr const char* kNames = "decomposition, splits";
  /// Sets the number `name`. Returns false if there is no number of this name. Throws Failure(invalid_argument) for a
  /// value that the descriptor rules out.
  bool set(const W4a16Gemm& descriptor, std::string_view name, double value);
};

/// The name of a tensor of layer `layer`, which begins with 0: "qweight", "qweight_2", "qweight_3".
std::string name_in_layer(std::string_view name, int layer);

/// The names of the inputs that a descriptor has, in order.
std::vector<std::string_view> input_names(const W4a16Gemm& descriptor);

/// The remedy "ask for <what>", such as element=bf16, if the descriptor `changed` in this way is legal, if necessary
/// with tile_n and family left out; else `otherwise`.
std::string remedy_of_change(W4a16Gemm changed, const std::string& what, const std::string& otherwise);

/// Checks that `order` holds the number of one of `groups` groups for every k. Throws Failure(invalid_argument).
void check_group_numbers(const Tensor& order, std::int64_t k, std::int64_t groups);

class GemmProblem final : public Problem {
 public:
  /// Checks all tensors. `inputs` are in the order of input_names. Throws Failure(invalid_argument).
  GemmProblem(W4a16Gemm descriptor, Tensors inputs, const LaunchNumbers& numbers);

  const std::vector<Tensor>& inputs() const override { return inputs_.list(); }
  const std::vector<Tensor>& outputs() const override { return outputs_; }
  std::size_t bytes_read() const override;
  std::size_t bytes_written() const override;
  double operations() const override;
  std::vector<std::byte> arguments(std::span<void* const> device_data) const override;
  Comparison compare(std::span<const void* const> got) const override;
  int k() const { return static_cast<int>(activations().shape[1]); }

 private:
  const Tensor& activations() const { return inputs_.list()[0]; }
  const Tensor& weights() const { return inputs_.list()[1]; }  ///< `qweight` or `weight`, of the first layer
  const Tensor& scales(int layer = 0) const { return *find(name_in_layer("scales", layer)); }  ///< of packed weights
  const Tensor* find(std::string_view name) const { return inputs_.find(name); }  ///< null if it is not given
  int m() const { return static_cast<int>(activations().shape[0]); }
  int n() const { return static_cast<int>(columns_of_layers(layer_columns())); }  ///< of all layers
  LayerColumns layer_columns() const;
  void check() const;
  void check_layer(int layer) const;
  void check_packed_weights(int layer) const;
  void check_bias(int layer) const;
  void check_order() const;
  void check_shape(std::string_view name, std::string_view type, std::array<std::int64_t, 2> shape) const;
  double element(const Tensor& tensor, std::int64_t index) const;
  PackedWeights packed_weights(int layer) const;
  /// Columns of the product, bias included.
  std::vector<ColumnSums> multiply_columns(const RowBlocks& activations, int first, int count) const;
  /// Writes the reference of `count` output columns to `reference`, and their absolute contributions to `scale`. Both
  /// are [m][columns].
  void reference_columns(const RowBlocks& activations, int first, int count, double* reference, double* scale) const;
  double tolerance() const;

  W4a16Gemm descriptor_;
  Tensors inputs_;
  std::vector<Tensor> outputs_;
  LaunchNumbers numbers_;
};

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> given, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed);
/// See OperatorProblems::fit.
std::string fit(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);

std::string random_help();
/// The cases of the tables in bench/results.
std::vector<BenchCase> bench_cases();
std::vector<Decomposition> decompositions();

}  // namespace cubit::check::w4a16_gemm
