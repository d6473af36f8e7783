// What gqa_decode promises on a GPU: every variant computes the reference, whatever the lengths, strides and data;
// launches may be captured, lengths may change between replays; the same inputs give the same bits.
#include <cubit/gqa_decode.hpp>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "tests/gpu/gpu_test.hpp"
#include "tests/gpu/long_cache.hpp"
#include "tests/support/gqa_descriptors.hpp"

namespace cubit::tests {
namespace {

const char* const kInt4 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
const std::vector<std::string> kFormats = {
    "gqa_decode:heads_per_kv=8",
    "gqa_decode:heads_per_kv=8,query=fp16",
    "gqa_decode:heads_per_kv=8,kv=fp16",
    "gqa_decode:heads_per_kv=8,kv=fp16,query=fp16",
    "gqa_decode:heads_per_kv=8,kv=fp16,query=fp16,output=fp16",
    "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,output=fp16",
    "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,scales=token,output=fp16",
    "gqa_decode:heads_per_kv=8,kv=int4_rows",
    "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=2",
    kInt4,
    "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=8,query=fp16",
    "gqa_decode:head_dim=64,heads_per_kv=4,kv=int4_rows,groups=4",
    "gqa_decode:heads_per_kv=8,kv=int8_split",
    "gqa_decode:heads_per_kv=8,kv=int8_split,groups=4,scales=group,scale_type=fp16",
    "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,scales=token",
    "gqa_decode:heads_per_kv=8,kv=fp8_e5m2,scales=tensor",
    "gqa_decode:heads_per_kv=8,cache=paged",
    "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,cache=paged",
    "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,cache=paged",
    "gqa_decode:heads_per_kv=8,query_tokens=4",
    "gqa_decode:heads_per_kv=64",
    "gqa_decode:head_dim=64,heads_per_kv=20,kv=fp16,query=fp16,cache=paged",
    "gqa_decode:head_dim=192,heads_per_kv=20,query_tokens=3",
    "gqa_decode:heads_per_kv=3,query_tokens=5,mask=tree",
    "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,query_tokens=4,mask=tree",
    "gqa_decode:heads_per_kv=2,kv=fp8_e4m3,cache=paged,query_tokens=16,mask=tree",
    "gqa_decode:heads_per_kv=8,value=int4_rows,value_groups=4",
    "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,value=int4_rows,value_groups=4",
    "gqa_decode:heads_per_kv=8,kv=int8_split,value=fp8_e4m3,value_scales=token,cache=paged",
    "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,value=int8_split,query_tokens=4",
    "gqa_decode:head_dim=192,heads_per_kv=8,value_dim=128",
    "gqa_decode:head_dim=192,heads_per_kv=8,kv=fp8_e4m3,value_dim=128,value=int4_rows,value_groups=4,cache=paged",
};

bool has_plan(const std::string& text, const std::string& architecture) {
  try {
    explain(text, architecture);
    return true;
  } catch (const Error& error) {
    if (error.code() != CUBIT_INVALID_ARGUMENT && error.code() != CUBIT_UNSUPPORTED) throw;
    return false;
  }
}

/// Each text for each family that takes it and that the architecture runs; of CUBIT_TEST_FAMILY alone where that is
/// set.
std::vector<std::string> of_every_family(const std::vector<std::string>& given, const std::string& architecture) {
  const char* const only = std::getenv("CUBIT_TEST_FAMILY");
  std::vector<std::string> texts;
  for (const std::string family : {"sm75", "sm80", "sm90"}) {
    if (only != nullptr && family != only) continue;
    for (const std::string& text : given) {
      const std::string named = text + (text.find(':') == std::string::npos ? ":" : ",") + "family=" + family;
      if (has_plan(named, architecture)) texts.push_back(named);
    }
  }
  return texts;
}

std::vector<std::string> texts_of(const std::vector<GqaDecode>& descriptors) {
  std::vector<std::string> texts;
  for (const GqaDecode& descriptor : descriptors) texts.push_back(descriptor.text());
  return texts;
}

const std::vector<std::string> kPaged = {
    "gqa_decode:heads_per_kv=8,cache=paged",
    "gqa_decode:head_dim=64,heads_per_kv=4,cache=paged",
    "gqa_decode:head_dim=192,heads_per_kv=8,cache=paged",
    "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,cache=paged",
    "gqa_decode:head_dim=256,heads_per_kv=8,kv=int4_rows,groups=8,cache=paged",
    "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,cache=paged",
    "gqa_decode:heads_per_kv=8,kv=int8_split,scales=group,groups=4,cache=paged",
};
struct LongFormat {
  const char* text;
  std::int64_t row_bytes;
  std::int64_t element;
};
constexpr LongFormat kLongFormats[] = {{"gqa_decode:heads_per_kv=2", 256, 2},
                                       {"gqa_decode:heads_per_kv=2,kv=int4_rows,groups=4", 80, 1}};
/// Rows that are padded to a multiple of 16 bytes, for kernels of that alignment.
struct PitchedFormat {
  const char* text;
  std::size_t pitch;

