// Gives a layer of a checkpoint that compressed-tensors calls int-quantized or float-quantized the tensors of
// w8a8_gemm.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "files/safetensors/safetensors.hpp"

namespace cubit::tools {

/// Whether the layer's tensors are 8-bit weights with scales.
bool is_eight_bit_layer(const std::vector<TensorView>& tensors);

/// The tensors weights, weight_scales (F32 [n] or [1]) and, if activations have a given scale, activation_scales (F32
/// [1]) of a layer. With zero_points=true also weight_sums (I32 [n]) and, if activations have a given zero point,
/// activation_zeros (I32 [1]). Scales, sums and zero points own their bytes; weights and bias stay views of the source.
class EightBitLayer {
 public:
  /// `descriptor` is canonical. Throws BadInput if a tensor has another type or shape than such a layer's, for scales
  /// that are not positive and finite, for zero points of weights other than 0, and if the fields of w8a8_gemm do not
  /// fit.
  EightBitLayer(const std::vector<TensorView>& tensors, const std::string& descriptor);
  const std::vector<TensorView>& tensors() const { return tensors_; }

 private:
  void add_scales(const TensorView& tensor, const char* name);
  void add_zero(const TensorView& tensor, bool is_wanted);
  void add_sums();
  void require_fields(const std::string& descriptor) const;

  std::deque<std::vector<float>> scales_;           ///< a deque, whose elements never move
  std::deque<std::vector<std::int32_t>> integers_;  ///< the same for zero points and sums
  std::vector<TensorView> tensors_;
  std::int64_t rows_ = 0;
};

}  // namespace cubit::tools
