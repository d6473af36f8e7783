// Tests of the CPU device's memory and graphs through the public interface: failing allocations, frees and replays give
// one sentence and never a crash.
#include <gmock/gmock.h>
#include <cubit/cubit.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;

constexpr const char* kDevice = "cpu:sm_80";

TEST(CpuDeviceMemory, MoreThanThereIsIsRefused) {
  const Device device(kDevice);
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {kMost, kMost - 1, kMost - 254, kMost - 255, kMost / 2, kMost / 4}) {
    void* memory = &memory;
    EXPECT_EQ(cubit_device_allocate(device.handle(), bytes, &memory), CUBIT_DEVICE_ERROR) << bytes;
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(cubit_last_error()->message, std::to_string(bytes) +
                                               " bytes: the CPU device has no memory left; free memory, or use a "
                                               "smaller case");
  }
}

TEST(CpuDeviceMemory, OnlyWhatItAllocatedIsFreedAndOnlyOnce) {
  const Device device(kDevice);
  const Device other(kDevice);
  const auto refused = [](const Device& of, void* memory) {
    EXPECT_EQ(cubit_device_free(of.handle(), memory), CUBIT_INVALID_ARGUMENT);
    EXPECT_THAT(cubit_last_error()->message,
                HasSubstr("this is not memory of this CPU device, or it was freed before; give each pointer from "
                          "this device's cubit_device_allocate once"));
  };
  void* memory = nullptr;
  ASSERT_EQ(cubit_device_allocate(device.handle(), 1024, &memory), CUBIT_OK);
  refused(device, static_cast<char*>(memory) + 256);
  refused(other, memory);
  int own = 0;
  refused(device, &own);
  EXPECT_EQ(cubit_device_free(device.handle(), memory), CUBIT_OK);
  refused(device, memory);
  EXPECT_EQ(cubit_device_free(device.handle(), nullptr), CUBIT_OK);
}

/// Expects that every kind of copy of `bytes` bytes to or from `memory` is refused with `sentence`.
void expect_refused(const Device& device, void* memory, std::size_t bytes, cubit_stream stream,
                    const std::string& sentence) {
  std::vector<std::byte> host(std::min<std::size_t>(bytes, 1 << 21));
  for (const cubit_status status : {cubit_device_fill_zero(device.handle(), memory, bytes, stream),
                                    cubit_device_upload(device.handle(), memory, host.data(), bytes, stream),
                                    cubit_device_download(device.handle(), host.data(), memory, bytes, stream)}) {
    EXPECT_EQ(status, CUBIT_INVALID_ARGUMENT) << bytes;
    EXPECT_THAT(cubit_last_error()->message, HasSubstr(sentence));
  }
}

TEST(CpuDeviceMemory, CopiesBeyondAnAllocationAreRefused) {
  const Device device(kDevice);
  const Device other(kDevice);
  const Buffer buffer(device, 64);
  auto* const memory = static_cast<std::byte*>(buffer.data());
  constexpr const char* kBeyond = " bytes from this address on; give fewer bytes, or allocate more memory";
  expect_refused(device, memory, 4096, nullptr, std::string("the allocation of this CPU device has 64") + kBeyond);
  expect_refused(device, memory, 1 << 20, nullptr, std::string("the allocation of this CPU device has 64") + kBeyond);
  expect_refused(device, memory + 60, 5, nullptr, std::string("5 bytes at 0x"));
  constexpr const char* kForeign = "this is not memory of this CPU device, or it was freed before; give memory from";
  int own = 0;
  expect_refused(device, memory + 64, 1, nullptr, kForeign);
  expect_refused(device, &own, sizeof own, nullptr, kForeign);
  expect_refused(other, memory, 4, nullptr, kForeign);
  std::byte host[4] = {};
  EXPECT_EQ(cubit_device_upload(device.handle(), memory + 60, host, 4, nullptr), CUBIT_OK);
  EXPECT_EQ(cubit_device_upload(device.handle(), memory + 64, host, 0, nullptr), CUBIT_OK);
}

TEST(CpuDeviceMemory, ForeignStreamsAreRefused) {
  const Device device(kDevice);
  const Device other(kDevice);
  const Buffer buffer(device, 64);
  cubit_stream const of_other = other.create_stream();
  cubit_stream const destroyed = device.create_stream();
  device.destroy_stream(destroyed);
  int own = 0;
  for (cubit_stream const stream : {of_other, destroyed, static_cast<cubit_stream>(&own)}) {
    constexpr const char* kSentence = "this is not a stream of this CPU device, or it was destroyed before; give NULL";
    expect_refused(device, buffer.data(), 64, stream, kSentence);
    EXPECT_EQ(cubit_device_synchronise(device.handle(), stream), CUBIT_INVALID_ARGUMENT);
    EXPECT_EQ(cubit_stream_destroy(device.handle(), stream), CUBIT_INVALID_ARGUMENT);
    EXPECT_EQ(cubit_capture_begin(device.handle(), stream), CUBIT_INVALID_ARGUMENT);
    EXPECT_THAT(cubit_last_error()->message, HasSubstr(kSentence));
  }
  other.destroy_stream(of_other);
}

/// A kernel that reads slightly beyond an allocation must not find the next allocation there.
TEST(CpuDeviceMemory, AllocationsLieApart) {
  const Device device(kDevice);
  constexpr std::size_t kBytes = 1000;
  std::vector<Buffer> buffers;
  std::vector<std::uintptr_t> addresses;
  for (int i = 0; i < 64; ++i)
    addresses.push_back(reinterpret_cast<std::uintptr_t>(buffers.emplace_back(device, kBytes).data()));
  std::sort(addresses.begin(), addresses.end());
  for (std::size_t i = 1; i < addresses.size(); ++i)
    EXPECT_GE(addresses[i] - addresses[i - 1], kBytes + (1 << 20)) << i;
}

TEST(CpuDeviceGraph, MemoryThatWasFreedBeforeTheReplayIsRefused) {
  const Device device(kDevice);
  cubit_stream const stream = device.create_stream();
  auto memory = std::make_unique<Buffer>(device, 4);
  const Graph graph = device.capture(
      stream, [&] { ASSERT_EQ(cubit_device_fill_zero(device.handle(), memory->data(), 4, stream), CUBIT_OK); });
  memory.reset();
  EXPECT_EQ(cubit_graph_replay(device.handle(), graph.handle(), nullptr, nullptr), CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("or it was freed before"));
  device.destroy_stream(stream);
}

TEST(CpuDeviceGraph, IsReplayedByItsOwnDeviceOnly) {
  const Device device(kDevice);
  const Device other(kDevice);
  const Buffer memory(device, 4);
  cubit_stream const stream = device.create_stream();
  const Graph graph = device.capture(
      stream, [&] { ASSERT_EQ(cubit_device_fill_zero(device.handle(), memory.data(), 4, stream), CUBIT_OK); });
  EXPECT_EQ(cubit_graph_replay(other.handle(), graph.handle(), nullptr, nullptr), CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("give the device that captured the graph"));
  std::uint32_t word = 0;
  ASSERT_EQ(cubit_device_download(device.handle(), &word, memory.data(), 4, nullptr), CUBIT_OK);
  EXPECT_EQ(word, 0xffffffffU) << "nothing ran";
  EXPECT_NO_THROW(device.replay(graph, stream));
  ASSERT_EQ(cubit_device_download(device.handle(), &word, memory.data(), 4, nullptr), CUBIT_OK);
  EXPECT_EQ(word, 0U);
  device.destroy_stream(stream);
}

}  // namespace
}  // namespace cubit::tests
