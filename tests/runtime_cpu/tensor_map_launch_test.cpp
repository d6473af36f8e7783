// Tests tensor maps from their description to the kernel. An NVRTC-compiled kernel takes the maps in its
// `__grid_constant__` argument struct and copies KV caches with interleaved heads, launched as operators launch.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/support/cpu_launches.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

constexpr int kHeads = 3;
constexpr int kTokens = 50;
constexpr int kTile = 32;  // tokens; the second tile ends beyond the caches
constexpr int kTiles = 2;
constexpr int kKeyRow = 80;     // int4_rows with 4 groups
constexpr int kValueRow = 128;  // swizzled

constexpr const char* kTemplate = R"cuda(
using u32 = unsigned; using u64 = unsigned long long;
constexpr int kTile = 32, kKeyRow = 80, kValueRow = 128;
struct alignas(128) Map { u64 opaque[16]; };
struct Args { Map key; Map value; unsigned char* output; int tiles; };
__device__ u32 addr(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
__device__ void load(void* dst, const Map& map, int head, int token, u64* bar) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
               :: "r"(addr(dst)), "l"(&map), "r"(0), "r"(head), "r"(token), "r"(addr(bar)) : "memory");
}
__device__ bool is_over(u64* bar, u32 parity) {
  u32 over;
  asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(over) : "r"(addr(bar)), "r"(parity) : "memory");
  return over;
}
extern "C" __global__ void __launch_bounds__(128) gather(const __grid_constant__ Args args) {
  __shared__ alignas(1024) unsigned char value[kTile * kValueRow];
  __shared__ alignas(128) unsigned char key[kTile * kKeyRow];
  __shared__ alignas(8) u64 full;
  const int head = blockIdx.x;
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&args.key) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(addr(&full)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  unsigned char* out = args.output + head * args.tiles * kTile * (kKeyRow + kValueRow);
  for (int tile = 0; tile < args.tiles; ++tile, out += kTile * (kKeyRow + kValueRow)) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                   :: "r"(addr(&full)), "r"(u32(sizeof key + sizeof value)) : "memory");
      load(key, args.key, head, tile * kTile, &full);
      load(value, args.value, head, tile * kTile, &full);
    }
    while (!is_over(&full, tile & 1)) {}
    for (int i = threadIdx.x; i < int(sizeof key); i += blockDim.x) out[i] = key[i];
    for (int i = threadIdx.x; i < int(sizeof value); i += blockDim.x) {
      const int row = i / kValueRow, column = i % kValueRow;
      out[sizeof key + i] = value[row * kValueRow + (column ^ (row % 8 * 16))];
    }
    __syncthreads();
  }
}
)cuda";

struct Arguments {
  runtime::EncodedTensorMap key;
  runtime::EncodedTensorMap value;
  void* output;
  int tiles;
};

codegen::KernelSource source() {
  codegen::KernelSource made;
  made.descriptor = "gather";
  made.template_name = "gather.cu";
  made.template_text = kTemplate;
  made.options = codegen::default_options();
  made.target = "sm_90a";
  made.entry_point = "gather";
  made.code = codegen::Code::ptx;
  return made;
}

