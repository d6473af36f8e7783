// gqa_decode whose blocks begin in the middle of their segments. Blocks do so if rows have a multiple of five bytes and
// the device reports a memory of five stacks, as the CPU device does here. The cases are int4_rows of all groups,
// segments of one stage and of many, the end of a sequence in the middle of a walk, and lengths that the kernel divides
// itself. Without NVRTC the tests are skipped.
#include <gtest/gtest.h>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

struct StaggerCase {
  const char* fields;
  int kv_heads;
  bool is_watched = false;  ///< which takes several times as long
};

class GqaStagger : public ::testing::TestWithParam<StaggerCase> {};

TEST_P(GqaStagger, ComputesTheReference) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto [fields, kv_heads, is_watched] = GetParam();
  const std::string descriptor = std::string("gqa_decode:family=sm90,") + fields;
  const Device device("cpu:sm_90a");
  if (is_watched) device.watch(CUBIT_WATCH_MEMORY);
  const Kernel kernel = engine().get(descriptor, "cpu:sm_90a");
  for (const char* const lengths : {"ragged", "lengths"}) {
    SCOPED_TRACE(lengths);
    const Problem problem = Problem::random(
        descriptor,
        {{"batch", 3}, {"context", 1300}, {"kv_heads", static_cast<double>(kv_heads)}, {lengths, 1}, {"lse", 1}}, 1);
    DeviceCase on_device(device, problem);
    const void* const arguments = on_device.arguments();
    const GuardedBuffer workspace(device, kernel.workspace(arguments, &device), 0);
    kernel.launch(arguments, {.device = &device, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
    device.synchronise(nullptr);
    on_device.expect_guards_intact();
    EXPECT_TRUE(workspace.guards_intact());
    const auto result = on_device.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }
}

// Of int4_rows with four groups any number of KV heads is a multiple of five bytes; one and eight are copied in boxes,
// five in pieces.
INSTANTIATE_TEST_SUITE_P(Kernels, GqaStagger,
                         ::testing::Values(StaggerCase{"heads_per_kv=8,kv=int4_rows,groups=4", 1, true},
                                           StaggerCase{"heads_per_kv=4,kv=int4_rows,groups=4", 8},
                                           StaggerCase{"heads_per_kv=3,kv=int4_rows,groups=4", 5},
                                           StaggerCase{"heads_per_kv=20,kv=int4_rows,groups=4", 5, true},
                                           StaggerCase{"heads_per_kv=8,kv=int4_rows,groups=8", 5},
                                           StaggerCase{"head_dim=256,heads_per_kv=8,kv=int4_rows,groups=8", 1},
                                           StaggerCase{"heads_per_kv=8,kv=int4_rows,groups=2", 5},
                                           StaggerCase{"heads_per_kv=8,kv=int4_rows", 5}));

}  // namespace
}  // namespace cubit::tests
