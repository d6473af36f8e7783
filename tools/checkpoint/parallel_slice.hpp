// The part of a layer that one rank has under tensor parallelism.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cubit/w4_parallel.hpp>
#include <memory>
#include <string>
#include <vector>

#include "files/safetensors/safetensors.hpp"

namespace cubit::tools {

/// Parses the value RANK/SIZE of --tensor-parallel. Throws BadInput.
W4Rank parse_rank(const std::string& text);

/// A rank's part of a layer of w4a16_gemm; it owns the bytes of tensors that it has cut. The activations say along
/// which dimension: of all of k, output features are cut; of 1 / size of k, input features are. Then rank 0 alone has
/// the layer's bias, and the other ranks have zeros.
class ParallelSlice {
 public:
  /// `descriptor` is canonical. `activations`: their k. Throws BadInput or Error.
  ParallelSlice(const std::vector<TensorView>& layer, const std::string& descriptor, std::int64_t activations,
                W4Rank rank);
  const std::vector<TensorView>& tensors() const { return tensors_; }

 private:
  template <class Number>
  void add_cut(const TensorView& tensor, const W4Range& range);
  void add_bias(const TensorView& tensor, const W4Slice& slice);

  std::vector<std::unique_ptr<std::byte[]>> storage_;
  std::vector<TensorView> tensors_;
};

}  // namespace cubit::tools
