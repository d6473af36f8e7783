// The one place where an operator's launch meets a device.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/error.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {
namespace {

void encode_maps(const runtime::Kernel& kernel, runtime::Device& device, Launch& made) {
  for (const MapParameter& item : made.maps.all()) {
    constexpr std::size_t kBytes = sizeof(runtime::EncodedTensorMap);
    const bool fits = made.parameter_bytes >= kBytes && item.offset <= made.parameter_bytes - kBytes;
    if (!fits || item.offset % alignof(runtime::EncodedTensorMap) != 0) {
      throw Failure(Status::internal, kernel.artifact().descriptor,
                    fmt::format("a tensor map at byte {} of {} bytes of parameters", item.offset, made.parameter_bytes),
                    fmt::format("it takes {} bytes at a multiple of {}", kBytes, alignof(runtime::EncodedTensorMap)));
    }
    const runtime::EncodedTensorMap encoded = device.encode(item.map);
    std::memcpy(made.parameters.data() + item.offset, encoded.bytes.data(), kBytes);
  }
}

}  // namespace

void Launch::spread_blocks(int blocks_per_sm, const runtime::DeviceFacts& device) {
  const codegen::Architecture& architecture = *device.architecture;
  const auto multiprocessors = static_cast<std::uint64_t>(device.multiprocessors);
  const std::uint64_t blocks = std::uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  const std::uint64_t share = (blocks + multiprocessors - 1) / multiprocessors;
  if (share >= static_cast<std::uint64_t>(blocks_per_sm)) return;
  const int unit = architecture.shared_memory_unit;
  const int each = architecture.shared_memory_per_sm / static_cast<int>(share) / unit * unit;
  overlap_shared_memory =
      static_cast<unsigned>(std::min(each - architecture.shared_memory_reserved, architecture.shared_memory_per_block));
}

void launch(runtime::Kernel& kernel, runtime::Device& device, Launch& made, runtime::Stream stream) {
  encode_maps(kernel, device, made);
  runtime::LaunchShape shape = made.shape;
  if (shape.overlap && made.overlap_shared_memory > 0) {
    // A user's device code may have static shared memory.
    const auto fixed = static_cast<unsigned>(kernel.artifact().resources.static_shared_memory);
    shape.dynamic_shared_memory = std::max(shape.dynamic_shared_memory, made.overlap_shared_memory - fixed);
  }
  kernel.launch(device, shape, std::span(made.parameters).first(made.parameter_bytes), stream);
}

}  // namespace cubit::ops
