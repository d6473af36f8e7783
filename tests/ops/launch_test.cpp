// Launches of gqa_decode as data: grid, splits and workspace follow only from bounds and the device, and arguments that
// the public header rules out are refused before anything is launched.
#include <cubit/gqa_decode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/argument_checks.hpp"
#include "tests/support/gqa_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::h200;

std::shared_ptr<const Specialisation> kernel_of(const char* text) { return tests::gqa_kernel_of(text, "sm_90a"); }

const char* const kInt4 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm80";

/// Arguments with dense tensors of int4_rows, for 8 heads per KV head.
cubit_gqa_decode_arguments arguments_of(int batch, int kv_heads, int max_length) {
  return tests::made_up_gqa_arguments({batch, kv_heads, 8 * kv_heads, 128, 80, max_length});
}

GqaDecodeArguments parameters_of(const Launch& launch) { return tests::parameters_of<GqaDecodeArguments>(launch); }

TEST(GqaLaunch, FillsTheDeviceAndNeverExceedsTheChunks) {
  const auto plan = tests::sm80_plan_of(kInt4, "sm_90a");
  for (const int sequences : {1, 2, 7, 64, 128, 131, 132, 133, 512, 4096, 5000}) {
    for (const int length : {0, 1, 63, 64, 65, 8192, 131072}) {
      const int splits = gqa_decode::warp_ring::choose_splits(plan, sequences, length, h200());
      const int chunks = (length + plan.chunk_tokens() - 1) / plan.chunk_tokens();
      EXPECT_GE(splits, 1);
      EXPECT_LE(splits, std::max(1, chunks)) << sequences << " sequences of " << length;
      if (sequences > 4096) {
        EXPECT_EQ(splits, 1) << "more sequences than counters";
      }
    }
  }
  EXPECT_GT(gqa_decode::warp_ring::choose_splits(plan, 1, 8192, h200()), 16)
      << "one sequence must spread over the device";
  EXPECT_EQ(gqa_decode::warp_ring::choose_splits(plan, 4000, 8192, h200()), 1) << "the device is full without splits";
}

// Small batches are split, large ones are not.
TEST(GqaLaunch, AWorkspaceServesSmallerBatches) {
  for (const char* text : {kInt4, "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90"}) {
    const auto kernel = kernel_of(text);
    for (const int kv_heads : {1, 8}) {
      std::size_t largest = 0;
      for (int batch = 1; batch <= 300; ++batch) {
        auto arguments = arguments_of(batch, kv_heads, 8192);
        const std::size_t bytes = kernel->workspace_bytes(&arguments, h200());
        EXPECT_GE(bytes, largest) << text << ", batch " << batch << " of " << kv_heads << " heads";
        largest = bytes;
      }
    }
  }
}

TEST(GqaLaunch, WorkspaceHoldsWhatTheParametersPointTo) {
  const auto kernel = kernel_of(kInt4);
  for (const int batch : {1, 3, 128}) {
    auto arguments = arguments_of(batch, 2, 8192);
    const std::size_t bytes = kernel->workspace_bytes(&arguments, h200());
    auto* base = static_cast<char*>(address(0x100000));
    const Launch launch = kernel->encode(&arguments, base, bytes, h200());
    const auto parameters = parameters_of(launch);
    ASSERT_GT(parameters.splits, 1);
    EXPECT_EQ(launch.shape.grid[0], static_cast<unsigned>(batch * 2 * parameters.splits));
    EXPECT_EQ(launch.shape.threads, 128u);
    EXPECT_EQ(reinterpret_cast<char*>(parameters.counters), base) << "counters come first, whatever the shape";
    EXPECT_LE(sizeof(unsigned) * batch * 2, kWorkspaceCounterBytes);
    const std::int64_t parts = std::int64_t{batch} * 2 * parameters.splits * 8;
    const auto* stats = reinterpret_cast<char*>(parameters.partial_stats);
    const auto* partial = reinterpret_cast<char*>(parameters.partial);
    EXPECT_GE(stats, base + kWorkspaceCounterBytes);
    EXPECT_GE(partial, stats + parts * 8);
    EXPECT_LE(partial + parts * 128 * 4, base + bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(partial) % 256, 0u);
  }
}

