// Tests of repeated launches on fake GPUs: a repeated launch is not encoded again, and every input that a launch
// depends on is compared.
#include <cubit/gqa_decode.h>

#include <gmock/gmock.h>
#include <cubit/cubit.hpp>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/capi/allocations.hpp"
#include "tests/capi/prepared_cache.hpp"

namespace cubit {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kAttention = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
constexpr int kMaps = 2;  // tensor maps of keys and of values

class CapiRepeat : public ::testing::Test {
 protected:
  void SetUp() override {
    constexpr int kRow = 80;  // bytes
    arguments_.size = sizeof arguments_;
    arguments_.query = arguments_.output = query_;
    arguments_.key = rows_;
    arguments_.value = rows_ + 128;
    arguments_.query_strides[0] = arguments_.output_strides[0] = 8 * 128;
    arguments_.query_strides[1] = arguments_.output_strides[1] = 128;
    for (auto* strides : {&arguments_.key_strides, &arguments_.value_strides}) {
      (*strides)[0] = std::int64_t{8192} * kRow;
      (*strides)[1] = (*strides)[2] = kRow;
    }
    arguments_.batch = 4;
    arguments_.kv_heads = 1;
    arguments_.max_length = 8192;
    arguments_.softmax_scale = 0.1F;
    workspace_.resize(kernel_.workspace(arguments_, &device_) / sizeof workspace_[0] + 1);
  }

  LaunchOptions options() {
    return {.device = &device_, .workspace = workspace_.data(), .workspace_bytes = workspace_.size() * 256};
  }
  void launch() { kernel_.launch(arguments_, options()); }
  /// Launches twice, because a launch is remembered the second time.
  void make_known() {
    launch();
    launch();
  }
  fake::LaunchRecord last() { return driver_.launches().back(); }

