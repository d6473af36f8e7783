// Blocks that keep pace with a memory (templates/pace.cuh) wait for it: attention over packed words as it is launched for
// a memory that is made up, so slow that its time is far above what the CPU device takes for a stage.
#include <cubit/gqa_decode.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "base/error.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "runtime/cpu/cpu_device.hpp"
#include "runtime/engine.hpp"

namespace cubit::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kStages = 8;
constexpr int kTokens = 256 * kStages;
constexpr std::size_t kRowBytes = 80;

runtime::Engine& engine() {
  static runtime::Engine instance(runtime::Settings{}, {});
  return instance;
}

class PaceLaunch : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      engine().compiler();
    } catch (const Failure&) {
      GTEST_SKIP() << "no NVRTC on this machine";
    }
    device_ = runtime::open_cpu_device("sm_90a");
    const codegen::Architecture& architecture = codegen::find_architecture("sm_90a");
    plan_ = ops::gqa_decode::make_plan(ops::gqa_decode::parse("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4"),
                                       architecture);
    codegen::KernelSource source = ops::gqa_decode::make_source(plan_, architecture);
    source.code = codegen::Code::ptx;
    kernel_ = engine().get(source);
    kernel_->prepare(*device_);
  }
  void TearDown() override {
    for (void* memory : memory_) device_->release(memory);
  }

  void* zeros(std::size_t bytes) {
    const std::vector<std::byte> none(bytes);
    memory_.push_back(device_->allocate(bytes));
    device_->copy_to_device(memory_.back(), none.data(), bytes, nullptr);
    return memory_.back();
  }

  /// How long a launch of one sequence takes on a device with one multiprocessor, which has all of its stages.
  /// on_device: the kernel reads how long the sequence is, and divides it by itself.
  Clock::duration time_of(std::int64_t memory_bytes_per_second, bool on_device) {
    cubit_gqa_decode_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.query = zeros(8 * 128 * 2);
    arguments.output = zeros(8 * 128 * 2);
    arguments.key = zeros(kTokens * kRowBytes);
    arguments.value = zeros(kTokens * kRowBytes);
    for (std::int64_t* strides : {arguments.query_strides, arguments.output_strides}) {
      strides[0] = 8 * 128;
      strides[1] = 128;
    }
    for (std::int64_t* strides : {arguments.key_strides, arguments.value_strides}) {
      strides[0] = kTokens * kRowBytes;
      strides[1] = strides[2] = kRowBytes;
    }
    arguments.batch = arguments.kv_heads = 1;
    arguments.max_length = kTokens;
    arguments.softmax_scale = 0.1f;
    if (on_device) {
      int* const lengths = static_cast<int*>(zeros(sizeof(int)));
      device_->copy_to_device(lengths, &kTokens, sizeof(int), nullptr);
      arguments.lengths = lengths;
    }
    runtime::DeviceFacts facts = device_->facts();
    facts.multiprocessors = 1;
    facts.memory_bytes_per_second = memory_bytes_per_second;
    const std::size_t bytes = ops::gqa_decode::workspace_bytes(plan_, &arguments, facts);
    ops::Launch launch = ops::gqa_decode::encode(plan_, &arguments, zeros(bytes + 1), bytes, facts);
    EXPECT_EQ(launch.shape.grid[0], 1u);
    const Clock::time_point begin = Clock::now();
    ops::launch(*kernel_, *device_, launch, nullptr);
    device_->synchronise(nullptr);
    return Clock::now() - begin;
  }

  std::shared_ptr<runtime::Device> device_;
  ops::gqa_decode::Plan plan_;
  std::shared_ptr<runtime::Kernel> kernel_;
  std::vector<void*> memory_;
};

// Stages that are not asked for at once wait for 4 ms each, which is the longest that can be said, and twice what the CPU
// device takes for one. (Where it is slower than that, the test shows no more than that launches end.)
TEST_F(PaceLaunch, WaitsForTheMemory) {
  const auto least = (kStages - plan_.stages_at_once()) * 4ms;
  for (const bool on_device : {false, true}) {
    time_of(0, on_device);  // the kernel is translated
    EXPECT_GE(time_of(1000000, on_device), least) << on_device;
  }
}

}  // namespace
}  // namespace cubit::tests
