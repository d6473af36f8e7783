// Every kernel of gqa_decode compiles without register spills for the architectures that it claims. The tests are
// skipped if there is no NVRTC.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "tests/support/compiled.hpp"
#include "tests/support/gqa_descriptors.hpp"
#include "tests/support/gqa_plans.hpp"
#include "tests/support/register_pool.hpp"

namespace cubit::ops {
namespace {

/// Kernels for later architectures recompute a lane's addresses. Kernels for earlier architectures do not; each
/// descriptor is compiled for one of them.
TEST(GqaPlan, ManyGroupsCompileWithoutSpillsOnLaterArchitectures) {
  constexpr const char* kLater[] = {"sm_100a", "sm_120"};
  constexpr const char* kEarlier[] = {"sm_80", "sm_86", "sm_89", "sm_90a"};
  std::vector<tests::KernelFor> kernels;
  const auto add = [&](std::string_view fields, const char* architecture, bool recomputes) {
    const GqaDecode descriptor = gqa_decode::parse(fmt::format("gqa_decode:kv=int4_rows,{}", fields));
    const auto kernel = tests::gqa_kernel_of(descriptor, codegen::find_architecture(architecture));
    EXPECT_EQ(tests::reason_of(kernel, "lanes") != "", recomputes) << descriptor.text() << " for " << architecture;
    kernels.push_back({descriptor.text(), architecture});
  };
  for (const char* fields : {"cache=paged,heads_per_kv=24,query_tokens=5,mask=tree",
                             "cache=paged,heads_per_kv=12,query_tokens=2", "cache=paged,heads_per_kv=16",
                             "query=fp16,heads_per_kv=8", "query=fp16,heads_per_kv=16", "query=fp16,heads_per_kv=64"}) {
    const std::string all = fmt::format("groups=8,family=sm80,{}", fields);
    for (const char* architecture : kLater) add(all, architecture, true);
    add(all, kEarlier[kernels.size() / 3 % std::size(kEarlier)], false);
  }
  for (const char* groups : {"groups=4", "groups=8"}) {
    for (const char* fields :
         {"heads_per_kv=1", "heads_per_kv=8,cache=paged", "heads_per_kv=64,query=fp16",
          "heads_per_kv=1,query_tokens=4,mask=tree", "heads_per_kv=1,query_tokens=4,alibi=true",
          "heads_per_kv=8,query_tokens=4,window=true", "heads_per_kv=8,query_tokens=4,alibi=true,window=true",
          "heads_per_kv=1,query_tokens=4,mask=tree,alibi=true,window=true,cache=paged"}) {
      const std::string all = fmt::format("head_dim=256,family=sm90,{},{}", groups, fields);
      for (const char* architecture : kLater) add(all, architecture, true);
    }
  }
  add("groups=4", "sm_100a", false);
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, EveryPairOfFieldValuesCompilesWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  for (const char* architecture : tests::kGqaArchitectures) {
    for (const GqaDecode& descriptor : tests::pairwise_gqa_descriptors(false))
      kernels.push_back({descriptor.text(), architecture});
    for (const char* blocks : {"stream_read", "stream_read:blocks_per_sm=2"}) kernels.push_back({blocks, architecture});
  }
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, TwoFormatsCompileWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  const std::vector<GqaDecode> descriptors = tests::mixed_gqa_descriptors(false);
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    kernels.push_back({descriptors[i].text(), "sm_80"});
    // Each descriptor is also compiled for one of the other architectures, in rotation.
    kernels.push_back(
        {descriptors[i].text(), tests::kGqaArchitectures[1 + i % (std::size(tests::kGqaArchitectures) - 1)]});
  }
  tests::expect_no_spills(kernels);
}

/// A kernel of family sm90. If warps exchange registers (setmaxnreg), the plan's register counts add up to the
/// registers with which the block's threads start, and the test checks the count at launch.
tests::KernelFor kernel_for(const GqaDecode& descriptor, const char* name) {
  const auto& architecture = codegen::find_architecture(name);
  const auto plan = gqa_decode::sm90::make_plan(descriptor, architecture);
  return {descriptor.text(), name,
          plan.consumer_registers > 0 ? tests::registers_at_launch(architecture, plan.threads()) : 0};
}

/// Later architectures, with and without setmaxnreg. Tests compile some descriptors for one of them in addition to
/// sm_90a.
constexpr const char* kLaterThanSm90[] = {"sm_100a", "sm_120", "sm_120a"};

TEST(GqaPlan, FamilySm90TakesBytesWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  for (const GqaDecode& descriptor : tests::sm90_byte_descriptors()) {
    kernels.push_back(kernel_for(descriptor, "sm_90a"));
    kernels.push_back(kernel_for(descriptor, kLaterThanSm90[kernels.size() / 2 % std::size(kLaterThanSm90)]));
  }
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, FamilySm90TakesUnalignedRowsWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  for (const GqaDecode& descriptor : tests::sm90_unaligned_row_descriptors()) {
    if (kernels.size() % 5 == 0)
      kernels.push_back(kernel_for(descriptor, kernels.size() % 2 == 0 ? "sm_100a" : "sm_120"));
    kernels.push_back(kernel_for(descriptor, "sm_90a"));
  }
  // Kernels without setmaxnreg.
  for (const char* fields : {"heads_per_kv=16,query=fp16,output=bf16,query_tokens=4,mask=tree,alignment=8",
                             "heads_per_kv=4,query=fp16,query_tokens=2,alignment=4"}) {
    kernels.push_back(kernel_for(
        gqa_decode::parse(fmt::format("gqa_decode:kv=int4_rows,groups=2,family=sm90,{}", fields)), "sm_120"));
  }
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, FamilySm75CompilesWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  constexpr const char* kLater[] = {"sm_90a", "sm_120", "sm_100a"};
  constexpr std::size_t kOfLater = 4;  // every fourth descriptor is also compiled for a later architecture
  for (const GqaDecode& descriptor : tests::sm75_gqa_descriptors()) {
    if (kernels.size() % (kOfLater + 1) == 0)
      kernels.push_back({descriptor.text(), kLater[kernels.size() / (kOfLater + 1) % std::size(kLater)]});
    kernels.push_back({descriptor.text(), "sm_75"});
  }
  // Descriptors with many narrow copies or many channels, for which sm_120 once spilled.
  for (const char* fields : {"head_dim=80,heads_per_kv=16,alignment=4", "head_dim=160,heads_per_kv=1,alignment=4",
                             "head_dim=160,heads_per_kv=16", "head_dim=192,heads_per_kv=1,alignment=4",
                             "head_dim=192,heads_per_kv=8,query_tokens=4", "head_dim=256,heads_per_kv=1,alignment=4"}) {
    const GqaDecode descriptor = gqa_decode::parse(fmt::format("gqa_decode:kv=fp16,query=fp16,family=sm75,{}", fields));
    kernels.push_back({descriptor.text(), "sm_120"});
  }
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, FamilySm90CompilesWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  constexpr std::size_t kOfLater = 4;  // every fourth descriptor is also compiled for a later architecture
  for (const GqaDecode& descriptor : tests::sm90_gqa_descriptors()) {
    if (kernels.size() % (kOfLater + 1) == 0) {
      const std::size_t turn = kernels.size() / (kOfLater + 1);
      kernels.push_back(kernel_for(descriptor, kLaterThanSm90[turn % std::size(kLaterThanSm90)]));
    }
    kernels.push_back(kernel_for(descriptor, "sm_90a"));
  }
  tests::expect_no_spills(kernels);
}

TEST(GqaPlan, WarpgroupMmaCompilesWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  for (const int head_dim : {64, 128, 192}) {
    for (const char* types : {"query=bf16,kv=bf16", "query=fp16,kv=fp16", "query=fp16,kv=bf16"}) {
      for (const char* heads : {"heads_per_kv=17", "heads_per_kv=24,cache=paged", "heads_per_kv=32,window=true",
                                "heads_per_kv=33", "heads_per_kv=48,alibi=true", "heads_per_kv=8,query_tokens=8"}) {
        const GqaDecode descriptor =
            gqa_decode::parse(fmt::format("gqa_decode:head_dim={},{},{}", head_dim, types, heads));
        if (!gqa_decode::sm90::uses_warpgroup_mma(descriptor, codegen::find_architecture("sm_90a"))) continue;
        kernels.push_back(kernel_for(descriptor, "sm_90a"));
      }
    }
  }
  EXPECT_EQ(kernels.size(), 6 * (3 + 3 + 1));
  tests::expect_no_spills(kernels);
}

}  // namespace
}  // namespace cubit::ops
