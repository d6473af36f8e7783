// Tests blocks that begin in the middle of their segments (templates/pipeline/producer_stage.cuh).
//
// Blocks do so when the rows of all sequences have the same remainder modulo the memory's stacks. The test launches
// attention for such a memory and for another memory over the same cache. The order of sums differs, so some bits
// differ, but the results agree.
#include <cubit/gqa_decode.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "check/random.hpp"
#include "check/random_rows.hpp"
#include "ops/element/element.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "templates/kernels/attention/gqa_decode_arguments.h"
#include "tests/support/cpu_launches.hpp"
#include "tests/support/gqa_launches.hpp"

namespace cubit::tests {
namespace {

constexpr int kSequences = 3;
constexpr int kTokens = 2300;  // 18 stages, of which the last is a tail tile
constexpr int kHeads = 8;
constexpr int kChannels = 128;
constexpr int kGroups = 4;
constexpr int kRowBytes = kChannels / 2 + 4 * kGroups;

class StaggerLaunch : public CpuLaunch {
 protected:
  /// One KV head with rows of 80 bytes.
  std::vector<std::uint16_t> attend(int memory_bus_bits) {
    const ops::gqa_decode::sm90::Plan plan =
        sm90_plan_of("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90", "sm_90a");
    codegen::KernelSource source = ops::gqa_decode::sm90::make_source(plan, codegen::find_architecture("sm_90a"));
    source.code = codegen::Code::ptx;
    const std::shared_ptr<runtime::Kernel> kernel = prepare(source);

    const std::size_t outputs = std::size_t{kSequences} * kHeads * kChannels;
    cubit_gqa_decode_arguments arguments =
        made_up_gqa_arguments({kSequences, 1, kHeads, kChannels, kRowBytes, kTokens});
    arguments.query =
        upload(check::random_rows(Element::bf16, kSequences * kHeads, kChannels, /* normal */ 0, 1).get(), 2 * outputs);
    arguments.key = upload_packed_rows(2);
    arguments.value = upload_packed_rows(3);
    std::vector<std::uint16_t> result(outputs);
    arguments.output = upload(result.data(), 2 * outputs);

    runtime::DeviceFacts facts = device_->facts();
    facts.memory_bus_bits = memory_bus_bits;
    const std::size_t bytes = ops::gqa_decode::sm90::workspace_bytes(plan, &arguments, facts);
    const std::vector<std::byte> zeros(bytes + 1);
    ops::Launch launch =
        ops::gqa_decode::sm90::encode(plan, &arguments, upload(zeros.data(), zeros.size()), bytes, facts);
    is_staggered_ = parameters_of<GqaDecodeArguments>(launch).stagger != 0;
    ops::encode_maps(*kernel, *device_, launch);
    ops::launch(*kernel, *device_, launch, false, nullptr);
    device_->copy_to_host(result.data(), arguments.output, 2 * outputs, nullptr);
    device_->synchronise(nullptr);
    return result;
  }

  bool is_staggered_ = false;

 private:
  /// Random nibbles whose scales and shifts give numbers from about -2 to 2.
  void* upload_packed_rows(unsigned seed) {
    check::Random random(seed);
    std::vector<std::uint16_t> rows(std::size_t{kSequences} * kTokens * kRowBytes / 2);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t place = i % (kRowBytes / 2);
      rows[i] = static_cast<std::uint16_t>(random.bits());
      if (place < 2 * kGroups) rows[i] = static_cast<std::uint16_t>(rows[i] % 64 + (place % 2 == 0 ? 0x3400 : 0xbe00));
    }
    return upload(rows.data(), 2 * rows.size());
  }
};

TEST_F(StaggerLaunch, IsAnotherOrderOfTheSameSums) {
  const auto in_order = attend(6144);
  EXPECT_FALSE(is_staggered_);
  const auto staggered = attend(5120);
  EXPECT_TRUE(is_staggered_);
  EXPECT_NE(staggered, in_order);
  // Outputs are rounded to bf16, whose unit in the last place is at most 2^-7 of a number.
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    const double expected = ops::to_double(Element::bf16, in_order[i]);
    ASSERT_NEAR(ops::to_double(Element::bf16, staggered[i]), expected, std::max(2e-3, 0x1p-7 * std::fabs(expected)))
        << i;
  }
}

}  // namespace
}  // namespace cubit::tests
