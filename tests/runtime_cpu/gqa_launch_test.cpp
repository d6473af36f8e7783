// Tests gqa_decode launches for made-up devices.
//
// One device has a memory so slow that its time is far above the time of the CPU device for a stage; blocks throttle
// their copies to that time (templates/pipeline/copy_pacing.cuh). Another device has more multiprocessors than the
// 2-CTA clusters of the batch need (templates/pipeline/two_cta_cluster.cuh).
#include <cubit/gqa_decode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/gqa_decode/sm90/sm90.hpp"
#include "tests/support/cpu_launches.hpp"

namespace cubit::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kHeads = 8;
constexpr int kChannels = 128;
constexpr int kMostStages = 8;
constexpr int kTokens = 256 * kMostStages;
constexpr std::size_t kRowBytes = 80;
constexpr std::uint16_t kBf16One = 0x3f80;

class GqaLaunch : public CpuLaunch {
 protected:
  void SetUp() override {
    CpuLaunch::SetUp();
    if (IsSkipped()) return;
    const codegen::Architecture& architecture = codegen::find_architecture("sm_90a");
    plan_ = ops::gqa_decode::sm90::make_plan(ops::gqa_decode::parse("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4"),
                                             architecture);
    codegen::KernelSource source = ops::gqa_decode::sm90::make_source(plan_, architecture);
    source.code = codegen::Code::ptx;
    kernel_ = prepare(source);
  }

  void* zeros(std::size_t bytes) {
    const std::vector<std::byte> none(bytes);
    return upload(none.data(), bytes);
  }

  /// Rows of `sequences` whose values are all one: each group has scale 0 and shift 1.
  void* ones(std::size_t sequences) {
    constexpr std::size_t kGroups = 4;
    constexpr std::uint16_t kOne = 0x3c00;
    std::vector<std::uint16_t> rows(sequences * kTokens * kRowBytes / 2);
    for (std::size_t row = 0; row < rows.size(); row += kRowBytes / 2)
      for (std::size_t group = 0; group < kGroups; ++group) rows[row + 2 * group + 1] = kOne;
    return upload(rows.data(), 2 * rows.size());
  }

  /// One KV head. The lengths are in device memory; the kernel reads them and divides the work itself.
  cubit_gqa_decode_arguments arguments_of(const std::vector<int>& lengths) {
    const std::size_t sequences = lengths.size();
    cubit_gqa_decode_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.query = zeros(sequences * kHeads * kChannels * 2);
    arguments.output = zeros(sequences * kHeads * kChannels * 2);
    arguments.key = zeros(sequences * kTokens * kRowBytes);
    arguments.value = ones(sequences);
    for (std::int64_t* strides : {arguments.query_strides, arguments.output_strides}) {
      strides[0] = kHeads * kChannels;
      strides[1] = kChannels;
    }
    for (std::int64_t* strides : {arguments.key_strides, arguments.value_strides}) {
      strides[0] = kTokens * kRowBytes;
      strides[1] = strides[2] = kRowBytes;
    }
    arguments.batch = static_cast<int>(sequences);
    arguments.kv_heads = 1;
    arguments.max_length = kTokens;
    arguments.softmax_scale = 0.1f;
    arguments.lengths = static_cast<int*>(upload(lengths.data(), sizeof(int) * sequences));
    return arguments;
  }

  runtime::DeviceFacts facts_with(int multiprocessors) const {
    runtime::DeviceFacts facts = device_->facts();
    facts.multiprocessors = multiprocessors;
    return facts;
  }

  ops::Launch encoded(const cubit_gqa_decode_arguments& arguments, const runtime::DeviceFacts& facts) {
    const std::size_t bytes = ops::gqa_decode::sm90::workspace_bytes(plan_, &arguments, facts);
    return ops::gqa_decode::sm90::encode(plan_, &arguments, zeros(bytes + 1), bytes, facts);
  }

  void run(ops::Launch launch) {
    ops::encode_maps(*kernel_, *device_, launch);
    ops::launch(*kernel_, *device_, launch, false, nullptr);
    device_->synchronise(nullptr);
  }

  ops::gqa_decode::sm90::Plan plan_;
  std::shared_ptr<runtime::Kernel> kernel_;
};

// Stages that are not requested at once wait 4 ms for each block that shares the memory, the longest time that can be
// given. If the CPU device needs as long for one stage, the test only shows that launches end.
TEST_F(GqaLaunch, KeepsPaceWithTheMemory) {
  constexpr int kSequences = 4;  // a block each
  const auto least = (kMostStages - plan_.initial_stages()) * kSequences * 4ms;
  for (const bool on_device : {false, true}) {
    cubit_gqa_decode_arguments arguments = arguments_of(std::vector<int>(kSequences, kTokens));
    if (!on_device) arguments.lengths = nullptr;
    const auto time_of = [&](std::int64_t memory_bytes_per_second) {
      runtime::DeviceFacts facts = facts_with(kSequences);
      facts.memory_bytes_per_second = memory_bytes_per_second;
      ops::Launch launch = encoded(arguments, facts);
      EXPECT_EQ(launch.shape.grid[0], static_cast<unsigned>(kSequences));
      const Clock::time_point begin = Clock::now();
      run(std::move(launch));
      return Clock::now() - begin;
    };
    time_of(0);  // the first launch translates the kernel
    EXPECT_GE(time_of(1000000), least) << on_device;
  }
}

// Three sequences on eight multiprocessors: six blocks form three 2-CTA clusters with work, and the last two form a
// cluster without work. No block waits for them. Neither may signal the other that stages are free, because the other
// may have ended.
TEST_F(GqaLaunch, BlocksBehindThePairsAreNone) {
  constexpr int kMultiprocessors = 8;
  constexpr int kEmpty = 0;
  for (const std::vector<int>& lengths : {std::vector<int>{kTokens, kTokens, kTokens},
                                          {kTokens - 1, 1, kTokens / 2},
                                          {kTokens, kEmpty, kTokens},
                                          {kEmpty, kEmpty, kEmpty}}) {
    const cubit_gqa_decode_arguments arguments = arguments_of(lengths);
    ops::Launch launch = encoded(arguments, facts_with(kMultiprocessors));
    ASSERT_EQ(launch.shape.grid[0], static_cast<unsigned>(kMultiprocessors));
    ASSERT_EQ(launch.shape.cluster_blocks, 2u);
    run(std::move(launch));
    std::vector<std::uint16_t> output(lengths.size() * kHeads * kChannels);
    device_->copy_to_host(output.data(), arguments.output, 2 * output.size(), nullptr);
    for (std::size_t i = 0; i < output.size(); ++i) {
      const int length = lengths[i / (kHeads * kChannels)];
      ASSERT_EQ(output[i], length == kEmpty ? 0 : kBf16One) << fmt::format("{} of {}", i, fmt::join(lengths, ", "));
    }
  }
}

}  // namespace
}  // namespace cubit::tests
