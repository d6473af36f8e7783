// gqa_decode over rows that are no multiple of 16 bytes in family sm90, on the CPU device: boxes where all rows, or
// those of a few KV heads, follow one another at multiples of 16 bytes; pieces elsewhere, and at a sequence's end.
// Lengths 0, 1, and one less and one more than stages; addresses and strides that are multiples of 4 or 8 only; keys
// that lie otherwise than values; windows, scores and query tokens; one batch entry, and such as share one cache.
// Skipped where there is no NVRTC.
#include <cubit/gqa_decode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

constexpr int kContext = 600;
constexpr char kBetween = '\x7f';  // bytes that are no row's

/// How a tensor of rows lies in memory, in bytes; 0: as dense ones do.
struct Lie {
  std::int64_t first = 0;     ///< from an address that is a multiple of 256
  std::int64_t token = 0;     ///< from token to token
  std::int64_t sequence = 0;  ///< more than its tokens take
  bool heads_outside = false;
  bool is_shared = false;  ///< by all batch entries: their stride is 0
};

const std::vector<std::int32_t> kLengths = {0,   1,   63,  64,  65,  127, 128, 129,
                                            255, 256, 257, 511, 512, 513, 599, kContext};

struct Variant {
  const char* text;
  int kv_heads;
  Lie keys;
  Lie values;
  Problem::Numbers numbers = {};  ///< the launch's numbers, such as window
  std::vector<std::int32_t> lengths = kLengths;
  std::int64_t query = 0;  ///< the query's address, from one that is a multiple of 256
};

std::array<std::int64_t, 3> strides_of(const Lie& lie, std::int64_t row, std::int64_t kv_heads) {
  const std::int64_t token = lie.token != 0 ? lie.token : lie.heads_outside ? row : row * kv_heads;
  const std::int64_t head = lie.heads_outside ? token * kContext : row;
  const std::int64_t sequence = (lie.heads_outside ? head * kv_heads : token * kContext) + lie.sequence;
  return {lie.is_shared ? 0 : sequence, token, head};
}

std::size_t bytes_of(const cubit_tensor& tensor, std::size_t element) {
  std::int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
  return static_cast<std::size_t>(count) * element;
}

/// Of dense rows, each batch entry's are the first one's.
std::vector<char> shared_by_all(const cubit_tensor& rows) {
  const std::size_t bytes = bytes_of(rows, 1);
  const std::size_t each = bytes / static_cast<std::size_t>(rows.shape[0]);
  const auto* first = static_cast<const char*>(rows.data);
  std::vector<char> all;
  while (all.size() < bytes) all.insert(all.end(), first, first + each);
  return all;
}

class UnalignedRows : public ::testing::TestWithParam<Variant> {};

