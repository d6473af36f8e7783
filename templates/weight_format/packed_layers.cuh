// The layers of a launch. Each layer has packed weights, scales, zeros and a number of columns of its own.
//
// Columns are counted through all layers, which lie side by side. A thread asks for the layer of the columns that it
// copies. Without a gated epilogue a tile has columns of one layer, so all threads of a block have the same layer. With
// a gated epilogue a tile has gate columns of the first layer and up-projection columns of the second layer.
//
// Interface of a layer type:
//   Arguments                   kernel arguments
//   Layer(args)                 the first layer
//   find(column)                changes the object to the layer that has the column; -1 leaves the object unchanged
//   words(), scales(), zeros()  the layer's tensors
//   columns()                   number of the layer's columns
//   place(column)               index of a column among the layer's columns
#pragma once

#include "core/types.cuh"
#include "weight_format/fused_gemm_arguments.h"

namespace cubit {

/// The only layer of a launch.
class OneLayer {
 public:
  using Arguments = PackedGemmArguments;

  __device__ __forceinline__ explicit OneLayer(const PackedGemmArguments& args) : args_(args) {}
  __device__ __forceinline__ void find(int /*column*/) {}
  __device__ __forceinline__ const char* words() const { return static_cast<const char*>(args_.weights); }
  __device__ __forceinline__ const char* scales() const { return static_cast<const char*>(args_.scales); }
  __device__ __forceinline__ const char* zeros() const { return static_cast<const char*>(args_.qzeros); }
  __device__ __forceinline__ int columns() const { return args_.n; }
  static __device__ __forceinline__ int place(int column) { return column; }

 private:
  const PackedGemmArguments& args_;
};

/// One of two or three layers.
class FusedLayer {
 public:
  using Arguments = FusedGemmArguments;

  __device__ __forceinline__ explicit FusedLayer(const FusedGemmArguments& args)
      : args_(args),
        words_(args.weights),
        scales_(args.scales),
        zeros_(args.qzeros),
        first_(0),
        columns_(args.more[0].first_column) {}
  __device__ __forceinline__ void find(int column) {
    const FusedLayerArguments& second = args_.more[0];
    const FusedLayerArguments& third = args_.more[1];
    if (column >= second.first_column) take(second, third.first_column);
    if (column >= third.first_column) take(third, args_.n);
  }
  __device__ __forceinline__ const char* words() const { return static_cast<const char*>(words_); }
  __device__ __forceinline__ const char* scales() const { return static_cast<const char*>(scales_); }
  __device__ __forceinline__ const char* zeros() const { return static_cast<const char*>(zeros_); }
  __device__ __forceinline__ int columns() const { return columns_; }
  __device__ __forceinline__ int place(int column) const { return column - first_; }

 private:
  __device__ __forceinline__ void take(const FusedLayerArguments& layer, int end) {
    words_ = layer.weights;
    scales_ = layer.scales;
    zeros_ = layer.qzeros;
    first_ = layer.first_column;
    columns_ = end - layer.first_column;
  }

  const FusedGemmArguments& args_;
  const void* words_;
  const void* scales_;
  const void* zeros_;
  int first_;  ///< first column of the layer
  int columns_;
};

}  // namespace cubit
