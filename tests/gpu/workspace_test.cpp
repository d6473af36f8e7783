// Proves on a GPU: check_workspace finds counters that are not zero, and zeroing them makes the workspace good again.
// Without a GPU the tests are skipped.
#include <gmock/gmock.h>

#include "tests/gpu/gpu_test.hpp"

namespace cubit::tests {
namespace {

const std::vector<std::pair<std::string, Problem::Numbers>> kSplit = {
    {"gqa_decode:heads_per_kv=8", {{"batch", 1}, {"context", 8000}, {"kv_heads", 1}}},
    {"gqa_decode:heads_per_kv=8,family=sm80", {{"batch", 1}, {"context", 8000}, {"kv_heads", 1}}},
    {"w4a16_gemm:tile_m=16,tile_n=256,family=sm80", {{"m", 4}, {"n", 512}, {"k", 4096}, {"decomposition", 2}}},
};
const SuiteKernels kKernels("WorkspaceGpu", [](const std::string&) {
  std::vector<std::string> texts;
  for (const auto& [text, sizes] : kSplit) texts.push_back(text);
  return texts;
});

class WorkspaceGpu : public GpuTest {};

TEST_F(WorkspaceGpu, CountersThatAreNotZeroAreFoundAndZeroingThemIsEnough) {
  for (const auto& [text, sizes] : kSplit) {
    SCOPED_TRACE(text);
    const Kernel split = kernel(text);
    const Problem problem = Problem::random(text, sizes, 1);
    DeviceCase tensors(device(), problem);
    const std::size_t bytes = split.workspace(tensors.arguments(), &device());
    ASSERT_GE(bytes, std::size_t{CUBIT_WORKSPACE_ZEROED_BYTES}) << "the launch is split";
    const GuardedBuffer workspace(device(), bytes, 0);

    // As a launch leaves counters that ended early. No launch is made with them: a kernel that waits for a counter
    // might wait forever.
    const std::vector<std::uint32_t> dirty(CUBIT_WORKSPACE_ZEROED_BYTES / sizeof(std::uint32_t), 1);
    device().upload(workspace.data(), dirty.data(), CUBIT_WORKSPACE_ZEROED_BYTES);
    device().synchronise();
    try {
      device().check_workspace(workspace.data());
      ADD_FAILURE() << "dirty counters were accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("counter 0 is 1"));
    }

    device().fill_zero(workspace.data(), CUBIT_WORKSPACE_ZEROED_BYTES);
    device().check_workspace(workspace.data());
    launch_with(split, tensors.arguments(), workspace);
    EXPECT_TRUE(tensors.compare(problem).good());
    device().check_workspace(workspace.data());
  }
}

// A refused launch has not begun, so its workspace stays good.
TEST_F(WorkspaceGpu, ARefusedLaunchLeavesTheCountersZero) {
  const auto& [text, sizes] = kSplit.front();
  const Kernel split = kernel(text);
  const Problem problem = Problem::random(text, sizes, 1);
  const DeviceCase tensors(device(), problem);
  const GuardedBuffer workspace(device(), split.workspace(tensors.arguments(), &device()), 0);
  EXPECT_THROW(split.launch(tensors.arguments(), {.device = &device(),
                                                  .workspace = workspace.data(),
                                                  .workspace_bytes = CUBIT_WORKSPACE_ZEROED_BYTES - 1}),
               Error);
  device().check_workspace(workspace.data());
  launch_with(split, tensors.arguments(), workspace);
  EXPECT_TRUE(tensors.compare(problem).good());
}

}  // namespace
}  // namespace cubit::tests
