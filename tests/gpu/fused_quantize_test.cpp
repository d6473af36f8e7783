// norm_quantize and gate_quantize on a GPU: the reference of descriptors with every value of every field, on hard data,
// and many rows. Skipped where there is no GPU.
#include <cubit/gate_quantize.hpp>
#include <cubit/norm_quantize.hpp>

#include "tests/gpu/gpu_test.hpp"

namespace cubit::tests {
namespace {

class FusedQuantizeGpu : public GpuTest {};

std::vector<std::string> fused_texts() {
  constexpr auto kSymmetric = QuantisationScheme::symmetric;
  std::vector<std::string> texts;
  for (const Element input : {Element::fp16, Element::bf16}) {
    for (const RowQuantisation& result :
         {RowQuantisation{}, RowQuantisation{Quantised::none, ScaleScope::token, kSymmetric, RowLayout::row},
          RowQuantisation{Quantised::fp8_e4m3, ScaleScope::token, kSymmetric, RowLayout::col32},
          RowQuantisation{Quantised::int8, ScaleScope::tensor, kSymmetric, RowLayout::row},
          RowQuantisation{Quantised::int8, ScaleScope::token, QuantisationScheme::asymmetric, RowLayout::row}}) {
      for (const Norm norm : {Norm::rms, Norm::layer}) {
        for (const bool residual : {false, true})
          texts.push_back(NormQuantize{result, norm, residual, norm == Norm::layer, input}.text());
      }
      for (const GateFunction function : {GateFunction::silu, GateFunction::gelu, GateFunction::gelu_tanh})
        texts.push_back(GateQuantize{result, function, input}.text());
    }
  }
  return texts;
}

// The list holds the texts of the other tests as well.
const SuiteKernels kKernels("FusedQuantizeGpu", [](const std::string&) { return fused_texts(); });

TEST_F(FusedQuantizeGpu, EveryField) {
  for_each_case(fused_texts(), [&](const std::string& text) {
    for (int pattern = 0; pattern < 6; ++pattern) {
      for (const int columns : {32, 1056, 5120, 32768})
        expect_good(text, {{"rows", 13}, {"columns", columns}, {"pattern", pattern}, {"special", pattern % 2}});
    }
  });
}

TEST_F(FusedQuantizeGpu, ManyRows) {
  expect_good("norm_quantize", {{"rows", 8192}, {"columns", 8192}});
  expect_good("gate_quantize", {{"rows", 8192}, {"columns", 14336}});
}

}  // namespace
}  // namespace cubit::tests