  struct alignas(256) Unit {
    char bytes[256];
  };
  struct Machine {
    fake::PreparedCache cache;
    Machine() {
      fake::plug_in(2);
      cache.add(kAttention);
    }
    Engine engine() const {
      return Engine({.cache_dir = cache.path(), .nvrtc_path = fake::kNoCompiler, .compile = CUBIT_COMPILE_NEVER});
    }
  };
  Machine machine_;
  fake::Controls& driver_ = fake::controls();
  alignas(256) char query_[256] = {};
  alignas(256) char rows_[256] = {};
  std::vector<Unit> workspace_;
  Device device_{"cuda:0"};
  Kernel kernel_ = machine_.engine().get(kAttention, "sm_90a");
  cubit_gqa_decode_arguments arguments_{};
};

// Enough other caches to evict the launch's maps. Afterwards only a remembered launch needs no encoding.
TEST_F(CapiRepeat, TheSameLaunchIsMadeTwice) {
  constexpr int kOthers = 5000;
  make_known();
  EXPECT_EQ(driver_.encoded_maps(), kMaps);
  const fake::LaunchRecord first = last();
  const cubit_gqa_decode_arguments known = arguments_;
  for (int i = 1; i <= kOthers; ++i) {
    arguments_.key_strides[0] = arguments_.value_strides[0] = known.key_strides[0] + std::int64_t{80} * i;
    launch();
  }
  arguments_ = known;
  const int encoded = driver_.encoded_maps();
  EXPECT_EQ(encoded, kMaps + 2 * kOthers);
  launch();
  EXPECT_EQ(driver_.encoded_maps(), encoded);
  EXPECT_EQ(last().grid[0], first.grid[0]);
  EXPECT_EQ(last().shared_bytes, first.shared_bytes);
  EXPECT_EQ(last().first_parameter, first.first_parameter);
  arguments_.softmax_scale = 0.2F;  // this launch is new, and so are its maps
  launch();
  EXPECT_EQ(driver_.encoded_maps(), encoded + kMaps);
}

// A known launch skips argument checks, so each of these changes must lead to a new, checked launch.
TEST_F(CapiRepeat, EveryArgumentCounts) {
  make_known();
  const cubit_gqa_decode_arguments good = arguments_;
  const std::vector<std::function<void()>> changes = {[&] { arguments_.batch = -1; },
                                                      [&] { arguments_.kv_heads = -1; },
                                                      [&] { arguments_.max_length = -1; },
                                                      [&] { arguments_.splits = -1; },
                                                      [&] { arguments_.query = nullptr; },
                                                      [&] { arguments_.key = nullptr; },
                                                      [&] { arguments_.value = nullptr; },
                                                      [&] { arguments_.softmax_scale = 0; },
                                                      [&] { arguments_.output_strides[0] = 1; },
                                                      [&] { arguments_.window = 1; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    arguments_ = good;
    changes[i]();
    EXPECT_THROW(launch(), Error) << i;
  }
  EXPECT_THAT(driver_.launches(), SizeIs(2));
  arguments_ = good;
  arguments_.query = rows_;
  launch();
  EXPECT_EQ(last().first_parameter, static_cast<int>(reinterpret_cast<std::uintptr_t>(rows_)));
  const unsigned blocks = last().grid[0];
  arguments_.max_length = 256;
  launch();
  EXPECT_NE(last().grid[0], blocks);
}

// A cache stays at its place while outputs, scales and lengths change, so its tensor maps are encoded once.
TEST_F(CapiRepeat, MapsAreEncodedOnceForWhatTheyDescribe) {
  launch();
  int encoded = driver_.encoded_maps();
  const auto expect_new = [&](int maps, const char* change) {
    launch();
    EXPECT_EQ(driver_.encoded_maps() - encoded, maps) << change;
    encoded = driver_.encoded_maps();
  };
  arguments_.softmax_scale = 0.2F;
  expect_new(0, "scale");
  arguments_.output = rows_;
  expect_new(0, "output");
  arguments_.splits = 2;
  expect_new(0, "splits");
  arguments_.max_length = 8191;  // changes the rows per warp
  expect_new(kMaps, "length");
  arguments_.max_length = 8190;
  expect_new(0, "a length with the same number of rows per warp");
  arguments_.batch = 3;
  expect_new(kMaps, "batch");
  arguments_.key = rows_ + 16;
  expect_new(1, "key");
  std::swap(arguments_.key, arguments_.value);
  expect_new(0, "keys as values");
  arguments_.key_strides[0] += 80;
  expect_new(1, "stride");
}

TEST_F(CapiRepeat, OfAnotherDeviceOrThreadItIsMadeAnew) {
  make_known();
  const Device other("cuda:1");
  LaunchOptions there = options();
  there.device = &other;
  for (int i = 0; i < 3; ++i) kernel_.launch(arguments_, there);
  EXPECT_EQ(driver_.encoded_maps(), 2 * kMaps);
  std::thread([&] { launch(); }).join();
  EXPECT_EQ(driver_.encoded_maps(), 3 * kMaps);
  launch();
  EXPECT_EQ(driver_.encoded_maps(), 3 * kMaps);
}

TEST_F(CapiRepeat, OfAnotherKernelItIsMadeAnew) {
  make_known();
  kernel_ = machine_.engine().get(kAttention, "sm_90a");  // the previous kernel's address may be reused
  launch();
  EXPECT_EQ(driver_.loads(), 2);
}

TEST_F(CapiRepeat, WhatItIsGivenToWorkInIsCheckedEachTime) {
  make_known();
  LaunchOptions without = options();
  without.workspace = nullptr;
  without.workspace_bytes = 0;
  for (int i = 0; i < 2; ++i) EXPECT_THROW(kernel_.launch(arguments_, without), Error);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("workspace"));
  arguments_.key = rows_ + 1;
  for (int i = 0; i < 2; ++i) EXPECT_THROW(launch(), Error);
  arguments_.key = rows_;
  struct Newer {
    decltype(arguments_) known;
    std::uint64_t added = 1;  // a member that this library does not know, and not its default
  } newer{arguments_};
  newer.known.size = sizeof newer;
  EXPECT_THROW(kernel_.launch(newer.known, options()), Error);
  EXPECT_THAT(driver_.launches(), SizeIs(2));
}

TEST_F(CapiRepeat, StreamAndOverlapAreThoseOfEachLaunch) {
  make_known();
  LaunchOptions elsewhere = options();
  elsewhere.stream = device_.create_stream();
  elsewhere.overlap = true;
  kernel_.launch(arguments_, elsewhere);
  EXPECT_EQ(driver_.encoded_maps(), kMaps);
  EXPECT_EQ(static_cast<cubit_stream>(last().stream), elsewhere.stream);
  EXPECT_TRUE(last().overlap);
  launch();
  EXPECT_FALSE(last().overlap);
}

TEST_F(CapiRepeat, OnlyAThreadsFirstAllocates) {
  launch();
  const auto count = [&] {
    const LaunchOptions where = options();
    const cubit_launch raw{sizeof raw, device_.handle(), nullptr, where.workspace, where.workspace_bytes, 0};
    const tests::CountAllocations allocations;
    const cubit_status status = cubit_kernel_launch(kernel_.handle(), &arguments_, &raw);
    const int counted = allocations.count();
    EXPECT_EQ(status, CUBIT_OK);
    return counted;
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(count(), 0);
  arguments_.batch = 3;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(count(), 0);
}

TEST_F(CapiRepeat, NothingToDoIsNothingEachTime) {
  arguments_.batch = 0;
  for (int i = 0; i < 3; ++i) launch();
  EXPECT_THAT(driver_.launches(), SizeIs(0));
}

}  // namespace
}  // namespace cubit
