// Tests of kernels written for Hopper and compiled by NVRTC: a pipeline of bulk copies and mbarriers, a sum over a
// cluster through distributed shared memory, and the reports for typical faults in them.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.hpp"
#include "tests/runtime_cpu/harness.hpp"
#include "tests/runtime_cpu/ptx/nvrtc_samples.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTemplate = R"cuda(
using u32 = unsigned; using u64 = unsigned long long;
__device__ u32 addr(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
__device__ void init(u64* b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(addr(b)), "r"(n) : "memory"); }
__device__ void arrive(u64* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(addr(b)) : "memory"); }
__device__ void expect(u64* b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(addr(b)), "r"(n) : "memory"); }
__device__ bool try_wait(u64* b, u32 parity) {
  u32 done;
  asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}\n" : "=r"(done) : "r"(addr(b)), "r"(parity) : "memory");
  return done;
}
__device__ void wait(u64* b, u32 parity) { while (!try_wait(b, parity)) {} }
__device__ void copy(void* dst, const void* src, u32 bytes, u64* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(addr(dst)), "l"(src), "r"(bytes), "r"(addr(b)) : "memory");
}
constexpr int kStages = 3, kTile = 256;
struct Args { const float* input; float* output; int tiles; };
extern "C" __global__ void __launch_bounds__(160) pipeline(const __grid_constant__ Args a) {
  __shared__ alignas(128) float tiles[kStages][kTile];
  __shared__ alignas(8) u64 full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) { init(&full[i], 1); init(&empty[i], 128); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 128) {
      for (int i = 0; i < a.tiles; ++i) {
        const int s = i % kStages;
        wait(&empty[s], (i / kStages & 1) ^ 1);
        expect(&full[s], sizeof tiles[s]);
        copy(tiles[s], a.input + i * kTile, sizeof tiles[s], &full[s]);
      }
    }
  } else {
    float sum = 0;
    for (int i = 0; i < a.tiles; ++i) {
      const int s = i % kStages;
      wait(&full[s], i / kStages & 1);
      sum += tiles[s][threadIdx.x] + tiles[s][threadIdx.x + 128];
      arrive(&empty[s]);
    }
    a.output[threadIdx.x] = sum;
  }
}
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(128) reduce(const __grid_constant__ Args a) {
  __shared__ float part[4];
  __shared__ float total;
  float x = a.input[blockIdx.x * 128 + threadIdx.x];
  for (int i = 16; i > 0; i >>= 1) x += __shfl_xor_sync(~0u, x, i);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) total = part[0] + part[1] + part[2] + part[3];
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x < 4) {
    u32 there; float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(addr(&total)), "r"(threadIdx.x));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
    v += __shfl_xor_sync(15, v, 1); v += __shfl_xor_sync(15, v, 2);
    if (threadIdx.x == 0) a.output[blockIdx.x] = v;
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
)cuda";

struct Arguments {
  const float* input;
  float* output;
  int tiles;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (from.empty()) return text;
  return text.replace(text.find(from), from.size(), to);
}

/// Compiles and runs `text`, and returns the kernel's output of `count` floats.
std::vector<float> run_kernel(const std::string& text, const char* entry, const std::vector<float>& input,
                              std::size_t count, std::uint32_t blocks, std::uint32_t threads, int tiles = 0) {
  codegen::KernelSource source;
  source.descriptor = entry;
  source.template_name = "hopper.cu";
  source.template_text = text;
  source.target = "sm_90a";
  source.entry_point = entry;
  const std::string ptx = runtime::ptx::PtxCompiler::instance()->compile(source, true);
  const auto program = runtime::cpu::load_program(ptx, entry);
  std::vector<float> output(count, -1);
  const auto aligned = runtime::cpu::allocate_aligned(input.size() * sizeof(float));
  std::memcpy(aligned.get(), input.data(), input.size() * sizeof(float));
  const Arguments arguments{reinterpret_cast<const float*>(aligned.get()), output.data(), tiles};
  runtime::cpu::execute(
      *program,
      {.grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .parameters = std::as_bytes(std::span(&arguments, 1))});
  return output;
}