TEST_P(UnalignedRows, LieAnywhere) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto& [text, kv_heads, keys, values, numbers, given_lengths, query] = GetParam();
  std::vector<std::int32_t> lengths = given_lengths;
  const auto batch = static_cast<std::int64_t>(lengths.size());
  const Problem random =
      Problem::random(text, {{"batch", static_cast<double>(batch)}, {"context", kContext}, {"kv_heads", kv_heads}}, 7);
  std::vector<cubit_tensor> inputs = random.inputs();
  std::array<std::vector<char>, 3> shared;
  for (const std::size_t which : {1, 2}) {
    if (!(which == 1 ? keys : values).is_shared) continue;
    shared[which] = shared_by_all(inputs[which]);
    inputs[which].data = shared[which].data();
  }
  inputs.push_back({"lengths", "I32", 1, {batch}, lengths.data()});
  Problem::Numbers with_lse = numbers;
  with_lse.emplace_back("lse", 1);
  const Problem problem(text, inputs, with_lse);

  const Device device("cpu:sm_90a");
  device.watch(CUBIT_WATCH_MEMORY);
  DeviceCase launched(device, problem);
  auto arguments = *static_cast<const cubit_gqa_decode_arguments*>(launched.arguments());
  std::vector<std::unique_ptr<GuardedBuffer>> caches;
  for (const std::size_t which : {1, 2}) {
    const Lie& lie = which == 1 ? keys : values;
    const std::int64_t row = inputs[which].shape[3];
    const auto [sequence, token, head] = strides_of(lie, row, kv_heads);
    const std::int64_t last = (batch - 1) * sequence + (kContext - 1) * token + (kv_heads - 1) * head;
    std::vector<char> host(static_cast<std::size_t>(lie.first + last + row), kBetween);
    const auto* dense = static_cast<const char*>(inputs[which].data);
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t < kContext; ++t)
        for (std::int64_t h = 0; h < kv_heads; ++h)
          std::memcpy(&host[static_cast<std::size_t>(lie.first + b * sequence + t * token + h * head)],
                      dense + ((b * kContext + t) * kv_heads + h) * row, static_cast<std::size_t>(row));
    caches.push_back(std::make_unique<GuardedBuffer>(device, host.size(), 0));
    device.upload(caches.back()->data(), host.data(), host.size());
    (which == 1 ? arguments.key : arguments.value) = static_cast<char*>(caches.back()->data()) + lie.first;
    std::int64_t* const strides = which == 1 ? arguments.key_strides : arguments.value_strides;
    strides[0] = sequence;
    strides[1] = token;
    strides[2] = head;
  }
  const std::size_t query_bytes = bytes_of(inputs[0], 2);
  const GuardedBuffer query_at(device, static_cast<std::size_t>(query) + query_bytes, 0);
  if (query > 0) {
    arguments.query = static_cast<char*>(query_at.data()) + query;
    device.upload(static_cast<char*>(query_at.data()) + query, inputs[0].data, query_bytes);
  }
  launch_once(device, engine().get(text, "cpu:sm_90a"), &arguments);
  const auto compared = launched.compare(problem);
  EXPECT_LE(compared.error, compared.tolerance) << compared.worst;
  launched.expect_guards_intact();
  for (const auto& cache : caches) EXPECT_TRUE(cache->guards_intact());
}

constexpr const char* kOne = "gqa_decode:heads_per_kv=8,kv=int4_rows,family=sm90";
constexpr const char* kTwo = "gqa_decode:heads_per_kv=3,kv=int4_rows,groups=2,family=sm90";

INSTANTIATE_TEST_SUITE_P(
    Caches, UnalignedRows,
    ::testing::Values(
        Variant{kOne, 1, {}, {}},                       // boxes of four tokens
        Variant{kOne, 2, {}, {}},                       // of two heads and two tokens
        Variant{kOne, 4, {}, {}},                       // of four heads
        Variant{kOne, 3, {}, {}},                       // pieces: a token has 204 bytes
        Variant{kOne, 8, {}, {}},                       // boxes of every second four heads
        Variant{kOne, 3, {.heads_outside = true}, {}},  // boxes of neither: of values there are none
        Variant{kOne, 4, {}, {.token = 288}},           // of values tokens lie apart
        Variant{kOne, 5, {.heads_outside = true}, {.heads_outside = true}}, Variant{kOne, 1, {.first = 4}, {}},
        Variant{kOne, 1, {}, {.first = 8}}, Variant{kOne, 1, {.sequence = 4}, {}},
        Variant{kOne, 1, {.sequence = 16}, {.first = 16, .sequence = 32}},
        Variant{kOne, 1, {.token = 80}, {.token = 80}},  // rows are padded
        Variant{kTwo, 1, {}, {}}, Variant{kTwo, 2, {}, {}}, Variant{kTwo, 3, {}, {}}, Variant{kTwo, 8, {}, {}},
        Variant{kTwo, 1, {.first = 8}, {}},
        Variant{"gqa_decode:head_dim=64,kv=int4_rows,query=fp16,family=sm90", 4, {}, {}},
        Variant{"gqa_decode:head_dim=96,heads_per_kv=5,kv=int4_rows,groups=2,family=sm90", 2, {}, {}},
        Variant{"gqa_decode:head_dim=192,heads_per_kv=9,kv=int4_rows,family=sm90", 8, {}, {}},
        Variant{"gqa_decode:head_dim=256,heads_per_kv=4,kv=int4_rows,groups=2,alignment=4,family=sm90", 4, {}, {}},
        Variant{"gqa_decode:heads_per_kv=20,kv=int4_rows,groups=2,family=sm90", 1, {}, {}}));

