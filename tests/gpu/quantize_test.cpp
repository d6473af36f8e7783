// quantize on a GPU: the reference's bytes for every descriptor and hard data, and many rows. Skipped where there is no
// GPU.
#include <cubit/quantize.hpp>

#include "tests/gpu/gpu_test.hpp"

namespace cubit::tests {
namespace {

class QuantizeGpu : public GpuTest {};

std::vector<std::string> quantize_texts() {
  std::vector<std::string> texts;
  for (const RowLayout layout : {RowLayout::row, RowLayout::col32}) {
    for (const Element input : {Element::fp16, Element::bf16}) {
      for (const ScaleScope scale : {ScaleScope::token, ScaleScope::tensor}) {
        for (const Quantised output : {Quantised::int8, Quantised::fp8_e4m3})
          texts.push_back(Quantize{{output, scale, QuantisationScheme::symmetric, layout}, input}.text());
      }
      texts.push_back(
          Quantize{{Quantised::int8, ScaleScope::token, QuantisationScheme::asymmetric, layout}, input}.text());
    }
  }
  return texts;
}

// The list holds the texts of the other tests as well.
const SuiteKernels kKernels("QuantizeGpu", [](const std::string&) { return quantize_texts(); });

TEST_F(QuantizeGpu, EveryDescriptor) {
  for_each_case(quantize_texts(), [&](const std::string& text) {
    for (int pattern = 0; pattern < 6; ++pattern) {
      for (const int columns : {32, 1056, 5120, 65536})
        expect_good(text, {{"rows", 13}, {"columns", columns}, {"pattern", pattern}, {"special", pattern % 2}});
    }
  });
}

TEST_F(QuantizeGpu, ManyRows) {
  expect_good("quantize", {{"rows", 8192}, {"columns", 8192}});
  expect_good("quantize:layout=col32", {{"rows", 8192}, {"columns", 4096}});
  expect_good("quantize:output=fp8_e4m3,input=bf16", {{"rows", 100003}, {"columns", 128}});
}

}  // namespace
}  // namespace cubit::tests
