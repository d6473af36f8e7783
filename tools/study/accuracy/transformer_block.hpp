// A transformer block of made-up weights with planted outlier channels: its steps, its fp32 result, and SmoothQuant.
//
//   hidden = inputs + o_proj(attention(q_proj(x), k_proj(x), v_proj(x))),  x = RMSNorm(inputs)
//   output = hidden + down_proj(silu(gate_proj(y)) · up_proj(y)),          y = RMSNorm(hidden)
#pragma once

#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tools/study/matrix.hpp"

namespace cubit::tools {

struct BlockSizes {
  std::size_t hidden = 256;
  std::size_t inner = 512;  ///< channels between gate_proj, up_proj and down_proj
  std::size_t heads = 4;    ///< heads of hidden / heads channels
};

/// What makes a channel of a norm's output an outlier. The layers that read the norm undo most of it.
struct PlantedOutliers {
  double norm = 100;   ///< factor of the norm's weight in kOutlierChannels channels
  double weight = 10;  ///< the weights of outlier channels are divided by this number
};

inline constexpr std::size_t kOutlierChannels = 6;
inline constexpr double kNormEpsilon = 1e-6;
inline constexpr const char* kInputNorm = "model.layers.0.input_layernorm";
inline constexpr const char* kOutputNorm = "model.layers.0.post_attention_layernorm";

/// "model.layers.0.self_attn.q_proj" of "self_attn.q_proj".
std::string block_layer(std::string_view name);
/// The seven linear layers in the order of the computation: "self_attn.q_proj" … "mlp.down_proj".
const std::vector<std::string>& block_layer_names();

/// Weights by the names of a Llama checkpoint, without ".weight".
struct TransformerBlock {
  BlockSizes sizes;
  std::map<std::string, Matrix> weights;
};

/// Weights of normal values. The outlier channels are at fixed places: 37, 187, 337, 487, 637 and 787 of 1024.
TransformerBlock planted_block(std::mt19937& random, const BlockSizes& sizes, const PlantedOutliers& outliers);

/// How the steps of a block that have weights are computed. Attention and sums are the same for all.
class BlockSteps {
 public:
  virtual ~BlockSteps() = default;
  /// The outputs of the layers that read the norm of `rows`.
  virtual std::vector<Matrix> norm_linears(const std::string& norm, const Matrix& rows,
                                           const std::vector<std::string>& layers) = 0;
  virtual Matrix linear(const std::string& layer, const Matrix& rows) = 0;
  /// The output of the layer that reads silu(gate) · up.
  virtual Matrix gated_linear(const std::string& layer, const Matrix& gate, const Matrix& up) = 0;
};

/// Computes the block for tokens of one sequence with causal attention.
Matrix run_block(const BlockSizes& sizes, const Matrix& inputs, BlockSteps& steps);

Matrix rms_norm(Matrix rows, const Matrix& weight);
Matrix gated(const Matrix& gate, const Matrix& up);  ///< silu(gate) · up

/// Computes the steps on the host, and keeps the inputs of the layers.
class HostSteps : public BlockSteps {
 public:
  explicit HostSteps(const TransformerBlock& block) : block_(block) {}
  std::vector<Matrix> norm_linears(const std::string& norm, const Matrix& rows,
                                   const std::vector<std::string>& layers) override;
  Matrix linear(const std::string& layer, const Matrix& rows) override;
  Matrix gated_linear(const std::string& layer, const Matrix& gate, const Matrix& up) override;
  /// The layers' inputs of the last run.
  const std::map<std::string, Matrix>& inputs() const { return inputs_; }

 protected:
  /// The layer's output in fp32. A derived class may quantise.
  virtual Matrix multiply(const std::string& layer, const Matrix& input);
  const Matrix& weight(const std::string& name) const { return block_.weights.at(name); }

 private:
  const TransformerBlock& block_;
  std::map<std::string, Matrix> inputs_;
};

/// Folds the factors of SmoothQuant into a copy of the block. `inputs`: of the layers, in fp32.
TransformerBlock smoothed_block(const TransformerBlock& block, const std::map<std::string, Matrix>& inputs,
                                double alpha);

}  // namespace cubit::tools
