// kv_append and kv_gather over tensors whose strides are all different: keys and values that lie side by side in one
// tensor of a projection, caches in another order of dimensions, padded rows, tokens in reverse. bf16 rows are copied
// as they are, so what must be where is plain; what lies between the rows stays. Skipped where there is no NVRTC.
#include <cubit/kv_append.h>
#include <cubit/kv_gather.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

constexpr int kBatch = 3;
constexpr int kTokens = 5;
constexpr int kHeads = 2;
constexpr int kChannels = 64;
constexpr int kRoom = 9;
constexpr std::uint16_t kUntouched = 0x7a7a;

/// A tensor of rows, on the host: `first` is where row (0, 0, 0) begins.
struct Strided {
  std::array<std::int64_t, 3> strides;
  std::int64_t first;
  std::vector<std::uint16_t> host;

  Strided(std::array<std::int64_t, 3> by, std::int64_t at, std::size_t elements)
      : strides(by), first(at), host(elements, kUntouched) {}
  std::uint16_t* row(std::int64_t sequence, std::int64_t token, std::int64_t head) {
    return &host[first + sequence * strides[0] + token * strides[1] + head * strides[2]];
  }
  std::size_t bytes() const { return 2 * host.size(); }
};

class OnDevice {
 public:
  OnDevice(const Device& device, Strided& tensor)
      : tensor_(tensor), buffer_(device, tensor.bytes(), 0), device_(device) {
    device.upload(buffer_.data(), tensor.host.data(), tensor.bytes());
  }
  template <class Pointer>
  void give(Pointer& data, std::int64_t* strides) const {
    data = static_cast<std::uint16_t*>(buffer_.data()) + tensor_.first;
    std::copy(tensor_.strides.begin(), tensor_.strides.end(), strides);
  }
  void fetch() const {
    device_.download(tensor_.host.data(), buffer_.data(), tensor_.bytes());
    EXPECT_TRUE(buffer_.guards_intact());
  }

 private:
  Strided& tensor_;
  GuardedBuffer buffer_;
  Device device_;
};

std::uint16_t element(bool is_value, int sequence, int token, int head, int channel) {
  return static_cast<std::uint16_t>(0x3000 + is_value * 0x800 + ((sequence * kTokens + token) * kHeads + head) * 64 +
                                    channel);
}

/// Expects that every written row holds the expected values and that nothing else has changed.
void expect_rows(Strided& tensor, bool is_value, int first_token) {
  std::size_t changed = 0;
  for (const std::uint16_t x : tensor.host) changed += x != kUntouched;
  EXPECT_EQ(changed, kBatch * kTokens * kHeads * kChannels);
  for (int sequence = 0; sequence < kBatch; ++sequence)
    for (int token = 0; token < kTokens; ++token)
      for (int head = 0; head < kHeads; ++head)
        for (int channel = 0; channel < kChannels; ++channel)
          ASSERT_EQ(tensor.row(sequence, first_token + token, head)[channel],
                    element(is_value, sequence, token, head, channel))
              << sequence << " " << token << " " << head << " " << channel;
}

TEST(KvStrides, EveryTensorHasItsOwn) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Device device("cpu:sm_80");
  device.watch(CUBIT_WATCH_MEMORY);
  constexpr std::int64_t kFused = 4 * kHeads * kChannels;  // of a token: queries of twice the heads, keys, values
  Strided new_keys({kTokens * kFused, kFused, kChannels}, 2 * kHeads * kChannels, kBatch * kTokens * kFused);
  Strided new_values({-kTokens * kFused, kFused, kChannels}, (kBatch - 1) * kTokens * kFused + 3 * kHeads * kChannels,
                     kBatch * kTokens * kFused);
  for (int sequence = 0; sequence < kBatch; ++sequence)
    for (int token = 0; token < kTokens; ++token)
      for (int head = 0; head < kHeads; ++head)
        for (int channel = 0; channel < kChannels; ++channel) {
          new_keys.row(sequence, token, head)[channel] = element(false, sequence, token, head, channel);
          new_values.row(sequence, token, head)[channel] = element(true, sequence, token, head, channel);
        }
  // Keys [head, token, sequence] with rows of 72; values [token, sequence, head], the tokens in reverse.
  Strided keys({72, kBatch * 72, kRoom * kBatch * 72}, 0, kHeads * kRoom * kBatch * 72);
  Strided values({kHeads * 80, -kBatch * kHeads * 80, 80}, (kRoom - 1) * kBatch * kHeads * 80,
                 kRoom * kBatch * kHeads * 80);

  const OnDevice given_keys(device, new_keys);
  const OnDevice given_values(device, new_values);
  const OnDevice key_cache(device, keys);
  const OnDevice value_cache(device, values);
  cubit_kv_append_arguments append{};
  append.size = sizeof append;
  given_keys.give(append.key, append.key_strides);
  given_values.give(append.value, append.value_strides);
  key_cache.give(append.cache.key, append.cache.key_strides);
  value_cache.give(append.cache.value, append.cache.value_strides);
  append.cache.kv_heads = kHeads;
  append.cache.max_length = kRoom;
  append.batch = kBatch;
  append.tokens = kTokens;
  const std::array<std::int32_t, kBatch> starts = {4, 4, 4};
  const GuardedBuffer lengths(device, sizeof starts, 0);
  device.upload(lengths.data(), starts.data(), sizeof starts);
  append.lengths = static_cast<const std::int32_t*>(lengths.data());
  engine().get("kv_append:head_dim=64", "cpu:sm_80").launch(append, {.device = &device});
  device.synchronise(nullptr);
  key_cache.fetch();
  value_cache.fetch();
  expect_rows(keys, false, 4);
  expect_rows(values, true, 4);

  Strided got_keys({kTokens * 160, 160, 80}, 0, kBatch * kTokens * 160);
  Strided got_values({kChannels, kBatch * kChannels, kTokens * kBatch * kChannels}, 0,
                     kHeads * kTokens * kBatch * kChannels);
  const OnDevice taken_keys(device, got_keys);
  const OnDevice taken_values(device, got_values);
  cubit_kv_gather_arguments gather{};
  gather.size = sizeof gather;
  taken_keys.give(gather.key, gather.key_strides);
  taken_values.give(gather.value, gather.value_strides);
  gather.cache = append.cache;
  gather.from = append.lengths;
  gather.batch = kBatch;
  gather.tokens = kTokens;
  engine().get("kv_gather:head_dim=64", "cpu:sm_80").launch(gather, {.device = &device});
  device.synchronise(nullptr);
  taken_keys.fetch();
  taken_values.fetch();
  expect_rows(got_keys, false, 0);
  expect_rows(got_values, true, 0);
}

}  // namespace
}  // namespace cubit::tests
