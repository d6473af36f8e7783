// convert_layout on a GPU: every conversion, element by element. Skipped where there is no GPU.
#include <cubit/convert_layout.hpp>

#include "tests/gpu/gpu_test.hpp"

namespace cubit::tests {
namespace {

class ConvertLayoutGpu : public GpuTest {};

std::vector<std::string> convert_layout_texts() {
  constexpr MatrixLayout kLayouts[] = {MatrixLayout::row, MatrixLayout::col32, MatrixLayout::col4_4r2_8c,
                                       MatrixLayout::col32_2r_4r4};
  std::vector<std::string> texts;
  for (const MatrixLayout from : kLayouts)
    for (const MatrixLayout to : kLayouts)
      if (from != to) texts.push_back(ConvertLayout{from, to}.text());
  return texts;
}

// The list holds the texts of the other tests as well.
const SuiteKernels kKernels("ConvertLayoutGpu", [](const std::string&) { return convert_layout_texts(); });

TEST_F(ConvertLayoutGpu, EveryDescriptor) {
  for_each_case(convert_layout_texts(), [&](const std::string& text) {
    for (const int columns : {32, 1056, 5120}) expect_good(text, {{"rows", 96}, {"columns", columns}});
  });
}

TEST_F(ConvertLayoutGpu, ManyAndFewRows) {
  expect_good("convert_layout", {{"rows", 8191}, {"columns", 8192}});
  expect_good("convert_layout:from=col32,to=row", {{"rows", 1}, {"columns", 8192}});
  expect_good("convert_layout:to=col32_2r_4r4", {{"rows", 8192}, {"columns", 4096}});
}

}  // namespace
}  // namespace cubit::tests
