// Blocks that begin in the middle of their segments (templates/bulk_stage.cuh) because rows of all sequences are at the
// same remainder of a memory's stacks: attention as it is launched for such a memory and for another, over the same
// cache. The order of sums is another, so some bits are; what is computed is not.
#include <cubit/gqa_decode.h>

#include <cstdint>

#include "ops/element/element.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/random_rows.hpp"
#include "templates/gqa_decode_arguments.h"
#include "tests/support/cpu_launches.hpp"
#include "tests/support/gqa_launches.hpp"

namespace cubit::tests {
namespace {

constexpr int kSequences = 3;
constexpr int kTokens = 2300;  // of bf16 18 stages, of which the last is not a whole one
constexpr int kHeads = 8;
constexpr int kChannels = 128;

class StaggerLaunch : public CpuLaunch {
 protected:
  /// bf16 of one KV head, so many channels from token to token.
  std::vector<std::uint16_t> attend(int token_stride, int memory_bus_bits) {
    const ops::gqa_decode::Plan plan = gqa_plan_of("gqa_decode:heads_per_kv=8,family=sm90", "sm_90a");
    codegen::KernelSource source = ops::gqa_decode::make_source(plan, codegen::find_architecture("sm_90a"));
    source.code = codegen::Code::ptx;
    const std::shared_ptr<runtime::Kernel> kernel = prepare(source);

    const std::size_t outputs = std::size_t{kSequences} * kHeads * kChannels;
    cubit_gqa_decode_arguments arguments =
        made_up_gqa_arguments({kSequences, 1, kHeads, kChannels, token_stride, kTokens});
    arguments.query = upload_rows(kSequences * kHeads, kChannels, 1);
    arguments.key = upload_rows(kSequences * kTokens, token_stride, 2);
    arguments.value = upload_rows(kSequences * kTokens, token_stride, 3);
    std::vector<std::uint16_t> result(outputs);
    arguments.output = upload(result.data(), 2 * outputs);

    runtime::DeviceFacts facts = device_->facts();
    facts.memory_bus_bits = memory_bus_bits;
    const std::size_t bytes = ops::gqa_decode::workspace_bytes(plan, &arguments, facts);
    const std::vector<std::byte> zeros(bytes + 1);
    ops::Launch launch = ops::gqa_decode::encode(plan, &arguments, upload(zeros.data(), zeros.size()), bytes, facts);
    is_staggered_ = parameters_of<GqaDecodeArguments>(launch).stagger != 0;
    ops::encode_maps(*kernel, *device_, launch);
    ops::launch(*kernel, *device_, launch, false, nullptr);
    device_->copy_to_host(result.data(), arguments.output, 2 * outputs, nullptr);
    device_->synchronise(nullptr);
    return result;
  }

  bool is_staggered_ = false;

 private:
  void* upload_rows(int rows, int channels, unsigned seed) {
    constexpr int kNormal = 0;
    return upload(ops::random_rows(Element::bf16, rows, channels, kNormal, seed).get(),
                  std::size_t{2} * rows * channels);
  }
};

TEST_F(StaggerLaunch, IsAnotherOrderOfTheSameSums) {
  constexpr int kMultipleOfFive = 160;
  const auto in_order = attend(kMultipleOfFive, 6144);
  EXPECT_FALSE(is_staggered_);
  const auto staggered = attend(kMultipleOfFive, 5120);
  EXPECT_TRUE(is_staggered_);
  EXPECT_NE(staggered, in_order);
  for (std::size_t i = 0; i < in_order.size(); ++i)
    ASSERT_NEAR(ops::to_double(Element::bf16, staggered[i]), ops::to_double(Element::bf16, in_order[i]), 2e-3) << i;
}

}  // namespace
}  // namespace cubit::tests