TEST(GqaLaunch, HeadGroupsAreSplitEachByItself) {
  const auto plan = tests::sm80_plan_of("gqa_decode:heads_per_kv=35,family=sm80", "sm_90a");
  ASSERT_EQ(plan.head_groups, 3);
  ASSERT_EQ(plan.heads_per_block, 12);
  auto arguments = tests::made_up_gqa_arguments({4, 2, 35 * 2, 128, 80, 8192});
  const std::size_t bytes = gqa_decode::warp_ring::workspace_bytes(plan, &arguments, h200());
  auto* base = static_cast<char*>(address(0x100000));
  const Launch launch = gqa_decode::warp_ring::encode(plan, &arguments, base, bytes, h200());
  const auto parameters = parameters_of(launch);
  ASSERT_GT(parameters.splits, 1);
  const std::int64_t blocks = std::int64_t{4} * 2 * 3 * parameters.splits;
  EXPECT_EQ(launch.shape.grid[0], static_cast<unsigned>(blocks));
  EXPECT_GE(reinterpret_cast<char*>(parameters.partial),
            reinterpret_cast<char*>(parameters.partial_stats) + blocks * 12 * 8);
  EXPECT_LE(reinterpret_cast<char*>(parameters.partial) + blocks * 12 * 128 * 4, base + bytes);
  // Each head group needs a counter of its own. If there are too few counters, nothing is split.
  arguments.batch = static_cast<int>(kWorkspaceCounterBytes / sizeof(unsigned)) / 2 / 3 + 1;
  arguments.max_length = 1 << 20;
  EXPECT_EQ(parameters_of(gqa_decode::warp_ring::encode(plan, &arguments, nullptr, 0, h200())).splits, 1);
}

TEST(GqaLaunch, StridesBecomeBytes) {
  const auto kernel = kernel_of("gqa_decode:heads_per_kv=8,family=sm80");
  auto arguments = arguments_of(4, 2, 16);
  arguments.key_strides[0] = 1 << 20;
  arguments.key_strides[1] = 256;
  arguments.key_strides[2] = 128;
  const auto parameters = parameters_of(kernel->encode(&arguments, address(0x10000), 1 << 30, h200()));
  EXPECT_EQ(parameters.key_batch_stride, 2 << 20);
  EXPECT_EQ(parameters.key_token_stride, 512);
  EXPECT_EQ(parameters.key_head_stride, 256);
  EXPECT_EQ(parameters.query_head_stride, 256);
  EXPECT_FLOAT_EQ(parameters.scale_log2, 0.088f * 1.44269504f);
}

TEST(GqaLaunch, StridesOfQueryTokensAreNotReadWhereThereIsOne) {
  auto arguments = arguments_of(4, 2, 16);
  arguments.query_token_stride = arguments.output_token_stride = std::numeric_limits<std::int64_t>::max();
  const auto kernel = kernel_of("gqa_decode:heads_per_kv=8,family=sm80");
  const auto parameters = parameters_of(kernel->encode(&arguments, address(0x10000), 1 << 30, h200()));
  EXPECT_EQ(parameters.query_token_stride, 0);
  EXPECT_EQ(parameters.output_token_stride, 0);
}

/// The model of choose_splits, over every possible number of splits.
double modelled_cost(const gqa_decode::warp_ring::Plan& plan, std::int64_t sequences, int max_length, int splits) {
  const int chunks = (max_length + plan.chunk_tokens() - 1) / plan.chunk_tokens();
  const std::int64_t resident = std::int64_t{132} * plan.blocks_per_sm;
  const std::int64_t waves = (sequences * splits + resident - 1) / resident;
  const double partial = 4.0 * plan.descriptor.heads_per_kv * plan.descriptor.head_dim;
  const double chunk = 2.0 * plan.chunk_tokens() * plan.descriptor.row_bytes();
  const int share = (chunks + splits - 1) / splits;
  return static_cast<double>(waves * (share + 2)) + (splits > 1 ? splits * 0.5 * partial / chunk : 0);
}

