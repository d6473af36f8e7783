// The operator's Problem: dense host tensors in the order activations, qweight, scales, then those of qzeros, g_idx,
// bias and residual that the descriptor has.
#pragma once

#include <array>

#include "check/host_tensors.hpp"
#include "check/w4a16_gemm/reference.hpp"

namespace cubit::check::w4a16_gemm {

/// What a launch takes beside tensors: see cubit_w4a16_gemm_arguments.
struct LaunchNumbers {
  std::int32_t decomposition = 0;
  std::int32_t splits = 0;

  static constexpr const char* kNames = "decomposition, splits";
  /// False if there is no number of this name. Throws Failure(invalid_argument) for what the descriptor rules out.
  bool set(const W4a16Gemm& descriptor, std::string_view name, double value);
};

/// The names of a descriptor's inputs, in order.
std::vector<std::string_view> input_names(const W4a16Gemm& descriptor);

/// "ask for element=bf16", say, where the descriptor that has been `changed` so is legal, maybe in kernels that cubit
/// chooses; else `otherwise`.
std::string remedy_of_change(W4a16Gemm changed, const std::string& what, const std::string& otherwise);

/// That `order` has for every k the number of a group that there is. Throws Failure(invalid_argument).
void check_group_numbers(const W4a16Gemm& descriptor, const Tensor& order, std::int64_t k);

class GemmProblem final : public Problem {
 public:
  /// `inputs` as input_names says. Checks everything; throws Failure(invalid_argument).
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
  const Tensor& qweight() const { return inputs_.list()[1]; }
  const Tensor& scales() const { return inputs_.list()[2]; }
  const Tensor* find(std::string_view name) const { return inputs_.find(name); }  ///< null: there is none
  int m() const { return static_cast<int>(activations().shape[0]); }
  int n() const { return static_cast<int>(scales().shape[1]); }
  void check() const;
  void check_group_size() const;
  void check_scales() const;
  void check_order() const;
  void check_shape(std::string_view name, std::string_view type, std::array<std::int64_t, 2> shape) const;
  double element(const Tensor& tensor, std::int64_t index) const;
  /// Of one column of the weights: the product of every row with its bias, and the sum of its absolute contributions.
  struct Column {
    std::vector<double> product;
    std::vector<double> contributions;
  };
  Column multiply_column(const std::vector<double>& activations, int n) const;
  /// The reference of column `column` of the output, in `reference`, and in `scale` its absolute contributions;
  /// [m][columns].
  void reference_column(const std::vector<double>& activations, int column, double* reference, double* scale) const;
  double tolerance() const;

  W4a16Gemm descriptor_;
  Tensors inputs_;
  std::vector<Tensor> outputs_;
  LaunchNumbers numbers_;
};

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& sizes, std::uint64_t seed);

std::string random_help();
/// The table of docs/performance/w4a16_gemm.md.
std::vector<BenchCase> bench_cases();
std::vector<Decomposition> decompositions();

}  // namespace cubit::check::w4a16_gemm
