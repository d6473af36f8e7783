// The tensor maps among the parameters of a launch: what each map describes and its offset in the parameters.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>

#include "runtime/tensor_map.hpp"

namespace cubit::ops {

/// A tensor map that is encoded when the launch is made for a device, because each device has its own encoding.
struct MapParameter {
  std::size_t offset = 0;  ///< in the argument struct, a multiple of 64
  runtime::TensorMap map;
};

/// Up to four tensor maps, stored in place. The storage stays uninitialised until a map is added, so that a launch
/// without maps costs only the initialisation of the count.
class MapParameters {
 public:
  static constexpr std::size_t kCapacity = 4;

  void add(std::size_t offset, const runtime::TensorMap& map) {
    if (count_ == kCapacity) throw std::length_error("a launch has room for four tensor maps");
    std::construct_at(reinterpret_cast<MapParameter*>(storage_) + count_, MapParameter{offset, map});
    ++count_;
  }
  std::span<const MapParameter> all() const {
    if (count_ == 0) return {};
    return {std::launder(reinterpret_cast<const MapParameter*>(storage_)), count_};
  }

 private:
  std::size_t count_ = 0;
  alignas(MapParameter) std::byte storage_[kCapacity * sizeof(MapParameter)];
};

}  // namespace cubit::ops
