// The steps of a transformer block in INT8 through cubit's kernels, and the error of each linear layer.
#pragma once

#include <cstddef>
#include <cubit/quantised_weights.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/study/accuracy/int8_choices.hpp"
#include "tools/study/accuracy/transformer_block.hpp"
#include "tools/study/kernel_runner.hpp"

namespace cubit::tools {

/// A layer's weight in fp32 and in INT8.
struct Int8Weight {
  Matrix exact;
  bool per_channel = false;
  calibrate::QuantisedWeights quantised;
};
Int8Weight quantised_weight(const Matrix& weight, bool per_channel);

/// Rows of codes with a scale per row, or one scale.
struct Int8Rows {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<std::byte> codes;
  std::vector<float> scales;
};

/// cubit's kernels on host data. Rows between kernels are fp16. A given `scale` is that of the whole tensor; without
/// one the kernel computes a scale per row. `what` names the tensor in errors.
class Int8Kernels {
 public:
  explicit Int8Kernels(const KernelRunner& runner) : runner_(runner) {}
  Int8Rows quantize(const Matrix& rows, std::optional<float> scale, const std::string& what) const;
  Int8Rows norm_quantize(const Matrix& rows, const Matrix& weight, std::optional<float> scale,
                         const std::string& what) const;
  Int8Rows gate_quantize(const Matrix& gate, const Matrix& up, std::optional<float> scale,
                         const std::string& what) const;
  Matrix multiply(const Int8Rows& rows, const Int8Weight& weight, const std::string& what) const;

 private:
  const KernelRunner& runner_;
};

/// The scale of a layer's input: `given` for static scales, else the largest magnitude / 127, or none for a scale per
/// token.
std::optional<float> input_scale(InputScale kind, const Matrix& input, std::optional<float> given);

/// Computes a block by Int8Kernels. The error of a layer is that of its output beside the product of the same input
/// and weight in fp32.
class Int8Steps : public BlockSteps {
 public:
  /// `weights`: by layer. `scales`: static scales by layer, empty for dynamic scales.
  Int8Steps(const Int8Kernels& kernels, const TransformerBlock& block, const std::map<std::string, Int8Weight>& weights,
            InputScale kind, const std::map<std::string, float>& scales)
      : kernels_(kernels), block_(block), weights_(weights), kind_(kind), scales_(scales) {}

  std::vector<Matrix> norm_linears(const std::string& norm, const Matrix& rows,
                                   const std::vector<std::string>& layers) override;
  Matrix linear(const std::string& layer, const Matrix& rows) override;
  Matrix gated_linear(const std::string& layer, const Matrix& gate, const Matrix& up) override;
  const std::map<std::string, double>& layer_errors() const { return layer_errors_; }

 private:
  std::optional<float> scale(const std::string& layer, const Matrix& input) const;
  Matrix multiply(const std::string& layer, const Int8Rows& rows, const Matrix& input);

  const Int8Kernels& kernels_;
  const TransformerBlock& block_;
  const std::map<std::string, Int8Weight>& weights_;
  InputScale kind_;
  const std::map<std::string, float>& scales_;
  std::map<std::string, double> layer_errors_;
};

}  // namespace cubit::tools
