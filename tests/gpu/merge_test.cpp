// merge on a GPU: the reference of every type and of hard data, many rows and parts, the same bits again. Without a GPU
// the tests are skipped.
#include <cubit/merge.hpp>

#include "tests/gpu/gpu_test.hpp"

namespace cubit::tests {
namespace {

class MergeGpu : public GpuTest {};

std::vector<std::string> merge_texts() {
  std::vector<std::string> texts;
  for (const int head_dim : {8, 24, 64, 80, 128, 192, 264, 512}) {
    for (const MergeElement input : {MergeElement::bf16, MergeElement::fp16, MergeElement::fp32}) {
      for (const MergeElement output : {MergeElement::bf16, MergeElement::fp16, MergeElement::fp32})
        texts.push_back(Merge{head_dim, input, output}.text());
    }
  }
  return texts;
}

// The list holds the texts of the other tests as well.
const SuiteKernels kKernels("MergeGpu", [](const std::string&) { return merge_texts(); });

TEST_F(MergeGpu, EveryTypeAndHeadDimension) {
  for_each_case(merge_texts(), [&](const std::string& text) {
    for (int pattern = 0; pattern < 6; ++pattern)
      expect_good(text, {{"parts", 3 + pattern}, {"rows", 37}, {"heads", 5}, {"lse", 1}, {"pattern", pattern}});
  });
}

TEST_F(MergeGpu, ManyRowsAndManyParts) {
  expect_good("merge", {{"parts", 2}, {"rows", 8192}, {"heads", 32}, {"lse", 1}});
  expect_good("merge:input=fp32", {{"parts", 257}, {"rows", 64}, {"heads", 8}, {"lse", 1}});
}

TEST_F(MergeGpu, SameInputsSameBits) {
  const Problem problem = Problem::random("merge:input=fp32,output=fp32", {{"parts", 9}, {"rows", 300}, {"lse", 1}}, 5);
  DeviceCase launched(device(), problem);
  launch(kernel("merge:input=fp32,output=fp32"), launched);
  const auto first = launched.output(0).download();
  for (int repeat = 0; repeat < 10; ++repeat) {
    launch(kernel("merge:input=fp32,output=fp32"), launched);
    ASSERT_EQ(first, launched.output(0).download());
  }
}

}  // namespace
}  // namespace cubit::tests