  std::string kernel() const { return std::string(text) + ",alignment=16"; }
};
constexpr PitchedFormat kPitchedFormats[] = {{"gqa_decode:heads_per_kv=4,kv=int4_rows", 80},
                                             {"gqa_decode:heads_per_kv=4,kv=int4_rows,groups=2", 96},
                                             {"gqa_decode:heads_per_kv=4,kv=int4_rows,groups=4", 112},
                                             {"gqa_decode:heads_per_kv=4", 272},
                                             {"gqa_decode:head_dim=64,heads_per_kv=16,kv=fp16", 160}};
const std::vector<std::string> kReplayed = {kInt4, "gqa_decode:heads_per_kv=4,query_tokens=4",
                                            "gqa_decode:heads_per_kv=4,kv=int4_rows,groups=4,query_tokens=4,mask=tree"};
const std::vector<std::string> kReplayedClusters = {kInt4, "gqa_decode:heads_per_kv=8",
                                                    "gqa_decode:heads_per_kv=8,kv=fp8_e4m3"};
const char* const kNotPrepared = "gqa_decode:heads_per_kv=6,kv=fp16";
const std::vector<std::string> kStreamReads = {"stream_read", "stream_read:blocks_per_sm=2",
                                               "stream_read:blocks_per_sm=8"};

const SuiteKernels kPairKernels("GqaDecodePairsGpu", [](const std::string& architecture) {
  return of_every_family(texts_of(pairwise_gqa_descriptors(true)), architecture);
});
const SuiteKernels kKernels("GqaDecodeGpu", [](const std::string& architecture) {
  std::vector<std::string> named = texts_of(mixed_gqa_descriptors(true));
  named.insert(named.end(), kFormats.begin(), kFormats.end());
  named.insert(named.end(), kPaged.begin(), kPaged.end());
  std::vector<std::string> texts = kReplayed;
  texts.insert(texts.end(), kReplayedClusters.begin(), kReplayedClusters.end());
  texts.emplace_back(kNotPrepared);
  for (const LongFormat& format : kLongFormats) {
    for (const char* const cache : {"", ",cache=paged"}) named.push_back(std::string(format.text) + cache);
  }
  for (const PitchedFormat& format : kPitchedFormats) texts.push_back(format.kernel());
  const std::vector<std::string> of_families = of_every_family(named, architecture);
  texts.insert(texts.end(), of_families.begin(), of_families.end());
  return texts;
});
const SuiteKernels kStreamKernels("StreamReadGpu", [](const std::string&) { return kStreamReads; });

class GqaDecodeGpu : public GpuTest {
 protected:
  std::vector<std::string> of_every_family(const std::vector<std::string>& given) const {
    return tests::of_every_family(given, architecture());
  }
  void replay_with_changed_lengths(const std::string& text, const Problem::Numbers& sizes,
                                   const std::vector<std::vector<std::int32_t>>& lengths) const;
  static bool is_sm90(const std::string& text) { return text.find("family=sm90") != std::string::npos; }
};

/// In parts, which processes beside one another can run.
constexpr std::size_t kPairParts = 3;
class GqaDecodePairsGpu : public GqaDecodeGpu, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(GqaDecodePairsGpu, EveryPairOfFieldValues) {
  const std::vector<std::string> all = texts_of(pairwise_gqa_descriptors(true));
  std::vector<std::string> mine;
  for (std::size_t i = GetParam(); i < all.size(); i += kPairParts) mine.push_back(all[i]);
  std::atomic<std::size_t> kernels = 0;
  for_each_case(mine, [&](const std::string& text) {
    std::vector<std::string> texts = of_every_family({text});
    kernels += texts.size();
    expect_good(texts, {{"batch", 3}, {"context", 333}, {"kv_heads", 2}, {"ragged", 1}, {"lse", 1}});
    expect_good(texts, {{"batch", 2}, {"context", 1500}, {"kv_heads", 1}});
    expect_good(texts, {{"batch", 2}, {"context", 1500}, {"splits", 5}});
    std::erase_if(texts, [](const std::string& named) { return !is_sm90(named); });
    expect_good(texts, {{"batch", 2}, {"context", 700}, {"kv_heads", 8}});   // all KV heads in one block
    expect_good(texts, {{"batch", 2}, {"context", 700}, {"kv_heads", 16}});  // half of them
    expect_good(texts, {{"batch", 1}, {"context", 9000}, {"splits", 40}});   // merged by several blocks
    expect_good(texts, {{"batch", 3}, {"context", 1333}, {"ragged", 1}, {"splits", 16}});
    expect_good(texts, {{"batch", 300}, {"context", 200}, {"ragged", 1}, {"lse", 1}});  // several segments per block
    expect_good(texts, {{"batch", 60}, {"context", 1500}, {"ragged", 1}});              // shares that end anywhere
    expect_good(texts, {{"batch", 64}, {"context", 1500}, {"lse", 1}});                 // two blocks each, a cluster
    expect_good(texts, {{"batch", 200}, {"context", 500}});
  });
  ASSERT_GT(kernels, 0u);
  RecordProperty("kernels", static_cast<int>(kernels.load()));
  std::printf("%zu kernels, largest error %.2e\n", kernels.load(), worst());
}

INSTANTIATE_TEST_SUITE_P(Parts, GqaDecodePairsGpu, ::testing::Range(std::size_t{0}, kPairParts));

TEST_F(GqaDecodeGpu, ValuesStoredOtherwiseThanKeys) {
  std::atomic<std::size_t> kernels = 0;
  for_each_case(texts_of(mixed_gqa_descriptors(true)), [&](const std::string& text) {
    const std::vector<std::string> texts = of_every_family({text});
    kernels += texts.size();
    expect_good(texts, {{"batch", 3}, {"context", 333}, {"kv_heads", 2}, {"ragged", 1}, {"lse", 1}});
    expect_good(texts, {{"batch", 2}, {"context", 1500}, {"splits", 5}});
  });
  std::printf("%zu kernels, largest error %.2e\n", kernels.load(), worst());
}

TEST_F(GqaDecodeGpu, HardData) {
  for_each_case(kFormats, [&](const std::string& text) {
    const std::vector<std::string> texts = of_every_family({text});
    for (int pattern = 0; pattern < 6; ++pattern) {
      SCOPED_TRACE(pattern);
      const double ragged = expect_good(
          texts, {{"batch", 4}, {"context", 777}, {"kv_heads", 2}, {"ragged", 1}, {"lse", 1}, {"pattern", pattern}});
      const double alone = expect_good(texts, {{"batch", 1}, {"context", 5000}, {"pattern", pattern}});
      std::printf("%s, pattern %d: largest error %.2e\n", text.c_str(), pattern, std::max(ragged, alone));
    }
  });
}

/// Replaces a random problem's lengths.
Problem with_lengths(const Problem& source, const std::string& descriptor, std::vector<std::int32_t>& lengths,
                     const Problem::Numbers& numbers = {}) {
  std::vector<cubit_tensor> inputs = source.inputs();
  std::erase_if(inputs, [](const cubit_tensor& input) { return std::string(input.name) == "lengths"; });
  cubit_tensor tensor{};
  tensor.name = "lengths";
  tensor.type = "I32";
  tensor.rank = 1;
  tensor.shape[0] = static_cast<std::int64_t>(lengths.size());
  tensor.data = lengths.data();
  inputs.push_back(tensor);
  return Problem(descriptor, inputs, numbers);
}

TEST_F(GqaDecodeGpu, LengthsThatAreMultiplesOfNothing) {
  std::vector<std::int32_t> lengths = {0,  1,  2,  7,   8,   9,   15,  16,  17,  31, 33,
                                       63, 64, 65, 127, 128, 129, 255, 257, 511, 600};
  for_each_case(kFormats, [&](const std::string& text) {
    const Problem random = Problem::random(text, {{"batch", static_cast<double>(lengths.size())}, {"context", 600}}, 3);
    const Problem problem = with_lengths(random, text, lengths, {{"lse", 1}});
    expect_good_of(of_every_family({text}), problem);
  });
}

TEST_F(GqaDecodeGpu, OneTokenGivesThatTokensValue) {
  for_each_case(kFormats, [&](const std::string& text) {
    const std::vector<std::string> texts = of_every_family({text});
    expect_good(texts, {{"batch", 1}, {"context", 1}});
    expect_good(texts, {{"batch", 300}, {"context", 1}, {"kv_heads", 3}});
  });
}

TEST_F(GqaDecodeGpu, LongContextsAndManySplits) {
  for_each_case(kFormats, [&](const std::string& text) {
    const std::vector<std::string> texts = of_every_family({text});
    expect_good(texts, {{"batch", 1}, {"context", 70001}});
    expect_good(texts, {{"batch", 5}, {"context", 9000}, {"kv_heads", 4}, {"ragged", 1}, {"lse", 1}});
  });
}

/// A million tokens, alone and beside sequences of one and none. The tokens repeat 4096 different
/// tokens equally often, so that the reference computes 4096 tokens.
TEST_F(GqaDecodeGpu, AMillionTokensBeyondWhat32BitsCount) {
  constexpr std::int64_t kBlock = 1024;
  std::unique_ptr<const LongCache> cache;
  try {
    cache = std::make_unique<const LongCache>(device());
  } catch (const Error& error) {
    GTEST_SKIP() << "a cache of 8 GiB: " << error.what();
  }
  for (const auto& [format, row_bytes, element] : kLongFormats) {
    const std::size_t token_bytes = 8 * row_bytes;
    const Problem random = Problem::random(format, {{"batch", 3}, {"context", 4 * kBlock}, {"kv_heads", 8}}, 12);
    std::vector<cubit_tensor> inputs = random.inputs();  // query, keys, values
    auto* const keys = static_cast<char*>(inputs[1].data);
    auto* const values = static_cast<char*>(inputs[2].data);
    cache->fill(keys, values, kBlock, token_bytes);
    for (const bool is_paged : {false, true}) {
      // The second sequence's one token: the next, or the first of the last page.
      const std::int64_t other = is_paged ? 4 * kBlock - LongCache::kPageSize : 1;
      for (char* const rows : {keys, values})
        std::memcpy(rows + 4 * kBlock * token_bytes, rows + other * token_bytes, token_bytes);
      std::vector<std::int32_t> table = LongCache::pages();
      table.resize(3 * table.size(), -1);
      table[LongCache::kPages] = LongCache::kPages - 1;
      const Uploaded pages(device(), table);
      const Uploaded lengths(device(), {LongCache::kTokens, 1, 0});
      for (const int batch : {1, 3}) {
        for (cubit_tensor& input : inputs) input.shape[0] = batch;
        std::vector<std::int32_t> expected_lengths = {4 * kBlock, 1, 0};
        expected_lengths.resize(batch);
        inputs.push_back({"lengths", "I32", 1, {batch}, expected_lengths.data()});
        const Problem expected(format, inputs);
        inputs.pop_back();
        for (const std::string& text : of_every_family({std::string(format) + (is_paged ? ",cache=paged" : "")})) {
          SCOPED_TRACE(text + ", batch " + std::to_string(batch));
          DeviceCase launched(device(), expected);
          auto arguments = *static_cast<const cubit_gqa_decode_arguments*>(launched.arguments());
          arguments.key = cache->key();
          arguments.value = cache->value();
          LongCache::set_strides(arguments.key_strides, is_paged, row_bytes, element);
          LongCache::set_strides(arguments.value_strides, is_paged, row_bytes, element);
          arguments.max_length = LongCache::kTokens;
          arguments.lengths = batch == 1 ? nullptr : lengths.data();
          if (is_paged) {
            arguments.page_table = pages.data();
            arguments.page_table_stride = LongCache::kPages;
            arguments.page_size = LongCache::kPageSize;
          }
          const Kernel decode = kernel(text);
          launch_once(device(), decode, &arguments);
          launched.expect_guards_intact();
          const auto result = launched.compare(expected);
          EXPECT_LE(result.error, result.tolerance) << result.worst;
        }
      }
    }
  }
}

TEST_F(GqaDecodeGpu, RowsBeyondTheLengthAreNotRead) {
  for (const std::string& text : of_every_family(kFormats)) {
    if (text.find("cache=paged") != std::string::npos) continue;  // sequences have no rows of their own
    SCOPED_TRACE(text);
    std::vector<std::int32_t> lengths = {100, 37, 0, 256};
    const Problem random = Problem::random(text, {{"batch", 4}, {"context", 256}}, 9);
    const Problem problem = with_lengths(random, text, lengths);
    DeviceCase launched(device(), problem);
    // 0xff bytes are NaN as bf16, fp16 and fp16 scales: one of them read and used would be seen.
    for (std::size_t cache = 1; cache < problem.inputs().size(); ++cache) {  // of keys, values and their scales
      if (problem.inputs()[cache].rank < 2) continue;                        // lengths, or one scale for all
      auto host = launched.input(cache).download();
      const std::size_t row = host.size() / (4 * 256);
      for (std::size_t sequence = 0; sequence < 4; ++sequence) {
        const std::size_t first = (sequence * 256 + lengths[sequence]) * row;
        std::fill(host.begin() + first, host.begin() + (sequence + 1) * 256 * row, 0xff);
      }
      device().upload(launched.input(cache).data(), host.data(), host.size());
    }
    launch(kernel(text), launched);
    const auto result = launched.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }
}

TEST_F(GqaDecodeGpu, SameInputsSameBits) {
  for (const std::string& text : kFormats) {
    const Problem problem = Problem::random(text, {{"batch", 7}, {"context", 4097}, {"kv_heads", 2}}, 5);
    for (const std::string& named : of_every_family({text})) {
      SCOPED_TRACE(named);
      DeviceCase launched(device(), problem);
      launch(kernel(named), launched);
      const auto first = launched.output(0).download();
      for (int repeat = 0; repeat < 20; ++repeat) {
        launch(kernel(named), launched);
        ASSERT_EQ(first, launched.output(0).download());
      }
    }
  }
}

TEST_F(GqaDecodeGpu, OneWorkspaceServesAllShapes) {
  GuardedBuffer workspace(device(), 64 << 20, 0);
  for (const std::string& text : of_every_family({kInt4})) {
    const Kernel decode = kernel(text);
    for (const double batch : {1, 40, 3, 64, 17, 2, 90}) {
      const Problem problem = Problem::random(text, {{"batch", batch}, {"context", 2000}}, 6);
      DeviceCase launched(device(), problem);
      const void* arguments = launched.arguments();
      ASSERT_LE(decode.workspace(arguments, &device()), workspace.bytes());
      launch_with(decode, arguments, workspace);
      expect_counters_zero(workspace);
      const auto result = launched.compare(problem);
      EXPECT_LE(result.error, result.tolerance) << text << ": " << result.worst;
    }
  }
}

void GqaDecodeGpu::replay_with_changed_lengths(const std::string& text, const Problem::Numbers& sizes,
                                               const std::vector<std::vector<std::int32_t>>& lengths) const {
  SCOPED_TRACE(text);
  const Kernel decode = kernel(text);
  const Problem random = Problem::random(text, sizes, 8);
  std::vector<std::int32_t> first = lengths.front();
  const Problem problem = with_lengths(random, text, first);
  DeviceCase launched(device(), problem);
  const void* arguments = launched.arguments();
  GuardedBuffer workspace(device(), decode.workspace(arguments, &device()), 0);
  const cubit_stream stream = device().create_stream();
  const LaunchOptions options{&device(), stream, workspace.data(), workspace.bytes()};
  const Graph graph = device().capture(stream, [&] { decode.launch(arguments, options); });
  for (const std::vector<std::int32_t>& now : lengths) {
    std::vector<std::int32_t> copy = now;
    const Problem expected = with_lengths(random, text, copy);
    device().upload(launched.input(3).data(), now.data(), 4 * now.size(), stream);
    device().replay(graph, stream);
    const auto result = launched.compare(expected);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
    expect_counters_zero(workspace);
  }
  device().destroy_stream(stream);
}

TEST_F(GqaDecodeGpu, GraphReplaysWithChangedLengths) {
  for (const std::string& text : kReplayed) {
    replay_with_changed_lengths(text, {{"batch", 4}, {"context", 3000}, {"kv_heads", 2}},
                                {{3000, 1, 700, 2999}, {0, 3000, 65, 64}, {17, 0, 0, 0}, {2048, 2049, 2047, 1}});
  }
}

/// An H200 has as many clusters of two blocks as the test has sequences, and the lengths decide which clusters are
/// pairs. Other GPUs may have fewer clusters.
TEST_F(GqaDecodeGpu, GraphReplaysWhoseBlocksArePairsOrNot) {
  constexpr std::size_t kBatch = 64;
  const std::vector<std::int32_t> full(kBatch, 8192);
  std::vector<std::int32_t> one_is_long(kBatch, 1);
  one_is_long[17] = 8192;
  std::vector<std::int32_t> some_are_empty(kBatch, 8192);
  some_are_empty[0] = some_are_empty[63] = 0;
  std::vector<std::int32_t> ragged(kBatch);
  for (std::size_t i = 0; i < kBatch; ++i) ragged[i] = static_cast<std::int32_t>(129 * i + 1);
  for (const std::string& text : kReplayedClusters) {
    replay_with_changed_lengths(
        text, {{"batch", kBatch}, {"context", 8192}},
        {full, one_is_long, full, some_are_empty, std::vector<std::int32_t>(kBatch, 0), ragged, full});
  }
}

/// Boxes of whole stages and of a few rows, pages that no box fits, both orders of tokens and heads; KV heads that a
/// block takes alone, together and in part.
TEST_F(GqaDecodeGpu, PagesOfAllSizes) {
  constexpr int kPageSizes[] = {1, 7, 8, 16, 24, 32, 64, 256};
  std::size_t kernels = 0;
  for (const std::string& text : kPaged) {
    const std::vector<std::string> texts = of_every_family({text});
    kernels += texts.size();
    for_each_case(2 * std::size(kPageSizes), [&](std::size_t i) {
      const auto with = [&](Problem::Numbers numbers) {
        numbers.insert(numbers.end(), {{"page_size", kPageSizes[i / 2]}, {"hnd", static_cast<int>(i % 2)}});
        expect_good(texts, numbers);
      };
      with({{"batch", 3}, {"context", 1333}, {"kv_heads", 1}, {"ragged", 1}, {"lse", 1}});
      with({{"batch", 2}, {"context", 700}, {"kv_heads", 8}});
      with({{"batch", 40}, {"context", 600}, {"kv_heads", 2}, {"ragged", 1}});
    });
  }
  std::printf("%zu kernels, largest error %.2e\n", kernels, worst());
}

/// The same rows under other numbers: each sequence's pages are those of the next.
TEST_F(GqaDecodeGpu, GraphReplaysWithChangedPages) {
  constexpr std::size_t kBatch = 4;
  for (const std::string& text : of_every_family({"gqa_decode:heads_per_kv=8,cache=paged",
                                                  "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,cache=paged",
                                                  "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,cache=paged"})) {
    SCOPED_TRACE(text);
    const Kernel decode = kernel(text);
    const Problem random = Problem::random(text, {{"batch", kBatch}, {"context", 3000}, {"kv_heads", 2}}, 8);
    std::vector<cubit_tensor> inputs = random.inputs();
    const auto table = std::find_if(inputs.begin(), inputs.end(),
                                    [](const cubit_tensor& input) { return std::string(input.name) == "page_table"; });
    ASSERT_NE(table, inputs.end());
    const auto* first = static_cast<const std::int32_t*>(table->data);
    std::vector<std::int32_t> pages(first, first + kBatch * table->shape[1]);
    DeviceCase launched(device(), random);
    const void* arguments = launched.arguments();
    GuardedBuffer workspace(device(), decode.workspace(arguments, &device()), 0);
    const cubit_stream stream = device().create_stream();
    const LaunchOptions options{&device(), stream, workspace.data(), workspace.bytes()};
    const Graph graph = device().capture(stream, [&] { decode.launch(arguments, options); });
    for (std::size_t turn = 0; turn < kBatch; ++turn) {
      device().upload(launched.input(table - inputs.begin()).data(), pages.data(), 4 * pages.size(), stream);
      device().replay(graph, stream);
      table->data = pages.data();
      const auto result = launched.compare(Problem(text, inputs, {{"max_length", 3000}}));
      EXPECT_LE(result.error, result.tolerance) << result.worst;
      std::rotate(pages.begin(), pages.begin() + table->shape[1], pages.end());
    }
    device().destroy_stream(stream);
  }
}

TEST_F(GqaDecodeGpu, CaptureWithoutPrepareIsRefusedAndNothingBreaks) {
  const std::string text = kNotPrepared;
  const Engine fresh;
  const Kernel decode = fresh.get(text, architecture());
  const Problem problem = Problem::random(text, {{"batch", 2}, {"context", 500}}, 4);
  DeviceCase launched(device(), problem);
  const void* arguments = launched.arguments();
  GuardedBuffer workspace(device(), decode.workspace(arguments, &device()), 0);
  const cubit_stream stream = device().create_stream();
  const LaunchOptions options{&device(), stream, workspace.bytes() == 0 ? nullptr : workspace.data(),
                              workspace.bytes()};
  // The capture itself survives the refusal and can still take a prepared kernel.
  const Kernel prepared = kernel(text);
  const Graph graph = device().capture(stream, [&] {
    try {
      decode.launch(arguments, options);
      ADD_FAILURE() << "a kernel that was not prepared was launched during capture";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), CUBIT_NOT_RESIDENT) << error.what();
    }
    prepared.launch(arguments, options);
  });
  device().replay(graph, stream);
  EXPECT_TRUE(launched.compare(problem).good());
  decode.prepare(device());
  const Graph second = device().capture(stream, [&] { decode.launch(arguments, options); });
  device().replay(second, stream);
  EXPECT_TRUE(launched.compare(problem).good());
  device().destroy_stream(stream);
}

