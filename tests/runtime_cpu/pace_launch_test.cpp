// Blocks that keep pace with a memory (templates/pace.cuh) wait for it: attention over packed words as it is launched
// for a memory that is made up, so slow that its time is far above what the CPU device takes for a stage.
#include <cubit/gqa_decode.h>

#include <chrono>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "tests/support/cpu_launches.hpp"

namespace cubit::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kSequences = 4;  // a block each
constexpr int kStages = 8;
constexpr int kTokens = 256 * kStages;
constexpr std::size_t kRowBytes = 80;

class PaceLaunch : public CpuLaunch {
 protected:
  void SetUp() override {
    CpuLaunch::SetUp();
    if (IsSkipped()) return;
    const codegen::Architecture& architecture = codegen::find_architecture("sm_90a");
    plan_ = ops::gqa_decode::make_plan(ops::gqa_decode::parse("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4"),
                                       architecture);
    codegen::KernelSource source = ops::gqa_decode::make_source(plan_, architecture);
    source.code = codegen::Code::ptx;
    kernel_ = prepare(source);
  }

  void* zeros(std::size_t bytes) {
    const std::vector<std::byte> none(bytes);
    return upload(none.data(), bytes);
  }

  /// How long a launch takes. on_device: the kernel reads how long sequences are, and divides them by itself.
  Clock::duration time_of(std::int64_t memory_bytes_per_second, bool on_device) {
    cubit_gqa_decode_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.query = zeros(kSequences * 8 * 128 * 2);
    arguments.output = zeros(kSequences * 8 * 128 * 2);
    arguments.key = zeros(kSequences * kTokens * kRowBytes);
    arguments.value = zeros(kSequences * kTokens * kRowBytes);
    for (std::int64_t* strides : {arguments.query_strides, arguments.output_strides}) {
      strides[0] = 8 * 128;
      strides[1] = 128;
    }
    for (std::int64_t* strides : {arguments.key_strides, arguments.value_strides}) {
      strides[0] = kTokens * kRowBytes;
      strides[1] = strides[2] = kRowBytes;
    }
    arguments.batch = kSequences;
    arguments.kv_heads = 1;
    arguments.max_length = kTokens;
    arguments.softmax_scale = 0.1f;
    const std::vector<int> lengths(kSequences, kTokens);
    if (on_device) arguments.lengths = static_cast<int*>(upload(lengths.data(), sizeof(int) * lengths.size()));
    runtime::DeviceFacts facts = device_->facts();
    facts.multiprocessors = kSequences;
    facts.memory_bytes_per_second = memory_bytes_per_second;
    const std::size_t bytes = ops::gqa_decode::workspace_bytes(plan_, &arguments, facts);
    ops::Launch launch = ops::gqa_decode::encode(plan_, &arguments, zeros(bytes + 1), bytes, facts);
    EXPECT_EQ(launch.shape.grid[0], static_cast<unsigned>(kSequences));
    const Clock::time_point begin = Clock::now();
    ops::encode_maps(*kernel_, *device_, launch);
    ops::launch(*kernel_, *device_, launch, false, nullptr);
    device_->synchronise(nullptr);
    return Clock::now() - begin;
  }

  ops::gqa_decode::Plan plan_;
  std::shared_ptr<runtime::Kernel> kernel_;
};

// Stages that are not asked for at once wait for 4 ms for each block that shares the memory, which is the longest that
// can be said. (Where the CPU device needs as long for one, the test shows no more than that launches end.)
TEST_F(PaceLaunch, WaitsForTheMemory) {
  const auto least = (kStages - plan_.stages_at_once()) * kSequences * 4ms;
  for (const bool on_device : {false, true}) {
    time_of(0, on_device);  // the kernel is translated
    EXPECT_GE(time_of(1000000, on_device), least) << on_device;
  }
}

}  // namespace
}  // namespace cubit::tests