/// [token][head][byte of the row]; all rows are different.
Bytes cache(int row_bytes) {
  Bytes bytes(static_cast<std::size_t>(kTokens * kHeads * row_bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(1 + (i * 0x9e3779b1u >> 13) % 255);
  return bytes;
}

/// What the kernel gathers: per head and tile, rows of keys and rows of values, with zeros after the last token.
Bytes gathered() {
  const Bytes caches[] = {cache(kKeyRow), cache(kValueRow)};
  Bytes result;
  for (int tile = 0; tile < kHeads * kTiles; ++tile) {
    for (const Bytes& from : caches) {
      const std::size_t row_bytes = from.size() / (kTokens * kHeads);
      for (int i = 0; i < kTile; ++i) {
        const int token = tile % kTiles * kTile + i;
        const auto row = from.begin() + (token * kHeads + tile / kTiles) * static_cast<std::ptrdiff_t>(row_bytes);
        token < kTokens ? result.insert(result.end(), row, row + static_cast<std::ptrdiff_t>(row_bytes))
                        : result.insert(result.end(), row_bytes, 0);
      }
    }
  }
  return result;
}

class TensorMapLaunch : public CpuLaunch {
 protected:
  void SetUp() override {
    CpuLaunch::SetUp();
    if (IsSkipped()) return;
    device_->watch({.memory = true});
    kernel_ = prepare(source());
    const Bytes keys = cache(kKeyRow);
    const Bytes values = cache(kValueRow);
    key_ = upload(keys.data(), keys.size());
    value_ = upload(values.data(), values.size());
    output_ = allocate(gathered().size());
  }

  Bytes output() {
    Bytes bytes(gathered().size());
    device_->copy_to_host(bytes.data(), output_, bytes.size(), nullptr);
    return bytes;
  }

  static runtime::TensorMap rows(const void* memory, unsigned row_bytes, runtime::TensorSwizzle swizzle) {
    return {.base = reinterpret_cast<std::uint64_t>(memory),
            .element_bytes = 1,
            .rank = 3,
            .sizes = {row_bytes, kHeads, kTokens},
            .strides = {row_bytes, row_bytes * kHeads},
            .box = {row_bytes, 1, kTile},
            .swizzle = swizzle};
  }
  ops::Launch launch() const {
    ops::Launch made;
    made.shape = {.grid = {kHeads, 1, 1}, .threads = 128};
    made.parameter_bytes = sizeof(Arguments);
    const Arguments arguments{{}, {}, output_, kTiles};
    std::memcpy(made.parameters.data(), &arguments, sizeof arguments);
    made.maps.add(offsetof(Arguments, key), rows(key_, kKeyRow, runtime::TensorSwizzle::none));
    made.maps.add(offsetof(Arguments, value), rows(value_, kValueRow, runtime::TensorSwizzle::span128));
    return made;
  }
  Failure failure_of(ops::Launch& made) {
    try {
      ops::encode_maps(*kernel_, *device_, made);
      ops::launch(*kernel_, *device_, made, false, nullptr);
    } catch (const Failure& failure) {
      return failure;
    }
    return {Status::ok, "", ""};
  }

  std::shared_ptr<runtime::Kernel> kernel_;
  void* key_ = nullptr;
  void* value_ = nullptr;
  void* output_ = nullptr;
};

TEST_F(TensorMapLaunch, GathersTheRowsOfEachHead) {
  ops::Launch made = launch();
  ops::encode_maps(*kernel_, *device_, made);
  ops::launch(*kernel_, *device_, made, false, nullptr);
  EXPECT_EQ(output(), gathered());
}

/// A captured launch keeps its maps.
TEST_F(TensorMapLaunch, IsReplayed) {
  runtime::Stream stream = device_->create_stream();
  device_->begin_capture(stream);
  {
    ops::Launch made = launch();
    ops::encode_maps(*kernel_, *device_, made);
    ops::launch(*kernel_, *device_, made, false, stream);
    made.parameters.fill(std::byte{0xff});
  }
  const auto graph = device_->end_capture(stream);
  EXPECT_NE(output(), gathered()) << "it ran before the replay";
  device_->replay(*graph, stream);
  EXPECT_EQ(output(), gathered());
  device_->destroy_stream(stream);
}

TEST_F(TensorMapLaunch, AMapThatWasNotGivenIsAnErrorInTheKernel) {
  ops::Launch made = launch();
  made.maps = {};
  EXPECT_THAT(failure_of(made).rule(),
              HasSubstr("at byte 0 of the kernel's parameters is no tensor map of the CPU device; prefetch.tensormap"));
}

TEST_F(TensorMapLaunch, AMapThatBreaksARuleIsRefusedBeforeTheLaunch) {
  ops::Launch made = launch();
  made.maps = {};
  made.maps.add(0, rows(static_cast<std::byte*>(key_) + 4, kKeyRow, runtime::TensorSwizzle::none));
  const Failure failure = failure_of(made);
  EXPECT_EQ(failure.status(), Status::invalid_argument);
  EXPECT_THAT(failure.rule(), HasSubstr("is not a multiple of 16"));
}

TEST_F(TensorMapLaunch, AMapIsWhollyInTheParametersAtAMultipleOf128) {
  for (const std::size_t offset : {std::size_t{64}, sizeof(Arguments), std::size_t{4096}}) {
    ops::Launch made = launch();
    made.maps.add(offset, rows(key_, kKeyRow, runtime::TensorSwizzle::none));
    const Failure failure = failure_of(made);
    EXPECT_EQ(failure.status(), Status::internal);
    EXPECT_THAT(failure.what(), HasSubstr("gather: a tensor map at byte " + std::to_string(offset) + " of " +
                                          std::to_string(sizeof(Arguments)) + " bytes"));
  }
}

}  // namespace
}  // namespace cubit::tests
