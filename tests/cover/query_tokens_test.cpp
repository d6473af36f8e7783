// gqa_decode with several query tokens on the CPU device, where sequences are about as long as they are many: lengths
// 0, 1, one less and one more than the query tokens, at the ends of tiles and pages; masks and lengths that change
// between launches of one kernel; query and output whose strides are all different. Skipped where there is no NVRTC.
#include <cubit/gqa_decode.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

/// A random problem with other lengths, and where there is a mask another.
Problem with(const Problem& source, const std::string& descriptor, std::vector<std::int32_t>& lengths,
             std::vector<std::int32_t>* mask = nullptr) {
  std::vector<cubit_tensor> inputs = source.inputs();
  std::erase_if(inputs, [](const cubit_tensor& input) { return std::string(input.name) == "lengths"; });
  for (cubit_tensor& input : inputs) {
    if (mask != nullptr && std::string(input.name) == "mask") input.data = mask->data();
  }
  cubit_tensor tensor{};
  tensor.name = "lengths";
  tensor.type = "I32";
  tensor.rank = 1;
  tensor.shape[0] = static_cast<std::int64_t>(lengths.size());
  tensor.data = lengths.data();
  inputs.push_back(tensor);
  return Problem(descriptor, inputs, {{"lse", 1}});
}

void expect_good(const DeviceCase& launched, const Problem& problem) {
  launched.expect_guards_intact();
  const auto result = launched.compare(problem);
  EXPECT_LE(result.error, result.tolerance) << result.worst;
}

struct Variant {
  const char* text;
  int query_tokens;
  double page_size;  ///< 0: not in pages
};

class QueryTokens : public ::testing::TestWithParam<Variant> {};

TEST_P(QueryTokens, SequencesMayBeShorterAndEndAnywhere) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto& [text, tokens, page_size] = GetParam();
  std::vector<std::int32_t> lengths = {0,  1,           tokens - 1, tokens, tokens + 1, 15,         16,
                                       17, 16 + tokens, 63,         64,     65,         64 + tokens};
  const auto page = static_cast<int>(page_size);
  if (page > 0) lengths.insert(lengths.end(), {page - 1, page, page + 1, page + tokens - 1, 2 * page + 1});
  Problem::Numbers sizes = {{"batch", static_cast<double>(lengths.size())}, {"context", 90}, {"kv_heads", 2}};
  if (page > 0) sizes.emplace_back("page_size", page_size);
  const Problem problem = with(Problem::random(text, sizes, 5), text, lengths);
  const std::string architecture =
      std::string(text).find("family=sm90") == std::string::npos ? "cpu:sm_80" : "cpu:sm_90a";
  const Device device(architecture);
  device.watch(CUBIT_WATCH_MEMORY);
  const DeviceCase launched(device, problem);
  launch_once(device, engine().get(text, architecture), launched.arguments());
  expect_good(launched, problem);
}

INSTANTIATE_TEST_SUITE_P(
    Variants, QueryTokens,
    ::testing::Values(
        Variant{"gqa_decode:head_dim=64,heads_per_kv=2,query_tokens=4", 4, 0},
        Variant{"gqa_decode:head_dim=64,heads_per_kv=3,query_tokens=5,mask=tree", 5, 0},
        Variant{"gqa_decode:head_dim=64,heads_per_kv=5,kv=fp16,query_tokens=16,mask=tree", 16, 0},
        Variant{"gqa_decode:head_dim=64,heads_per_kv=9,kv=int4_rows,groups=4,query_tokens=7", 7, 0},
        Variant{"gqa_decode:head_dim=64,heads_per_kv=4,kv=fp8_e4m3,query_tokens=2,mask=tree", 2, 0},
        Variant{"gqa_decode:head_dim=64,kv=int4_rows,groups=4,cache=paged,query_tokens=6,mask=tree", 6, 16},
        Variant{"gqa_decode:head_dim=64,heads_per_kv=2,kv=int8_split,cache=paged,query_tokens=16", 16, 7},
        Variant{"gqa_decode:head_dim=64,heads_per_kv=2,cache=paged,query_tokens=3,mask=tree", 3, 24},
        Variant{"gqa_decode:head_dim=64,heads_per_kv=2,query_tokens=4,family=sm90", 4, 0},
        Variant{"gqa_decode:heads_per_kv=3,query_tokens=5,mask=tree,family=sm90", 5, 0},
        Variant{"gqa_decode:head_dim=64,heads_per_kv=5,kv=fp16,query_tokens=16,mask=tree,family=sm90", 16, 0},
        Variant{"gqa_decode:heads_per_kv=9,kv=int4_rows,groups=4,query_tokens=7,family=sm90", 7, 0},
        Variant{"gqa_decode:kv=int4_rows,groups=4,cache=paged,query_tokens=6,mask=tree,family=sm90", 6, 16},
        Variant{"gqa_decode:heads_per_kv=4,alibi=true,cache=paged,query_tokens=3,mask=tree,family=sm90", 3, 24}));