/// A typed launch over padded and permuted tensors: rows of `pitch` bytes, KV heads outermost, heads of the query
/// reversed.
void check_strided(const std::string& text, std::size_t pitch, const Device& device, const Kernel& decode) {
  SCOPED_TRACE(text);
  constexpr int kBatch = 2;
  constexpr int kTokens = 150;
  constexpr int kKvHeads = 3;
  const Problem problem = Problem::random(text, {{"batch", kBatch}, {"context", kTokens}, {"kv_heads", kKvHeads}}, 2);
  const auto inputs = problem.inputs();
  const std::size_t row = tensor_bytes(inputs[1]) / (kBatch * kTokens * kKvHeads);
  const std::size_t element = type_bytes(inputs[1].type);
  std::vector<std::unique_ptr<GuardedBuffer>> caches;
  for (const int which : {1, 2}) {
    std::vector<char> host(kBatch * kTokens * kKvHeads * pitch, '\x7f');
    for (std::size_t b = 0; b < kBatch; ++b) {
      for (std::size_t t = 0; t < kTokens; ++t) {
        for (std::size_t h = 0; h < kKvHeads; ++h) {
          std::memcpy(host.data() + ((h * kBatch + b) * kTokens + t) * pitch,
                      static_cast<const char*>(inputs[which].data) + ((b * kTokens + t) * kKvHeads + h) * row, row);
        }
      }
    }
    caches.push_back(std::make_unique<GuardedBuffer>(device, host.size(), 0));
    device.upload(caches.back()->data(), host.data(), host.size());
  }
  DeviceCase dense(device, problem);
  const cubit_tensor& query = inputs[0];
  cubit_gqa_decode_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.query = dense.input(0).data();
  arguments.key = caches[0]->data();
  arguments.value = caches[1]->data();
  arguments.output = dense.output(0).data();
  arguments.query_strides[0] = arguments.output_strides[0] = query.shape[1] * query.shape[2];
  arguments.query_strides[1] = arguments.output_strides[1] = query.shape[2];
  for (std::int64_t* strides : {arguments.key_strides, arguments.value_strides}) {
    strides[0] = static_cast<std::int64_t>(kTokens * pitch / element);
    strides[1] = static_cast<std::int64_t>(pitch / element);
    strides[2] = static_cast<std::int64_t>(kBatch * kTokens * pitch / element);
  }
  arguments.batch = kBatch;
  arguments.kv_heads = kKvHeads;
  arguments.max_length = kTokens;
  arguments.softmax_scale = 1 / std::sqrt(static_cast<float>(query.shape[2]));
  GuardedBuffer workspace(device, decode.workspace(arguments, &device), 0);
  decode.launch(arguments, {.device = &device,
                            .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                            .workspace_bytes = workspace.bytes()});
  device.synchronise();
  const auto result = dense.compare(problem);
  EXPECT_LE(result.error, result.tolerance) << result.worst;
  dense.expect_guards_intact();
}

