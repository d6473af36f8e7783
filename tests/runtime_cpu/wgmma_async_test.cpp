// Tests the asynchronous side of wgmma with a kernel written for Hopper and compiled by NVRTC. The correct kernel gives
// no report; each wait, fence or barrier that is left out gives one.
#include <gmock/gmock.h>

#include <cstring>

#include "base/error.hpp"
#include "tests/runtime_cpu/harness.hpp"
#include "tests/runtime_cpu/ptx/nvrtc_samples.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;

/// C[64][8] = A · B of bf16 ones and small integers, K = 16 · tiles. An extra warp besides the four hands over the
/// tiles.
constexpr const char* kTemplate = R"cuda(
using u32 = unsigned; using u64 = unsigned long long;
__device__ u32 addr(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
__device__ void init(u64* b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(addr(b)), "r"(n) : "memory"); }
__device__ void arrive(u64* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(addr(b)) : "memory"); }
__device__ void wait(u64* b, u32 parity) {
  u32 done;
  do asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}\n" : "=r"(done) : "r"(addr(b)), "r"(parity) : "memory"); while (!done);
}
__device__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ void wait_group() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
__device__ void hold(float& x) { asm volatile("" : "+f"(x) :: "memory"); }
__device__ void multiply(float (&d)[4], const u32 (&a)[4], u64 b, int scale) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 0;\n}\n"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale));
}
struct Args { float* output; int tiles; };
extern "C" __global__ void __launch_bounds__(160) product(const __grid_constant__ Args args) {
  __shared__ alignas(128) unsigned short tiles[2][128];  // eight columns of 16, as two core matrices
  __shared__ alignas(8) u64 full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) { init(&full[i], 32); init(&empty[i], 128); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    for (int i = 0; i < args.tiles; ++i) {
      wait(&empty[i & 1], (i >> 1 & 1) ^ 1);
      for (int e = threadIdx.x - 128; e < 128; e += 32) tiles[i & 1][e] = 0x3f80;
      proxy_fence();
      arrive(&full[i & 1]);
    }
    return;
  }
  const u32 ones[4] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};
  float d[4];
  for (float& x : d) x = 7;
  for (int i = 0; i < args.tiles; ++i) {
    wait(&full[i & 1], i >> 1 & 1);
    for (float& x : d) hold(x);
    wgmma_fence();
    multiply(d, ones, u64{addr(tiles[i & 1]) / 16} | u64{128 / 16} << 16, i != 0);
    commit();
    for (float& x : d) hold(x);
    wait_group<0>();
    arrive(&empty[i & 1]);
  }
  for (float& x : d) hold(x);
  for (int i = 0; i < 4; ++i) args.output[threadIdx.x * 4 + i] = d[i];
}
extern "C" __global__ void __launch_bounds__(128) two_groups(const __grid_constant__ Args args) {
  __shared__ alignas(128) unsigned short tile[128];
  tile[threadIdx.x] = 0x3f80;
  proxy_fence();
  __syncthreads();
  const u32 ones[4] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};
  const u64 descriptor = u64{addr(tile) / 16} | u64{128 / 16} << 16;
  float first[4] = {1, 1, 1, 1}, second[4] = {2, 2, 2, 2};
  wgmma_fence();
  multiply(first, ones, descriptor, 1);
  commit();
  multiply(second, ones, descriptor, 1);
  commit();
  wait_group<1>();
  for (float& x : first) hold(x);
  for (int i = 0; i < 4; ++i) args.output[threadIdx.x * 4 + i] = first[i];
  wait_group<0>();
  for (float& x : second) hold(x);
  for (int i = 0; i < 4; ++i) args.output[threadIdx.x * 4 + i] += second[i];
}
)cuda";

constexpr std::size_t kResults = 512;

struct Arguments {
  float* output;
  int tiles;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (from.empty()) return text;
  EXPECT_NE(text.find(from), std::string::npos) << from;
  return text.replace(text.find(from), from.size(), to);
}

std::vector<float> run_kernel(const std::string& text, const char* entry, std::uint32_t threads, int tiles) {
  codegen::KernelSource source;
  source.descriptor = entry;
  source.template_name = "wgmma.cu";
  source.template_text = text;
  source.target = "sm_90a";
  source.entry_point = entry;
  const auto program = runtime::cpu::load_program(runtime::ptx::PtxCompiler::instance()->compile(source, true), entry);
  std::vector<float> output(kResults, -1);
  const Arguments arguments{output.data(), tiles};
  runtime::cpu::execute(
      *program, {.block = {threads, 1, 1}, .parameters = std::as_bytes(std::span(&arguments, 1)), .check = true});
  return output;
}

constexpr int kTiles = 5;

