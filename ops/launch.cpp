// The one place where an operator's launch meets a device.
#include <fmt/format.h>

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

void launch(runtime::Kernel& kernel, runtime::Device& device, Launch& made, runtime::Stream stream) {
  encode_maps(kernel, device, made);
  kernel.launch(device, made.shape, std::span(made.parameters).first(made.parameter_bytes), stream);
}

}  // namespace cubit::ops
