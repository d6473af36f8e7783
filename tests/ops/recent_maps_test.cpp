// RecentMaps remembers tensor maps for each device, and distinguishes maps by every member.
#include "ops/launch/recent_maps.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

namespace cubit::ops {
namespace {

constexpr std::uint64_t kDevice = 7;

runtime::TensorMap usual_map() {
  runtime::TensorMap map;
  map.base = 0x1000;
  map.element_bytes = 8;
  map.rank = 5;
  map.sizes = {16, 8, 32, 1, 4};
  map.strides = {128, 1024, 2048, 4096};
  map.box = {16, 8, 16, 1, 1};
  return map;
}

runtime::EncodedTensorMap numbered(int number) {
  runtime::EncodedTensorMap encoded{};
  std::memcpy(encoded.bytes.data(), &number, sizeof number);
  return encoded;
}

/// Whether a map was remembered; from now on it is. The returned encoding must have this number in any case.
bool is_known(RecentMaps& recent, std::uint64_t device, const runtime::TensorMap& map, int number) {
  bool known = true;
  const runtime::EncodedTensorMap& found = recent.find_or_encode(device, map, [&] {
    known = false;
    return numbered(number);
  });
  EXPECT_EQ(std::memcmp(found.bytes.data(), &number, sizeof number), 0) << number;
  return known;
}

TEST(RecentMaps, FindsWhatIsEqualInAll) {
  using runtime::TensorMap;
  std::vector<std::function<void(TensorMap&)>> changes = {
      [](TensorMap& map) { map.base += 16; }, [](TensorMap& map) { map.element_bytes = 4; },
      [](TensorMap& map) { map.rank = 4; }, [](TensorMap& map) { map.swizzle = runtime::TensorSwizzle::span128; },
      [](TensorMap& map) { map.l2_bytes = 128; }};
  for (std::size_t i = 0; i < TensorMap::kMostDimensions; ++i) {
    changes.emplace_back([i](TensorMap& map) { map.sizes[i] += std::uint64_t{1} << 33; });
    changes.emplace_back([i](TensorMap& map) { map.box[i] += 1; });
    if (i > 0) changes.emplace_back([i](TensorMap& map) { map.strides[i - 1] += 16; });
  }
  RecentMaps recent;
  EXPECT_FALSE(is_known(recent, kDevice, usual_map(), 1));
  EXPECT_TRUE(is_known(recent, kDevice, usual_map(), 1));
  EXPECT_FALSE(is_known(recent, kDevice + 1, usual_map(), 2));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    TensorMap map = usual_map();
    changes[i](map);
    EXPECT_FALSE(is_known(recent, kDevice, map, static_cast<int>(100 + i))) << i;
    EXPECT_TRUE(is_known(recent, kDevice, map, static_cast<int>(100 + i))) << i;
  }
  EXPECT_TRUE(is_known(recent, kDevice, usual_map(), 1));
}

TEST(RecentMaps, ForgetsWhatCanNotBeEncoded) {
  RecentMaps recent;
  const auto fails = []() -> runtime::EncodedTensorMap { throw std::runtime_error("no such map"); };
  for (int i = 0; i < 2; ++i) EXPECT_THROW(recent.find_or_encode(kDevice, usual_map(), fails), std::runtime_error);
  EXPECT_FALSE(is_known(recent, kDevice, usual_map(), 1));
}

// Repeats the maps of keys and values of a model's layers.
TEST(RecentMaps, KnowsAStepsMaps) {
  constexpr int kMaps = 2 * 80;
  RecentMaps recent;
  int known = 0;
  for (int step = 0; step < 20; ++step) {
    known = 0;
    for (int i = 0; i < kMaps; ++i) {
      runtime::TensorMap map = usual_map();
      map.base += static_cast<std::uint64_t>(i) << 20;
      known += is_known(recent, kDevice, map, i) ? 1 : 0;
    }
  }
  EXPECT_GE(known, kMaps * 95 / 100);
}

}  // namespace
}  // namespace cubit::ops