TEST_F(GqaDecodeGpu, StridedAndPaddedCaches) {
  for (const PitchedFormat& one : kPitchedFormats) check_strided(one.text, one.pitch, device(), kernel(one.kernel()));
}

TEST_F(GqaDecodeGpu, NothingToDo) {
  const Kernel decode = kernel(kInt4);
  cubit_gqa_decode_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.kv_heads = 1;
  decode.launch(arguments, {.device = &device()});
  device().synchronise();
}

TEST_F(GqaDecodeGpu, BadArgumentsAreRefusedBeforeALaunch) {
  const Kernel decode = kernel(kInt4);
  const Problem problem = Problem::random(kInt4, {{"batch", 1}, {"context", 4096}}, 1);
  DeviceCase launched(device(), problem);
  const auto good = *static_cast<const cubit_gqa_decode_arguments*>(launched.arguments());
  GuardedBuffer workspace(device(), decode.workspace(good, &device()), 0);
  const LaunchOptions options{&device(), nullptr, workspace.data(), workspace.bytes()};
  const auto refused = [&](const char* sentence, auto change, LaunchOptions with) {
    cubit_gqa_decode_arguments bad = good;
    change(bad);
    try {
      decode.launch(bad, with);
      ADD_FAILURE() << "accepted: " << sentence;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
      EXPECT_NE(std::string(error.what()).find(sentence), std::string::npos) << error.what();
    }
  };
  refused(
      "not a finite number", [](auto& a) { a.softmax_scale = std::numeric_limits<float>::infinity(); }, options);
  refused(
      "not a finite number", [](auto& a) { a.softmax_scale = std::nanf(""); }, options);
  refused(
      "not a multiple of 16 bytes", [](auto& a) { a.key = static_cast<const char*>(a.key) + 8; }, options);
  refused(
      "not a multiple of 16 bytes", [](auto& a) { a.value_strides[1] = 84; }, options);
  refused(
      "must not be negative", [](auto& a) { a.max_length = -1; }, options);
  refused(
      "must be at least 1", [](auto& a) { a.kv_heads = 0; }, options);
  refused(
      "query = NULL", [](auto& a) { a.query = nullptr; }, options);
  refused(
      "this library's struct has", [](auto& a) { a.size = 8; }, options);
  refused("this launch needs", [](auto&) {}, {&device(), nullptr, workspace.data(), workspace.bytes() - 1});
  refused("not a multiple of 256 bytes", [](auto&) {},
          {&device(), nullptr, static_cast<char*>(workspace.data()) + 64, workspace.bytes()});
}

class StreamReadGpu : public GpuTest {};

TEST_F(StreamReadGpu, ReadsEveryWord) {
  for (const std::string& text : kStreamReads) {
    for (const double bytes : {16, 32, 4096, 1000000, 12345680, 80000000}) expect_good(text, {{"bytes", bytes}});
  }
}

}  // namespace
}  // namespace cubit::tests
