// Gives a layer that compressed-tensors has packed (`pack-quantized`) the tensors of gptq_v2 or symmetric.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "files/safetensors/safetensors.hpp"

namespace cubit::tools {

/// Whether the layer's tensors are those of a packed layer.
bool is_packed_layer(const std::vector<TensorView>& tensors);

/// The tensors qweight, scales, qzeros and g_idx of a packed layer, which own their bytes. Other tensors, such as bias,
/// stay views of the source.
class UnpackedLayer {
 public:
  /// Throws BadInput if a tensor has another type or another number of dimensions than a packed layer's.
  explicit UnpackedLayer(const std::vector<TensorView>& tensors);
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const char* format() const { return has_zeros_ ? "gptq_v2" : "symmetric"; }  ///< in which w4a16_gemm reads them

 private:
  void add_transposed(const TensorView& tensor, const char* name);

  std::vector<std::unique_ptr<std::byte[]>> storage_;
  std::vector<TensorView> tensors_;
  bool has_zeros_ = false;
};

}  // namespace cubit::tools
