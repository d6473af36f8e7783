// dequantize on a GPU: the reference of descriptors with every value of every field, and many rows. Skipped where there
// is no GPU.
#include <cubit/dequantize.hpp>

#include "tests/gpu/gpu_test.hpp"

namespace cubit::tests {
namespace {

class DequantizeGpu : public GpuTest {};

std::vector<std::string> dequantize_texts() {
  std::vector<std::string> texts;
  for (const QuantisedInteger input : {QuantisedInteger::int8, QuantisedInteger::int32}) {
    for (const WeightScale weights : {WeightScale::none, WeightScale::tensor, WeightScale::channel}) {
      for (const RowLayout layout : {RowLayout::row, RowLayout::col32}) {
        texts.push_back(Dequantize{.input = input, .weight_scale = weights, .layout = layout}.text());
        texts.push_back(Dequantize{.input = input,
                                   .scale = ScaleScope::tensor,
                                   .weight_scale = weights,
                                   .function = GemmFunction::relu,
                                   .bias = true,
                                   .layout = layout,
                                   .output = Element::bf16}
                            .text());
      }
    }
    for (const GemmFunction function : {GemmFunction::silu, GemmFunction::gelu, GemmFunction::gelu_tanh})
      texts.push_back(Dequantize{.input = input, .function = function, .bias = true, .residual = true}.text());
  }
  return texts;
}

// The list holds the texts of the other tests as well.
const SuiteKernels kKernels("DequantizeGpu", [](const std::string&) { return dequantize_texts(); });

TEST_F(DequantizeGpu, EveryDescriptor) {
  for_each_case(dequantize_texts(), [&](const std::string& text) {
    for (const int columns : {32, 1056, 5120})
      for (const int special : {0, 1}) expect_good(text, {{"rows", 13}, {"columns", columns}, {"special", special}});
    expect_good(text, {{"rows", 4099}, {"columns", 2048}});
  });
}

}  // namespace
}  // namespace cubit::tests