// Four rows of 68 bytes together are 17 times 16.
TEST(GqaLaunch, UnalignedRowsAreCopiedInBoxesOfFour) {
  const auto plan = tests::sm90_plan_of("gqa_decode:heads_per_kv=8,kv=int4_rows,family=sm90", "sm_90a");
  constexpr std::uint64_t kRow = 68;
  for (const int kv_heads : {1, 2, 4, 8}) {
    const auto arguments = tests::made_up_gqa_arguments({3, kv_heads, 8 * kv_heads, 128, kRow, 8192});
    const Launch launch = gqa_decode::sm90::encode(plan, &arguments, address(0x10000), std::size_t{1} << 30, h200());
    ASSERT_EQ(launch.maps.all().size(), 2u) << kv_heads;
    for (const auto& [offset, map] : launch.maps.all()) {
      EXPECT_EQ(runtime::broken_rule(map), "") << kv_heads;
      EXPECT_EQ(map.swizzle, runtime::TensorSwizzle::none);
      EXPECT_EQ(map.row_bytes(), 4 * kRow);
      EXPECT_EQ(2 * 2 * map.box_bytes(), static_cast<std::uint64_t>(plan.stage_bytes()))
          << "two for keys, two for values";
      const std::uint64_t rows = map.sizes[2] * map.sizes[3] * map.sizes[4];
      EXPECT_EQ(rows * 4, std::uint64_t{3} * kv_heads * 8192) << "every token's row is in the map";
    }
  }
  const auto three = tests::made_up_gqa_arguments({3, 3, 24, 128, kRow, 8192});
  EXPECT_TRUE(
      gqa_decode::sm90::encode(plan, &three, address(0x10000), std::size_t{1} << 30, h200()).maps.all().empty());
}

/// The copy pacing of a launch with 128 sequences of 8192 tokens and one KV head.
unsigned pace_of(const char* text, const runtime::DeviceFacts& device, int row) {
  const auto arguments = tests::made_up_gqa_arguments({128, 1, 8, 128, row, 8192});
  const Launch launch = kernel_of(text)->encode(&arguments, address(0x10000), std::size_t{1} << 30, device);
  return parameters_of(launch).pace;
}

// 256 tokens of 160 bytes at 95% of 4.9 TB/s: 8.77 ns.
TEST(GqaLaunch, PackedWordsKeepPaceWithTheMemory) {
  const char* const int4 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
  EXPECT_EQ(pace_of(int4, h200(), 80), 8979u);
  runtime::DeviceFacts device = h200();
  device.memory_bytes_per_second /= 2;
  EXPECT_EQ(pace_of(int4, device, 80), 17959u) << "half as fast";
  device.memory_bytes_per_second = 1;
  EXPECT_EQ(pace_of(int4, device, 80), ~0u) << "the pace saturates";
  device.memory_bytes_per_second = 0;
  EXPECT_EQ(pace_of(int4, device, 80), 0u) << "the driver has not said how fast it is";
  EXPECT_EQ(pace_of("gqa_decode:heads_per_kv=8", h200(), 128), 0u) << "bf16 gains nothing";
  EXPECT_EQ(pace_of("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm80", h200(), 80), 0u);
}

/// Whether a launch with 16 sequences of 8192 tokens gives its blocks different start offsets.
bool is_staggered(const char* text, const runtime::DeviceFacts& device, int row, int kv_heads, bool share = false) {
  auto arguments = tests::made_up_gqa_arguments({16, kv_heads, 8 * kv_heads, 128, row, 8192});
  if (share) arguments.key_strides[0] = arguments.value_strides[0] = 0;
  const Launch launch = kernel_of(text)->encode(&arguments, address(0x10000), std::size_t{1} << 30, device);
  GqaDecodeArguments parameters{};  // launches without tensor maps have shorter parameters
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  return parameters.stagger != 0;
}

TEST(GqaLaunch, BlocksThatWouldMeetAtAStackOfTheMemoryBeginInTheMiddle) {
  const char* const int4 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
  runtime::DeviceFacts device = h200();
  EXPECT_FALSE(is_staggered(int4, device, 80, 1)) << "six stacks";
  device.memory_bus_bits = 5120;
  EXPECT_TRUE(is_staggered(int4, device, 80, 1));
  EXPECT_TRUE(is_staggered(int4, device, 80, 8));
  const char* const int4_of_8_groups = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=8";
  EXPECT_FALSE(is_staggered(int4_of_8_groups, device, 96, 1));
  EXPECT_TRUE(is_staggered(int4_of_8_groups, device, 96, 5));
  EXPECT_FALSE(is_staggered("gqa_decode:heads_per_kv=8", device, 128, 5)) << "no kernel of bf16 can";
  EXPECT_FALSE(is_staggered(int4, device, 80, 1, true)) << "all sequences read one cache";
  device.memory_bus_bits = 0;
  EXPECT_FALSE(is_staggered(int4, device, 80, 1)) << "the driver has not said";
}

