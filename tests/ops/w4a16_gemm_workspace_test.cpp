// Tests of w4a16_gemm's workspace without a device: the workspace for many rows serves fewer rows, of one kernel and of
// a set, and a set needs no more than its launches do.
#include <cubit/w4a16_gemm.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "ops/w4a16_gemm/members.hpp"
#include "tests/support/gemm_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::arguments_of;
using tests::h200;
using tests::made_up_device;
using Arguments = cubit_w4a16_gemm_arguments;

w4a16_gemm::GemmChoice hopper_choice(const char* text) {
  return w4a16_gemm::choice_of(w4a16_gemm::parse(text), codegen::find_architecture("sm_90a"));
}

/// The number of rows up to `most` for which the workspace of `most` rows is too small.
template <class Chosen>
int rows_without_room(const Chosen& chosen, std::size_t bytes, int most, int n, int k, int decomposition,
                      const runtime::DeviceFacts& device) {
  int refused = 0;
  for (int m = 1; m <= most; m += m < 300 ? 1 : 97) {
    auto arguments = arguments_of(m, n, k);
    arguments.decomposition = decomposition;
    const Specialisation& kernel = chosen(arguments);
    try {
      kernel.encode(&arguments, address(0x100000), bytes, device);
    } catch (const Failure& failure) {
      ADD_FAILURE() << failure.what();
      ++refused;
    }
  }
  return refused;
}

// Fewer rows are split more, so that they may need more workspace than many rows.
TEST(GemmWorkspace, OfManyRowsServesFewerRows) {
  for (const char* architecture : {"sm_75", "sm_80", "sm_90a"}) {
    const auto device = made_up_device(architecture, 132);
    for (const char* text :
         {"w4a16_gemm:tile_m=8,tile_n=256", "w4a16_gemm:tile_m=64,tile_n=256",
          "w4a16_gemm:format=awq,tile_m=16,tile_n=256", "w4a16_gemm:tile_m=16,tile_n=256,batch_invariant=true"}) {
      const auto plan = tests::plan_of(text, architecture);
      for (const auto& [n, k] : {std::pair{1024, 8192}, {8192, 4096}}) {
        for (const int most : {1, 100, 2000}) {
          for (const int decomposition : {CUBIT_W4A16_AUTOMATIC, CUBIT_W4A16_SPLIT_K}) {
            auto arguments = arguments_of(most, n, k);
            arguments.decomposition = decomposition;
            const std::size_t bytes = plan.workspace_bytes(arguments, device);
            const auto chosen = [&](const Arguments&) -> const Specialisation& { return *plan.made; };
            EXPECT_EQ(rows_without_room(chosen, bytes, most, n, k, decomposition, device), 0)
                << text << " for " << architecture << ", " << most << " rows";
          }
        }
      }
    }
  }
}

constexpr const char* kSetsWithWorkspace[] = {
    "w4a16_gemm",           "w4a16_gemm:format=awq", "w4a16_gemm:function=silu_gate", "w4a16_gemm:batch_invariant=true",
    "w4a16_gemm:tile_m=16", "w4a16_gemm:tile_n=256", "w4a16_gemm:family=sm90"};

TEST(GemmWorkspace, OfASetServesEveryMemberThatFewerRowsTake) {
  for (const char* text : kSetsWithWorkspace) {
    const auto choice = hopper_choice(text);
    std::vector<std::shared_ptr<const Specialisation>> kernels;
    for (std::size_t i = 0; i < choice.member_count(); ++i)
      kernels.push_back(find_operator(text).specialise(choice.member(i).text(), *h200().architecture));
    for (const auto& [n, k] : {std::pair{256, 16384}, {1024, 8192}, {4096, 4096}, {28672, 8192}}) {
      for (const int most : {5, 100, 3000, 30000}) {
        for (const int decomposition : {CUBIT_W4A16_AUTOMATIC, CUBIT_W4A16_SPLIT_K}) {
          auto arguments = arguments_of(most, n, k);
          arguments.decomposition = decomposition;
          const std::size_t bytes = choice.workspace_bytes(&arguments, h200());
          const auto chosen = [&](const Arguments& fewer) -> const Specialisation& {
            return *kernels[choice.choose(&fewer, h200())];
          };
          EXPECT_EQ(rows_without_room(chosen, bytes, most, n, k, decomposition, h200()), 0) << text;
        }
      }
    }
  }
}

TEST(GemmWorkspace, OfASetNeverShrinksAsRowsGrow) {
  for (const char* text : kSetsWithWorkspace) {
    const auto choice = hopper_choice(text);
    for (const auto& [n, k] : {std::pair{256, 16384}, {4096, 4096}, {8192, 8192}}) {
      std::size_t before = 0;
      for (int m = 0; m <= 100'000; m += m < 200 ? 1 : m / 3) {
        const auto arguments = arguments_of(m, n, k);
        const std::size_t bytes = choice.workspace_bytes(&arguments, h200());
        EXPECT_GE(bytes, before) << text << ", " << m << " rows";
        before = bytes;
      }
    }
  }
}

// Members that no launch of up to so many rows takes do not count: tiles of 8 rows would need 67 MB.
TEST(GemmWorkspace, OfASetIsThatOfTheMembersThatLaunchesTake) {
  for (const int m : {64, 512, 4096, 1 << 20}) {
    const auto arguments = arguments_of(m, 8192, 8192);
    EXPECT_LE(hopper_choice("w4a16_gemm").workspace_bytes(&arguments, h200()), 27'000'000u) << m << " rows";
    EXPECT_LE(hopper_choice("w4a16_gemm:format=awq").workspace_bytes(&arguments, h200()), 60'000'000u) << m << " rows";
  }
  const auto nothing = arguments_of(0, 8192, 8192);
  EXPECT_EQ(hopper_choice("w4a16_gemm").workspace_bytes(&nothing, h200()), 0u);
  auto narrow = arguments_of(64, 8192, 8192);
  narrow.decomposition = CUBIT_W4A16_STREAM_K;
  tests::expect_refused_with([&] { hopper_choice("w4a16_gemm:tile_n=64").workspace_bytes(&narrow, h200()); },
                             "decomposition = 3 of w4a16_gemm:tile_m=16,tile_n=64");
}

}  // namespace
}  // namespace cubit::ops
