// A small kernel with the structure of the sm_90 kernels: a producer warp fills a ring by bulk copies, consumer warps
// empty the ring, mbarriers synchronise both, and the result leaves by a bulk copy. Each mutant omits one step.
#pragma once

namespace cubit::tests {

/// Adds `tiles` tiles of 256 floats, element by element.
inline constexpr const char* kPipelineKernel = R"(// 3 warps: a producer, and two consumers of 4 floats per thread
struct Arguments {
  const float* input;
  float* output;
  int tiles;
};

constexpr int kStages = 2;
constexpr int kTileBytes = 1024;
constexpr int kConsumers = 2;

__device__ unsigned address_of(const void* pointer) { return static_cast<unsigned>(__cvta_generic_to_shared(pointer)); }

__device__ void wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ void produce(const Arguments& args, unsigned ring, unsigned full, unsigned empty) {
  if (threadIdx.x != 0) return;
  for (int tile = 0; tile < args.tiles; ++tile) {
    const int stage = tile % kStages;
    const unsigned phase = tile / kStages & 1;
    wait(empty + 8 * stage, phase ^ 1);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full + 8 * stage), "r"(kTileBytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     ring + stage * kTileBytes), "l"(args.input + tile * 256), "r"(kTileBytes), "r"(full + 8 * stage)
                 : "memory");
  }
}

__device__ float4 consume(const Arguments& args, const float4* ring, unsigned full, unsigned empty) {
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
  for (int tile = 0; tile < args.tiles; ++tile) {
    const int stage = tile % kStages;
    const unsigned phase = tile / kStages & 1;
    wait(full + 8 * stage, phase);
    const float4 value = ring[stage * kTileBytes / 16 + threadIdx.x - 32];
    sum.x += value.x;
    sum.y += value.y;
    sum.z += value.z;
    sum.w += value.w;
    __syncwarp();
    if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * stage) : "memory");
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(96) pipeline(const __grid_constant__ Arguments args) {
  __shared__ __align__(128) float4 ring[kStages * kTileBytes / 16];
  __shared__ __align__(128) float4 result[kTileBytes / 16];
  __shared__ unsigned long long full[kStages];
  __shared__ unsigned long long empty[kStages];
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address_of(full + stage)) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(empty + stage)), "r"(kConsumers) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x < 32) return produce(args, address_of(ring), address_of(full), address_of(empty));
  result[threadIdx.x - 32] = consume(args, ring, address_of(full), address_of(empty));
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync 1, 64;" ::: "memory");
  if (threadIdx.x != 32) return;
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(args.output), "r"(address_of(result)),
               "r"(kTileBytes) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
)";

}  // namespace cubit::tests