TEST(GqaLaunch, TwoBlocksOfASequenceAreACluster) {
  const auto kernel = kernel_of("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4");
  for (const int batch : {64, 128}) {
    const auto arguments = arguments_of(batch, 1, 8192);
    const Launch launch = kernel->encode(&arguments, address(0x10000), std::size_t{1} << 30, h200());
    EXPECT_EQ(launch.shape.grid[0], 128u);
    EXPECT_EQ(launch.shape.cluster_blocks, batch == 64 ? 2u : 1u);
  }
}

TEST(GqaLaunch, AHandfulOfCandidatesIsAsGoodAsAllOfThem) {
  const auto plan = tests::sm80_plan_of(kInt4, "sm_90a");
  for (const int sequences : {1, 2, 3, 5, 8, 16, 31, 32, 64, 100, 128, 200, 512}) {
    for (const int length : {64, 500, 1024, 4000, 8192, 32768, 131072}) {
      double best = 1e300;
      for (int splits = 1; splits <= std::min(256, (length + 63) / 64); ++splits) {
        best = std::min(best, modelled_cost(plan, sequences, length, splits));
      }
      const int chosen = gqa_decode::warp_ring::choose_splits(plan, sequences, length, h200());
      EXPECT_LE(modelled_cost(plan, sequences, length, chosen), 1.1 * best) << sequences << " sequences of " << length;
    }
  }
}

TEST(GqaLaunch, AnEmptyBatchLaunchesNothing) {
  auto arguments = arguments_of(0, 1, 100);
  EXPECT_TRUE(kernel_of(kInt4)->encode(&arguments, nullptr, 0, h200()).empty);
}

struct BadArgument {
  const char* sentence;
  void (*change)(cubit_gqa_decode_arguments&);
};

class RefusedArguments : public ::testing::TestWithParam<BadArgument> {};

TEST_P(RefusedArguments, NameTheRule) {
  const auto kernel = kernel_of(kInt4);
  auto arguments = arguments_of(2, 2, 64);
  GetParam().change(arguments);
  tests::expect_refused_with([&] { kernel->encode(&arguments, address(0x10000), 1 << 30, h200()); },
                             GetParam().sentence);
}

using Arguments = cubit_gqa_decode_arguments;
INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedArguments,
    ::testing::Values(
        BadArgument{"softmax_scale = nan: it is not a finite number",
                    [](Arguments& a) { a.softmax_scale = std::nanf(""); }},
        BadArgument{"softmax_scale = inf: it is not a finite number",
                    [](Arguments& a) { a.softmax_scale = HUGE_VALF; }},
        BadArgument{"query at 0x1008: the address is not a multiple of 16 bytes",
                    [](Arguments& a) { a.query = address(0x1008); }},
        BadArgument{"value stride 2 of 84 bytes: it is not a multiple of 16 bytes",
                    [](Arguments& a) { a.value_strides[2] = 84; }},
        BadArgument{"output stride 1 of 260 bytes", [](Arguments& a) { a.output_strides[1] = 130; }},
        BadArgument{"key = NULL: the tensor is needed", [](Arguments& a) { a.key = nullptr; }},
        BadArgument{"output = NULL", [](Arguments& a) { a.output = nullptr; }},
        BadArgument{"batch = -1: it must not be negative", [](Arguments& a) { a.batch = -1; }},
        BadArgument{"kv_heads = 0: it must be at least 1", [](Arguments& a) { a.kv_heads = 0; }},
        BadArgument{"max_length = -5", [](Arguments& a) { a.max_length = -5; }},
        BadArgument{"max_length = 2147483647", [](Arguments& a) { a.max_length = 2147483647; }},
        BadArgument{"batch * kv_heads = 2000000000", [](Arguments& a) { a.batch = 1000000000; }},
        BadArgument{"key_strides[1] (token) = 268435456", [](Arguments& a) { a.key_strides[1] = 1 << 28; }},
        BadArgument{"key_strides = {0, 0, 0}: all of its strides are 0, so every row would be the same one",
                    [](Arguments& a) { std::fill_n(a.key_strides, 3, 0); }},
        BadArgument{"value_strides = {0, 0, 0}", [](Arguments& a) { std::fill_n(a.value_strides, 3, 0); }},
        BadArgument{"query_strides = {0, 0}", [](Arguments& a) { std::fill_n(a.query_strides, 2, 0); }},
        BadArgument{"value_strides[1] (token) = -80", [](Arguments& a) { a.value_strides[1] = -80; }},
        BadArgument{"value stride 0 = 9223372036854775807", [](Arguments& a) { a.value_strides[0] = INT64_MAX; }},
        BadArgument{
            "softmax_scale = 0: all tokens would weigh the same; accepted: -1e30 to 1e30 but not 0, usually 1 /",
            [](Arguments& a) { a.softmax_scale = 0; }},
        BadArgument{": its magnitude is beyond 1e30; accepted: -1e30 to 1e30 but not 0, usually 1 / sqrt(head_dim)",
                    [](Arguments& a) { a.softmax_scale = 3e38f; }},
        BadArgument{"its magnitude is beyond 1e30",
                    [](Arguments& a) { a.softmax_scale = std::nextafter(-1e30f, -2e30f); }},
        BadArgument{"lengths at 0x1002", [](Arguments& a) { a.lengths = address<std::int32_t>(0x1002); }},
        BadArgument{"cubit_gqa_decode_arguments.size = 4", [](Arguments& a) { a.size = 4; }}));

