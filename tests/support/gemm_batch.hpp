// A w4a16_gemm case of which launches compute a subset of the rows, for tests of batch invariance.
#pragma once

#include <cubit/w4a16_gemm.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/gpu/gpu_case.hpp"

namespace cubit::tests {

/// The batch and its data. Kernels whose descriptors differ from the batch's descriptor in tiles alone may compute it.
class GemmBatch {
 public:
  using Row = std::vector<std::uint16_t>;

  GemmBatch(const Device& device, const W4a16Gemm& descriptor, int rows, int columns, int depth)
      : device_(device),
        problem_(Problem::random(descriptor.text(), {{"m", rows}, {"n", columns}, {"k", depth}}, 11)),
        case_(device_, problem_),
        rows_(rows),
        columns_(descriptor.is_gated() ? columns / 2 : columns) {}

  /// Computes rows first … first + count - 1 as a batch of their own.
  std::vector<Row> compute(const Kernel& kernel, int first, int count) const {
    auto arguments = *static_cast<const cubit_w4a16_gemm_arguments*>(case_.arguments());
    arguments.m = count;
    arguments.activations = static_cast<const char*>(arguments.activations) + 2 * first * arguments.activation_stride;
    if (arguments.residual != nullptr)
      arguments.residual = static_cast<const char*>(arguments.residual) + 2 * first * arguments.residual_stride;
    const GuardedBuffer workspace(device_, kernel.workspace(&arguments, &device_), 0);
    kernel.launch(&arguments, {.device = &device_,
                               .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                               .workspace_bytes = workspace.bytes()});
    device_.synchronise(nullptr);
    EXPECT_TRUE(workspace.guards_intact());
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(count * columns_));
    device_.download(bits.data(), case_.output(0).data(), 2 * bits.size());
    std::vector<Row> rows;
    for (auto row = bits.begin(); row != bits.end(); row += columns_) rows.emplace_back(row, row + columns_);
    return rows;
  }
  std::vector<Row> compute_all(const Kernel& kernel) const { return compute(kernel, 0, rows_); }

  /// Checks that the rows of the last compute_all() match the reference.
  void expect_good() const {
    const auto result = case_.compare(problem_);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }

  /// Computes batches of 1 … `most` rows, taken in turn from the start and from the end. Returns the number of batches
  /// with a row whose bits differ from `all`, the result of the whole batch.
  int differing_batches(const Kernel& kernel, int most, const std::vector<Row>& all) const {
    int differing = 0;
    for (int count = 1; count <= most; ++count) {
      const int first = count % 2 == 0 ? 0 : rows_ - count;
      const std::vector<Row> some = compute(kernel, first, count);
      differing += !std::equal(some.begin(), some.end(), all.begin() + first);
    }
    return differing;
  }

 private:
  Device device_;
  Problem problem_;
  mutable DeviceCase case_;
  int rows_;
  int columns_;
};

/// One descriptor per weight format, with the epilogues that add most.
inline std::vector<W4a16Gemm> batch_invariant_descriptors() {
  return {{.tile_m = 8, .tile_n = 256, .batch_invariant = true},
          {.format = W4Format::awq,
           .element = Element::bf16,
           .tile_m = 8,
           .tile_n = 256,
           .function = GemmFunction::silu_gate,
           .bias = true,
           .residual = true,
           .batch_invariant = true},
          {.format = W4Format::gptq_v2,
           .group_size = 32,
           .tile_m = 8,
           .tile_n = 256,
           .activation_order = true,
           .batch_invariant = true},
          {.format = W4Format::symmetric,
           .group_size = 0,
           .tile_m = 32,
           .tile_n = 256,
           .function = GemmFunction::gelu,
           .batch_invariant = true}};
}

}  // namespace cubit::tests