TEST(QueryTokensOfOneKernel, SeeOtherLengthsAndMasksFromLaunchToLaunch) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string text = "gqa_decode:head_dim=64,heads_per_kv=2,query_tokens=4,mask=tree";
  const Device device("cpu:sm_80");
  const Problem random = Problem::random(text, {{"batch", 3}, {"context", 90}, {"ragged", 1}, {"lse", 1}}, 6);
  DeviceCase launched(device, random);
  const Kernel kernel = engine().get(text, "cpu:sm_80");
  const auto index_of = [&](const std::string& name) {
    const auto inputs = random.inputs();
    const auto found =
        std::find_if(inputs.begin(), inputs.end(), [&](const cubit_tensor& input) { return input.name == name; });
    return static_cast<std::size_t>(found - inputs.begin());
  };
  // A chain, branches, one that sees nothing of the others, not even itself.
  std::vector<std::int32_t> masks[] = {{1, 3, 7, 15, 1, 3, 7, 15, 1, 3, 7, 15},
                                       {1, 2, 5, 10, 1, 3, 5, 9, 1, 3, 11, 7},
                                       {0, 0, 0, 0, 15, 15, 15, 15, -1, -16, 1 << 30, 8}};
  std::vector<std::int32_t> lengths[] = {{90, 4, 17}, {3, 64, 67}, {4, 2, 5}};
  for (std::size_t i = 0; i < std::size(masks); ++i) {
    device.upload(launched.input(index_of("mask")).data(), masks[i].data(), 4 * masks[i].size());
    device.upload(launched.input(index_of("lengths")).data(), lengths[i].data(), 4 * lengths[i].size());
    launch_once(device, kernel, launched.arguments());
    expect_good(launched, with(random, text, lengths[i], &masks[i]));
  }
}

/// Query and output as [query token, query head, sequence, channel], the rows of the output padded.
TEST(QueryTokensOfOneKernel, HaveStridesOfTheirOwn) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  constexpr int kBatch = 2;
  constexpr int kTokens = 3;
  constexpr int kHeads = 4;
  constexpr int kChannels = 64;
  constexpr int kPitch = kChannels + 8;
  const std::string text = "gqa_decode:head_dim=64,heads_per_kv=2,query_tokens=3";
  const Problem problem = Problem::random(text, {{"batch", kBatch}, {"context", 40}, {"kv_heads", 2}}, 7);
  const Device device("cpu:sm_80");
  const DeviceCase dense(device, problem);
  auto arguments = *static_cast<const cubit_gqa_decode_arguments*>(dense.arguments());
  const auto row_of = [](int batch, int token, int head) { return (token * kHeads + head) * kBatch + batch; };
  const auto* rows = static_cast<const std::uint16_t*>(problem.inputs()[0].data);
  std::vector<std::uint16_t> queries(std::size_t{kTokens} * kHeads * kBatch * kChannels);
  const auto for_rows = [&](auto body) {
    int dense_row = 0;
    for (int batch = 0; batch < kBatch; ++batch)
      for (int token = 0; token < kTokens; ++token)
        for (int head = 0; head < kHeads; ++head) body(dense_row++, row_of(batch, token, head));
  };
  for_rows([&](int from, int to) { std::copy_n(rows + from * kChannels, kChannels, &queries[to * kChannels]); });
  const GuardedBuffer query(device, 2 * queries.size(), 0);
  const GuardedBuffer output(device, std::size_t{2} * kTokens * kHeads * kBatch * kPitch, 0x7a);
  device.upload(query.data(), queries.data(), query.bytes());
  arguments.query = query.data();
  arguments.output = output.data();
  arguments.query_strides[0] = kChannels;
  arguments.query_strides[1] = kBatch * kChannels;
  arguments.query_token_stride = kHeads * kBatch * kChannels;
  arguments.output_strides[0] = kPitch;
  arguments.output_strides[1] = kBatch * kPitch;
  arguments.output_token_stride = kHeads * kBatch * kPitch;
  launch_once(device, engine().get(text, "cpu:sm_80"), &arguments);
  EXPECT_TRUE(output.guards_intact());
  const auto bytes = output.download();
  std::vector<std::uint16_t> got(std::size_t{kTokens} * kHeads * kBatch * kChannels);
  for_rows([&](int to, int from) {
    std::memcpy(&got[to * kChannels], bytes.data() + std::size_t{2} * from * kPitch, 2 * kChannels);
    for (int byte = 2 * kChannels; byte < 2 * kPitch; ++byte)
      ASSERT_EQ(bytes[std::size_t{2} * from * kPitch + byte], 0x7a) << "between rows";
  });
  const auto result = problem.compare(std::vector<const void*>{got.data()});
  EXPECT_LE(result.error, result.tolerance) << result.worst;
}

}  // namespace
}  // namespace cubit::tests