class Hopper : public ::testing::Test {
 protected:
  void SetUp() override {
    if (runtime::ptx::PtxCompiler::instance() == nullptr) GTEST_SKIP() << "no NVRTC";
  }
};

constexpr int kTiles = 11;

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.f);
  return values;
}

std::vector<float> run_pipeline(const std::string& from = "", const std::string& to = "") {
  return run_kernel(replaced(kTemplate, from, to), "pipeline", counted(kTiles * 256), 128, 1, 160, kTiles);
}

std::string failure_of_pipeline(const std::string& from, const std::string& to) {
  try {
    run_pipeline(from, to);
  } catch (const Failure& failure) {
    return failure.rule();
  }
  return "";
}

TEST_F(Hopper, APipelineSumsItsTiles) {
  const std::vector<float> input = counted(kTiles * 256);
  const std::vector<float> output = run_pipeline();
  for (std::size_t i = 0; i < 128; ++i) {
    float sum = 0;
    for (std::size_t tile = 0; tile < kTiles; ++tile) sum += input[tile * 256 + i] + input[tile * 256 + i + 128];
    ASSERT_EQ(output[i], sum);
  }
}

/// A read before the wait finds memory that nothing has written.
TEST_F(Hopper, APipelineThatDoesNotWaitForItsTilesIsWrong) {
  const std::string wait = "wait(&full[s], i / kStages & 1);";
  const std::string sum = "sum += tiles[s][threadIdx.x] + tiles[s][threadIdx.x + 128];";
  EXPECT_TRUE(std::isnan(run_pipeline(wait + "\n      " + sum, sum + wait)[0]));
}

TEST_F(Hopper, FaultsOfAPipelineAreReported) {
  const std::string half =
      failure_of_pipeline("expect(&full[s], sizeof tiles[s]);", "expect(&full[s], 2 * sizeof tiles[s]);");
  EXPECT_THAT(half, HasSubstr("deadlock: warp 0 at mbarrier.try_wait.parity.shared::cta.b64"));
  EXPECT_THAT(half, HasSubstr("hopper.cu:"));
  EXPECT_THAT(half, HasSubstr("still needs 0 of 1 arrivals and 1024 bytes"));
  EXPECT_THAT(half, HasSubstr("still needs 128 of 128 arrivals and 0 bytes"));
  EXPECT_THAT(failure_of_pipeline("arrive(&empty[s]);", "if (threadIdx.x != 7) arrive(&empty[s]);"),
              HasSubstr("still needs 1 of 128 arrivals"));
  EXPECT_THAT(failure_of_pipeline("a.input + i * kTile, ", "a.input + i * kTile + 1, "),
              HasSubstr("of a bulk copy is not a multiple of 16; cp.async.bulk.shared::cluster.global"));
}

TEST_F(Hopper, AClusterAddsThroughItsSharedMemory) {
  const std::vector<float> input = counted(2 * 4 * 128);
  const std::vector<float> output = run_kernel(kTemplate, "reduce", input, 8, 8, 128);
  for (std::size_t block = 0; block < 8; ++block) {
    const auto first = input.begin() + static_cast<std::ptrdiff_t>(block / 4 * 512);
    EXPECT_EQ(output[block], std::accumulate(first, first + 512, 0.f));
  }
}

TEST_F(Hopper, AClusterWhoseBlocksLeaveTooEarlyIsAnError) {
  std::string text = kTemplate;
  text.erase(text.rfind("  asm volatile(\"barrier.cluster"));
  try {
    run_kernel(text + "}", "reduce", counted(512), 4, 4, 128);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.rule(), HasSubstr("which has ended; ld.shared::cluster.f32"));
  }
}

}  // namespace
}  // namespace cubit::tests
