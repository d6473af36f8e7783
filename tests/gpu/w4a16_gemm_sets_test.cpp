// What sets of w4a16_gemm kernels promise on a GPU: one handle and one workspace serve every number of rows, and with
// batch_invariant=true a row's bits depend on no other row and on no number of rows.
#include <cubit/w4a16_gemm.hpp>

#include <algorithm>
#include <set>

#include "tests/gpu/gpu_test.hpp"
#include "tests/support/gemm_batch.hpp"

namespace cubit::tests {
namespace {

const std::vector<std::string> kSets = {"w4a16_gemm", "w4a16_gemm:format=awq,element=bf16",
                                        "w4a16_gemm:function=silu_gate,bias=true"};
const W4a16Gemm kInvariant{.bias = true, .batch_invariant = true};
constexpr int kMostRows = 8192;

const SuiteKernels kKernels("W4a16GemmSetsGpu", [](const std::string&) {
  std::vector<std::string> texts = kSets;
  texts.push_back(kInvariant.text());
  return texts;
});

class W4a16GemmSetsGpu : public GpuTest {};

TEST_F(W4a16GemmSetsGpu, OneHandleAndOneWorkspaceServeEveryNumberOfRows) {
  for (const std::string& text : kSets) {
    SCOPED_TRACE(text);
    kernel(text);
    const Engine engine;  // the engine of all suites compiles in the background
    const Kernel set = engine.get(text, architecture());
    set.prepare(device());
    const auto compiles = engine.counters().compiles;
    std::set<std::size_t> taken;
    for (const auto& [n, k] : {std::pair{1024, 256}, {2048, 512}}) {
      const Problem largest = Problem::random(text, {{"m", kMostRows}, {"n", n}, {"k", k}}, 5);
      const DeviceCase most(device(), largest);
      const GuardedBuffer workspace(device(), set.workspace(most.arguments(), &device()), 0);
      for (const int m : {1, 8, 9, 17, 33, 65, 129, 257, 500, 1000}) {
        const Problem problem = Problem::random(text, {{"m", m}, {"n", n}, {"k", k}}, 5);
        const DeviceCase launched(device(), problem);
        taken.insert(set.choose(launched.arguments(), &device()));
        launch_with(set, launched.arguments(), workspace);
        const auto result = launched.compare(problem);
        EXPECT_LE(result.error, result.tolerance) << m << " rows: " << result.worst;
      }
      launch_with(set, most.arguments(), workspace);
      EXPECT_TRUE(most.compare(largest).good()) << n << " x " << k;
      EXPECT_TRUE(workspace.guards_intact());
    }
    EXPECT_GT(taken.size(), 3u) << "sizes choose the member";
    EXPECT_EQ(engine.counters().compiles, compiles) << "a new size never compiles";
  }
}

TEST_F(W4a16GemmSetsGpu, BatchInvariantRowsHaveTheSameBitsInEveryBatch) {
  const Kernel set = kernel(kInvariant.text());
  for (const auto& [columns, depth] : {std::pair{1024, 2048}, {256, 4096}}) {
    const GemmBatch batch(device(), kInvariant, kMostRows, columns, depth);
    const std::vector<GemmBatch::Row> all = batch.compute_all(set);
    batch.expect_good();
    for (const int count : {1, 8, 9, 17, 33, 64, 65, 500, 1000, 4096, 8191}) {
      const auto first = batch.compute(set, 0, count);
      EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin())) << count << " rows";
      const auto last = batch.compute(set, kMostRows - count, count);
      EXPECT_TRUE(std::equal(last.begin(), last.end(), all.end() - count)) << count << " rows";
    }
  }
}

}  // namespace
}  // namespace cubit::tests