constexpr const char* kWindow = "gqa_decode:heads_per_kv=8,kv=int4_rows,family=sm90,window=true,sinks=true";
constexpr const char* kAlibi = "gqa_decode:heads_per_kv=8,kv=int4_rows,family=sm90,alibi=true";
constexpr const char* kTwoTokens = "gqa_decode:heads_per_kv=4,kv=int4_rows,family=sm90,query_tokens=2";
constexpr const char* kTokensInWindow =
    "gqa_decode:heads_per_kv=2,kv=int4_rows,groups=2,family=sm90,query_tokens=4,window=true,alibi=true";
const std::vector<std::int32_t> kFew = {0, 1, 3, 65, 255, 257, 511, kContext};

INSTANTIATE_TEST_SUITE_P(
    Scores, UnalignedRows,
    ::testing::Values(Variant{kWindow, 1, {}, {}, {{"window", 70}, {"kept_tokens", 3}}},
                      Variant{kWindow, 4, {}, {}, {{"window", 130}, {"kept_tokens", 65}}},       // whole stages between
                      Variant{kWindow, 3, {}, {}, {{"window", 300}, {"kept_tokens", 1}}, kFew},  // no boxes
                      Variant{kWindow, 1, {}, {.first = 4}, {{"window", 1}, {"kept_tokens", 0}}, kFew},
                      Variant{kWindow, 1, {}, {}, {{"window", 70}, {"kept_tokens", 3}, {"splits", 3}}, kFew},
                      Variant{kAlibi, 2, {}, {}, {}, kFew},
                      Variant{kAlibi, 8, {.heads_outside = true}, {.heads_outside = true}, {}, kFew},
                      Variant{kAlibi, 4, {.token = 304}, {.token = 272}, {}, kFew},
                      Variant{kTwoTokens, 1, {}, {}, {}, kFew},
                      Variant{kTwoTokens, 4, {.token = 304}, {}, {{"splits", 3}}, kFew},
                      Variant{"gqa_decode:heads_per_kv=2,kv=int4_rows,family=sm90,query_tokens=3", 3, {}, {}, {}, kFew},
                      Variant{kTokensInWindow, 2, {}, {}, {{"window", 301}, {"kept_tokens", 129}}},
                      Variant{kTokensInWindow, 1, {.first = 8}, {}, {{"window", 2}, {"kept_tokens", 511}}, kFew}));

INSTANTIATE_TEST_SUITE_P(
    Launches, UnalignedRows,
    ::testing::Values(
        Variant{kOne, 1, {.is_shared = true}, {.is_shared = true}, {}, {kContext}},  // one entry has no stride
        Variant{kOne, 4, {.is_shared = true}, {.is_shared = true}, {}, kFew},        // boxes want one
        Variant{kTwo, 1, {.is_shared = true}, {}, {}, kFew},                         // of keys alone
        Variant{kOne, 4, {}, {}, {}, kFew, 4}, Variant{kTwo, 2, {}, {}, {}, kFew, 8},
        Variant{kOne, 1, {}, {}, {{"splits", 4}}, kFew}, Variant{kOne, 3, {}, {}, {{"splits", 2}}, kFew, 4}));

}  // namespace
}  // namespace cubit::tests
