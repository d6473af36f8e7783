// The argument struct of a launch in the size that this library knows, whatever size the caller was compiled with.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ops/operator.hpp"

namespace cubit::ops {

/// The largest size of an argument struct that is accepted from a newer caller. A larger size is not a size.
inline constexpr std::size_t kMostArgumentBytes = 4096;

/// A view of the caller's argument struct. The caller's `size` decides:
///   - the size that this library knows: the view is the caller's struct;
///   - a smaller size, from an older caller: the view is a copy whose missing members are zero, which is their default;
///   - a larger size, from a newer caller: the view is a copy of the known members if all bytes behind them are zero.
/// For any other size the view is the caller's struct, and the checks of the operator refuse its size. The view
/// allocates nothing and lives as long as this object and the caller's struct.
class KnownArguments {
 public:
  /// `known`: sizeof the operator's struct, at most kMostRepeatableBytes and a multiple of 8.
  KnownArguments(const void* given, std::size_t known) : view_(given) {
    if (given == nullptr) return;
    const std::size_t size = *static_cast<const std::size_t*>(given);
    if (size != known) [[unlikely]] {
      copy(given, size, known);
    }
  }
  KnownArguments(const KnownArguments&) = delete;
  KnownArguments& operator=(const KnownArguments&) = delete;

  const void* get() const { return view_; }

 private:
  void copy(const void* given, std::size_t size, std::size_t known) {
    if (size <= sizeof(std::size_t) || size % sizeof(std::size_t) != 0 || size > kMostArgumentBytes) return;
    const std::span bytes(static_cast<const std::byte*>(given), size);
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (size > known && !std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(known), bytes.end(), is_zero)) return;
    copy_.fill(std::byte{0});
    std::memcpy(copy_.data(), given, std::min(size, known));
    std::memcpy(copy_.data(), &known, sizeof known);  // the member `size`
    view_ = copy_.data();
  }

  const void* view_;
  alignas(std::uint64_t) std::array<std::byte, kMostRepeatableBytes> copy_;  // written only where it is the view
};

}  // namespace cubit::ops
