// Checks tensor maps against the rules of cuTensorMapEncodeTiled, and names them in messages.
#include "runtime/tensor_map.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

constexpr std::uint64_t kUnit = 16;
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 32;
constexpr std::uint64_t kStrideLimit = std::uint64_t{1} << 40;
constexpr std::uint32_t kMostOfBox = 256;
constexpr std::uint64_t kBoxLimit = std::uint64_t{1}
                                    << 20;  // tx-count limit; PTX ISA, "Size and alignment of mbarrier object"

bool is_one_of(int number, std::initializer_list<int> numbers) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

std::string broken_rule_of_dimension(const TensorMap& map, std::size_t i) {
  if (map.sizes[i] < 1 || map.sizes[i] > kMostElements)
    return fmt::format("dimension {} has {} elements, and not 1 to 2^32", i, map.sizes[i]);
  if (map.box[i] < 1 || map.box[i] > kMostOfBox)
    return fmt::format("its box has {} elements in dimension {}, and not 1 to {}", map.box[i], i, kMostOfBox);
  if (i == 0) return "";
  const std::uint64_t stride = map.strides[i - 1];
  if (stride % kUnit == 0 && stride < kStrideLimit) return "";
  return fmt::format("the stride of dimension {}, {} bytes, is not a multiple of {} below 2^40", i, stride, kUnit);
}

std::string broken_rule_of_box(const TensorMap& map) {
  if (map.box_bytes() >= kBoxLimit)
    return fmt::format("its box has {} bytes, and an mbarrier counts fewer than 2^20", map.box_bytes());
  if (map.row_bytes() % kUnit != 0)
    return fmt::format("a row of its box has {} bytes, which is not a multiple of {}", map.row_bytes(), kUnit);
  if (map.swizzle == TensorSwizzle::none) return "";
  const auto span = static_cast<std::uint64_t>(map.swizzle);
  if (span != 32 && span != 64 && span != 128)
    return fmt::format("a swizzle is within 32, 64 or 128 bytes, and not {}", span);
  // The driver accepts shorter rows, but no manual says where such rows lie in shared memory.
  if (map.row_bytes() == span) return "";
  return fmt::format("a row of its box has {} bytes, and a swizzle within {} bytes needs rows of exactly that size",
                     map.row_bytes(), span);
}

}  // namespace

std::uint64_t TensorMap::box_bytes() const {
  auto bytes = static_cast<std::uint64_t>(element_bytes);
  for (int i = 0; i < rank; ++i) bytes *= box[static_cast<std::size_t>(i)];
  return bytes;
}

std::string TensorMap::text() const {
  const auto dimensions = static_cast<std::ptrdiff_t>(std::clamp(rank, 0, kMostDimensions));
  return fmt::format("tensor map of {} elements of {} bytes at {:#x} in boxes of {}",
                     fmt::join(sizes.begin(), sizes.begin() + dimensions, " x "), element_bytes, base,
                     fmt::join(box.begin(), box.begin() + dimensions, " x "));
}

std::string broken_rule(const TensorMap& map) {
  if (map.rank < 1 || map.rank > TensorMap::kMostDimensions)
    return fmt::format("a tensor has 1 to {} dimensions, and not {}", TensorMap::kMostDimensions, map.rank);
  if (!is_one_of(map.element_bytes, {1, 2, 4, 8}))
    return fmt::format("an element has 1, 2, 4 or 8 bytes, and not {}", map.element_bytes);
  if (map.base % kUnit != 0) return fmt::format("its address {:#x} is not a multiple of {}", map.base, kUnit);
  for (int i = 0; i < map.rank; ++i) {
    if (std::string rule = broken_rule_of_dimension(map, static_cast<std::size_t>(i)); !rule.empty()) return rule;
  }
  if (!is_one_of(map.l2_bytes, {0, 64, 128, 256}))
    return fmt::format("the second-level cache fetches 64, 128 or 256 bytes, and not {}", map.l2_bytes);
  return broken_rule_of_box(map);
}

void validate(const TensorMap& map) {
  if (std::string rule = broken_rule(map); !rule.empty())
    throw Failure(Status::invalid_argument, map.text(), std::move(rule));
}

}  // namespace cubit::runtime
