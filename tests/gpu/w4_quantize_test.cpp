// w4_quantize on a GPU: the reference's bits for every descriptor and hard data, and layers of many blocks. Without a
// GPU the tests are skipped.
#include <cubit/w4_quantize.hpp>

#include "tests/gpu/gpu_test.hpp"

namespace cubit::tests {
namespace {

class QuantiseGpu : public GpuTest {};

std::vector<std::string> quantise_texts() {
  std::vector<std::string> texts;
  for (const W4Format format : {W4Format::gptq, W4Format::gptq_v2, W4Format::awq, W4Format::symmetric}) {
    for (const int group_size : {16, 32, 64, 128, 0}) {
      for (const W4Scheme scheme : {W4Scheme::asymmetric, W4Scheme::symmetric}) {
        for (const Element input : {Element::fp16, Element::bf16}) {
          if (format == W4Format::symmetric && scheme == W4Scheme::symmetric) continue;
          texts.push_back(W4Quantize{format, group_size, scheme, input}.text());
        }
      }
    }
  }
  return texts;
}

// The list holds the texts of the other tests as well.
const SuiteKernels kKernels("QuantiseGpu", [](const std::string&) { return quantise_texts(); });

TEST_F(QuantiseGpu, EveryDescriptor) {
  for (const std::string& text : quantise_texts()) {
    for (int pattern = 0; pattern < 6; ++pattern) expect_good(text, {{"n", 136}, {"k", 640}, {"pattern", pattern}});
  }
}

TEST_F(QuantiseGpu, LargeLayers) {
  expect_good("w4_quantize", {{"n", 4096}, {"k", 11008}});
  expect_good("w4_quantize:format=awq,input=bf16", {{"n", 11008}, {"k", 4096}});
  expect_good("w4_quantize:group_size=all", {{"n", 4096}, {"k", 4096}});
}

}  // namespace
}  // namespace cubit::tests
