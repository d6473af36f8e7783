// Property test of every operator that needs a workspace: the size for upper bounds serves every launch within them.
#include <cubit/gqa_decode.h>
#include <cubit/w4a16_gemm.h>
#include <cubit/w8a8_gemm.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "tests/support/gemm_launches.hpp"
#include "tests/support/gqa_launches.hpp"

namespace cubit::ops {
namespace {

using tests::address;

constexpr int kLaunchesWithin = 12;

class Numbers {
 public:
  int up_to(int most) { return std::uniform_int_distribution<int>(1, most)(random_); }
  /// Each order of magnitude is as likely as another.
  int of_any_size(int most) {
    const double log = std::uniform_real_distribution<double>(0, std::log(most + 1.0))(random_);
    return std::min(most, static_cast<int>(std::exp(log)));
  }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[up_to(static_cast<int>(values.size())) - 1];
  }

 private:
  std::mt19937 random_{1};
};

/// The kernels of a descriptor. Each launch takes one of them.
class Kernels {
 public:
  Kernels(const std::string& text, const std::string& architecture) : text_(text + " for " + architecture) {
    const codegen::Architecture& found = codegen::find_architecture(architecture);
    const Operator& op = find_operator(text);
    const std::vector<std::string> members = op.members(text, found);
    for (const std::string& member : members) kernels_.push_back(op.specialise(member, found));
    if (members.size() > 1) choice_ = op.choice(text, found);
  }

  /// Expects that launches within the bounds of `upper` need no more workspace, and that such a launch takes it.
  /// `within` makes the arguments of such a launch. Returns the size, or 0 if the operator refuses `upper`.
  template <class Arguments, class Within>
  std::size_t expect_serves(const Arguments& upper, const runtime::DeviceFacts& device, const Within& within) const {
    std::size_t bytes = 0;
    try {
      bytes = size_of(upper, device);
    } catch (const Failure&) {
      return 0;
    }
    for (int i = 0; i < kLaunchesWithin; ++i) {
      const Arguments lower = within(upper);
      try {
        EXPECT_LE(size_of(lower, device), bytes) << text_ << described(lower) << " within" << described(upper);
        kernel_of(lower, device).encode(&lower, address(0x100000), bytes, device);
      } catch (const Failure& failure) {
        ADD_FAILURE() << text_ << described(lower) << " within" << described(upper) << ": " << failure.what();
      }
    }
    return bytes;
  }

 private:
  static std::string described(const cubit_gqa_decode_arguments& arguments) {
    return fmt::format(" batch {}, max_length {}, window {}, splits {}", arguments.batch, arguments.max_length,
                       arguments.window, arguments.splits);
  }
  template <class Gemm>
  static std::string described(const Gemm& arguments) {
    return fmt::format(" m {}, n {}, k {}, decomposition {}", arguments.m, arguments.n, arguments.k,
                       arguments.decomposition);
  }
  template <class Arguments>
  std::size_t size_of(const Arguments& arguments, const runtime::DeviceFacts& device) const {
    return choice_ ? choice_->workspace_bytes(&arguments, device)
                   : kernels_.front()->workspace_bytes(&arguments, device);
  }
  template <class Arguments>
  const Specialisation& kernel_of(const Arguments& arguments, const runtime::DeviceFacts& device) const {
    return *kernels_[choice_ ? choice_->choose(&arguments, device) : 0];
  }