/// 2 sequences of 16 heads of 128 channels; some cases have several query tokens.
TEST(GqaLaunch, RefusesStridesWithWhichHeadsOverwriteOneAnother) {
  const auto refusal = [](const char* text, std::int64_t sequence, std::int64_t token, std::int64_t head) {
    auto arguments = arguments_of(2, 2, 64);
    arguments.query_token_stride = 128;
    arguments.output_strides[0] = sequence;
    arguments.output_token_stride = token;
    arguments.output_strides[1] = head;
    return tests::refusal_of([&] { kernel_of(text)->encode(&arguments, address(0x10000), 1 << 30, h200()); });
  };
  const auto overwriting = [](const std::string& given, const std::string& within) {
    return given + ": outputs would overwrite one another, for the dimensions within this stride span " + within +
           " elements; accepted: a magnitude of " + within + " and more";
  };
  EXPECT_EQ(refusal(kInt4, 0, 0, 128), overwriting("output_strides[0] = 0", "128"));
  EXPECT_EQ(refusal(kInt4, 2048, 0, 8), overwriting("output_strides[1] = 8", "128"));
  EXPECT_EQ(refusal(kInt4, 2040, 0, 128), overwriting("output_strides[0] = 2040", "2048"));
  EXPECT_EQ(refusal(kInt4, -128, 0, -256), "accepted");
  const std::string several = std::string(kInt4) + ",query_tokens=4";
  EXPECT_EQ(refusal(several.c_str(), 8192, 2048, 128), "accepted");
  EXPECT_EQ(refusal(several.c_str(), 8192, 128, 512), "accepted");
  EXPECT_EQ(refusal(several.c_str(), 8192, 0, 128), overwriting("output_token_stride = 0", "128"));
  EXPECT_EQ(refusal(several.c_str(), 4096, 2048, 128), overwriting("output_strides[0] = 4096", "8192"));
}

/// The float nearest to 1e30 is larger than 1e30, and is accepted.
TEST(GqaLaunch, TakesTheLargestSoftmaxScales) {
  const auto kernel = kernel_of(kInt4);
  for (const float scale : {1e30f, -1e30f}) {
    auto arguments = arguments_of(2, 2, 64);
    arguments.softmax_scale = scale;
    EXPECT_NO_THROW(kernel->encode(&arguments, address(0x10000), 1 << 30, h200())) << scale;
  }
}

TEST(GqaLaunch, RefusesNoArgumentsAndTooSmallAWorkspace) {
  const auto kernel = kernel_of(kInt4);
  EXPECT_THROW(kernel->encode(nullptr, nullptr, 0, h200()), Failure);
  auto arguments = arguments_of(1, 1, 8192);
  const std::size_t bytes = kernel->workspace_bytes(&arguments, h200());
  ASSERT_GT(bytes, 0u);
  EXPECT_NO_THROW(kernel->encode(&arguments, address(0x10000), bytes, h200()));
  // The size serves all smaller launches, so this launch may need less. It needs its own partial results.
  const std::int64_t splits = parameters_of(kernel->encode(&arguments, address(0x10000), bytes, h200())).splits;
  const std::size_t needed = kWorkspaceCounterBytes + splits * 8 * (2 + 128) * sizeof(float);
  ASSERT_GT(splits, 1);
  EXPECT_THROW(kernel->encode(&arguments, address(0x10000), needed - 1, h200()), Failure);
  EXPECT_THROW(kernel->encode(&arguments, nullptr, bytes, h200()), Failure);
  EXPECT_THROW(kernel->encode(&arguments, address(0x10040), bytes, h200()), Failure);
}

}  // namespace
}  // namespace cubit::ops