/// The same kernels with wgmma of e4m3 ones: K = 32 · tiles.
std::string of_bytes() {
  std::string text = replaced(kTemplate, "m64n8k16.f32.bf16.bf16", "m64n8k32.f32.e4m3.e4m3");
  text = replaced(text, "p, 1, 1, 0;", "p, 1, 1;");
  text = replaced(text, "= 0x3f80;", "= 0x3838;");
  for (int i = 0; i < 2; ++i)
    text = replaced(text, "{0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80}",
                    "{0x38383838, 0x38383838, 0x38383838, 0x38383838}");
  return text;
}

std::vector<float> run_product(const std::string& from = "", const std::string& to = "") {
  return run_kernel(replaced(kTemplate, from, to), "product", 160, kTiles);
}

std::vector<float> run_two_groups(const std::string& from = "", const std::string& to = "") {
  return run_kernel(replaced(kTemplate, from, to), "two_groups", 128, 0);
}

template <class Run>
std::string failure_of_run(Run run) {
  try {
    run();
  } catch (const Failure& failure) {
    return failure.rule();
  }
  return "";
}

std::string failure_of_product(const std::string& from, const std::string& to) {
  return failure_of_run([&] { run_product(from, to); });
}

class WgmmaAsync : public ::testing::Test {
 protected:
  void SetUp() override {
    if (runtime::ptx::PtxCompiler::instance() == nullptr) GTEST_SKIP() << "no NVRTC";
  }
};

TEST_F(WgmmaAsync, SumsTilesOfAPipeline) {
  for (const float x : run_product()) ASSERT_EQ(x, 16.f * kTiles);
}

TEST_F(WgmmaAsync, WaitsGroupByGroup) {
  for (const float x : run_two_groups()) ASSERT_EQ(x, 16.f + 1 + 16 + 2);
}

TEST_F(WgmmaAsync, AccumulatorsAreReadAfterTheWaitOnly) {
  const std::string rule = "an accumulator is read while the wgmma.mma_async that writes it is in flight";
  EXPECT_THAT(failure_of_product("wait_group<0>();\n    arrive", "arrive"),
              HasSubstr(rule + ": its group is committed, and no wgmma.wait_group covers it; st.global"));
  EXPECT_THAT(failure_of_product("    commit();\n", ""), HasSubstr(rule + ": its group is not committed"));
  EXPECT_THAT(failure_of_run([] { run_two_groups("wait_group<1>", "wait_group<2>"); }), HasSubstr(rule));
  EXPECT_THAT(
      failure_of_run([] { run_two_groups("wait_group<0>();\n  for (float& x : second", "for (float& x : second"); }),
      HasSubstr(rule));
}

/// hold() keeps the compiler from moving arithmetic on accumulators before the wait.
TEST_F(WgmmaAsync, TheFirstProductComesAfterAFence) {
  EXPECT_THAT(failure_of_product("    wgmma_fence();\n", ""),
              HasSubstr("there is no wgmma.fence before the warp's first wgmma.mma_async"));
}

TEST_F(WgmmaAsync, WhatThreadsWroteIsFencedForTheOtherProxy) {
  EXPECT_THAT(failure_of_product("      proxy_fence();\n", ""),
              HasSubstr("is used by wgmma without a fence.proxy.async after the write by warp 4"));
}

TEST_F(WgmmaAsync, SharedMemoryIsReadUntilTheWait) {
  EXPECT_THAT(failure_of_product("wait_group<0>();\n    arrive(&empty[i & 1]);",
                                 "arrive(&empty[i & 1]);\n    wait_group<0>();"),
              HasSubstr("race in shared memory"));
}

TEST_F(WgmmaAsync, TilesAreWaitedFor) {
  EXPECT_THAT(failure_of_product("    wait(&full[i & 1], i >> 1 & 1);\n", ""), HasSubstr("after the write by warp 4"));
}

// ---- the same with bytes ----

TEST_F(WgmmaAsync, SumsTilesOfBytes) {
  for (const float x : run_kernel(of_bytes(), "product", 160, kTiles)) ASSERT_EQ(x, 32.f * kTiles);
}

TEST_F(WgmmaAsync, WatchesTilesOfBytes) {
  const auto failure = [](const std::string& from, const std::string& to) {
    return failure_of_run([&] { run_kernel(replaced(of_bytes(), from, to), "product", 160, kTiles); });
  };
  EXPECT_THAT(failure("wait_group<0>();\n    arrive", "arrive"), HasSubstr("an accumulator is read while"));
  EXPECT_THAT(failure("    wgmma_fence();\n", ""), HasSubstr("there is no wgmma.fence"));
  EXPECT_THAT(failure("      proxy_fence();\n", ""), HasSubstr("is used by wgmma without a fence.proxy.async"));
  EXPECT_THAT(failure("wait_group<0>();\n    arrive(&empty[i & 1]);", "arrive(&empty[i & 1]);\n    wait_group<0>();"),
              HasSubstr("race in shared memory"));
}

}  // namespace
}  // namespace cubit::tests