  std::string text_;
  std::vector<std::shared_ptr<const Specialisation>> kernels_;
  std::shared_ptr<const MemberChoice> choice_;
};

void expect_attention_serves(Numbers& random, const Kernels& kernels, const std::string& architecture, int row,
                             bool has_window) {
  static const std::int32_t lengths = 0;
  int with_workspace = 0;
  for (int round = 0; round < 150; ++round) {
    const auto device = tests::made_up_device(architecture, random.one_of({1, 4, 40, 108, 132, 148}));
    const int kv_heads = random.one_of({1, 2, 3, 8});
    auto upper = tests::made_up_gqa_arguments(
        {random.of_any_size(700), kv_heads, 8 * kv_heads, 128, row, random.of_any_size(200'000)});
    upper.splits = random.one_of({0, 0, 0, 1, 3, 16});
    if (random.up_to(2) == 1) upper.lengths = &lengths;
    if (has_window) upper.window = random.of_any_size(10'000);
    const std::size_t bytes = kernels.expect_serves(upper, device, [&](cubit_gqa_decode_arguments within) {
      within.batch = random.up_to(4) == 1 ? within.batch : random.of_any_size(within.batch);
      within.max_length = random.up_to(4) == 1 ? within.max_length : random.of_any_size(within.max_length);
      if (has_window && random.up_to(2) == 1) within.window = random.of_any_size(within.window);
      within.lengths = random.up_to(2) == 1 ? &lengths : nullptr;
      return within;
    });
    with_workspace += bytes > 0 ? 1 : 0;
  }
  EXPECT_GT(with_workspace, 20);
}

TEST(Workspace, OfAttentionServesAllBatchesAndLengthsWithinItsBounds) {
  Numbers random;
  struct Case {
    const char* text;
    const char* architecture;
    int row;
    bool has_window;
  };
  for (const auto& [text, architecture, row, has_window] :
       {Case{"gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,query=fp16,output=fp16,family=sm75", "sm_75", 80, false},
        Case{"gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm80", "sm_80", 80, false},
        Case{"gqa_decode:heads_per_kv=8,family=sm80", "sm_90a", 128, false},
        Case{"gqa_decode:heads_per_kv=8,window=true,family=sm80", "sm_80", 128, true},
        Case{"gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90", "sm_90a", 80, false},
        Case{"gqa_decode:heads_per_kv=8,family=sm90", "sm_90a", 128, false},
        Case{"gqa_decode:heads_per_kv=8,window=true,family=sm90", "sm_90a", 128, true}})
    expect_attention_serves(random, Kernels(text, architecture), architecture, row, has_window);
}

template <class Arguments>
void expect_gemm_serves(Numbers& random, const Kernels& kernels, const std::string& architecture, int rounds,
                        const Arguments& given) {
  int with_workspace = 0;
  for (int round = 0; round < rounds; ++round) {
    auto device = tests::made_up_device(architecture, random.one_of({4, 40, 108, 132}));
    device.memory_bytes_per_second = 2'000'000'000'000;
    Arguments upper = given;
    upper.m = random.of_any_size(5000);
    upper.n = 256 * random.of_any_size(64);
    upper.k = 128 * random.of_any_size(128);
    upper.activation_stride = upper.k;
    upper.output_stride = upper.n;
    upper.decomposition = random.one_of({0, 0, 2});
    const std::size_t bytes = kernels.expect_serves(upper, device, [&](Arguments within) {
      within.m = random.of_any_size(within.m);
      return within;
    });
    with_workspace += bytes > 0 ? 1 : 0;
  }
  EXPECT_GT(with_workspace, rounds / 10);
}

TEST(Workspace, OfW4a16GemmServesAllRowsWithinItsBounds) {
  Numbers random;
  for (const auto& [text, architecture] : {std::pair{"w4a16_gemm:tile_m=16,tile_n=256", "sm_75"},
                                           {"w4a16_gemm:tile_m=64,tile_n=256", "sm_80"},
                                           {"w4a16_gemm:format=awq,tile_m=16,tile_n=256", "sm_90a"},
                                           {"w4a16_gemm", "sm_90a"},
                                           {"w4a16_gemm", "sm_80"}}) {
    auto arguments = tests::arguments_of(1, 256, 128);
    expect_gemm_serves(random, Kernels(text, architecture), architecture, 60, arguments);
  }
}

TEST(Workspace, OfW8a8GemmServesAllRowsWithinItsBounds) {
  Numbers random;
  cubit_w8a8_gemm_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.activations = address(0x1000);
  arguments.weights = address(0x2000);
  arguments.activation_scales = address<float>(0x3000);
  arguments.weight_scales = address<float>(0x4000);
  arguments.output = address(0x5000);
  for (const auto& [text, architecture] :
       {std::pair{"w8a8_gemm", "sm_75"}, {"w8a8_gemm", "sm_80"}, {"w8a8_gemm", "sm_90a"}})
    expect_gemm_serves(random, Kernels(text, architecture), architecture, 60, arguments);
}

}  // namespace
}  // namespace cubit::ops
