// MapParameters keeps a launch's tensor maps in order, is copied with the launch, and refuses more than its capacity.
#include "ops/map_parameters.hpp"

#include <gtest/gtest.h>

namespace cubit::ops {
namespace {

TEST(MapParameters, AreKeptInOrder) {
  MapParameters maps;
  EXPECT_TRUE(maps.all().empty());
  for (std::size_t i = 0; i < MapParameters::kCapacity; ++i) maps.add(128 * i, {.base = 16 * i, .rank = 3});
  const MapParameters copy = maps;
  ASSERT_EQ(copy.all().size(), MapParameters::kCapacity);
  for (std::size_t i = 0; i < MapParameters::kCapacity; ++i) {
    EXPECT_EQ(copy.all()[i].offset, 128 * i);
    EXPECT_EQ(copy.all()[i].map, (runtime::TensorMap{.base = 16 * i, .rank = 3}));
  }
}

TEST(MapParameters, OneTooManyIsRefused) {
  MapParameters maps;
  for (std::size_t i = 0; i < MapParameters::kCapacity; ++i) maps.add(0, {});
  EXPECT_THROW(maps.add(0, {}), std::length_error);
}

}  // namespace
}  // namespace cubit::ops
