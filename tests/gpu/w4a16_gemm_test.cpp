// What w4a16_gemm promises on a GPU: every format and function computes the reference, whatever the sizes and data;
// blocks that share k give the same bits at every launch; a launch may be captured.
#include <cubit/w4a16_gemm.hpp>

#include <algorithm>

#include "tests/gpu/gpu_test.hpp"
#include "tests/support/gemm_batch.hpp"
#include "tests/support/gemm_descriptors.hpp"

namespace cubit::tests {
namespace {

/// The first number behind all of these texts, each behind the one before.
int number_behind(const std::string& json, std::initializer_list<std::string_view> texts) {
  std::size_t at = 0;
  for (const std::string_view text : texts) at = json.find(text, at) + text.size();
  return std::stoi(json.substr(json.find_first_of("0123456789", at)));
}

/// Whether the architecture has the family that the descriptor names, if any, or that has its tiles.
bool has_family(const W4a16Gemm& descriptor, const std::string& architecture) {
  try {
    explain(descriptor.text(), architecture);
  } catch (const Error& error) {
    const bool has_any = descriptor.family == "auto" && descriptor.tile_m <= 64 && !descriptor.is_dense() &&
                         (descriptor.tile_n <= 64 || descriptor.tile_n == 256);
    if (error.code() != CUBIT_UNSUPPORTED || has_any) throw;
    return false;
  }
  return true;
}

std::vector<W4a16Gemm> pairwise_descriptors_for(const std::string& architecture) {
  std::vector<W4a16Gemm> descriptors = pairwise_gemm_descriptors();
  std::erase_if(descriptors, [&](const W4a16Gemm& descriptor) { return !has_family(descriptor, architecture); });
  return descriptors;
}

const std::vector<std::string> kFormats = {
    "w4a16_gemm:tile_m=16,tile_n=256",
    "w4a16_gemm:element=bf16,tile_m=16,tile_n=256",
    "w4a16_gemm:tile_m=32,tile_n=256",
    "w4a16_gemm:element=bf16,tile_m=64,tile_n=256",
    "w4a16_gemm:format=gptq_v2,group_size=32,tile_m=32,tile_n=256",
    "w4a16_gemm:tile_m=64,tile_n=256,function=silu_gate",
    "w4a16_gemm:tile_m=8,tile_n=256,family=sm90",
    "w4a16_gemm:format=gptq_v2,group_size=32,tile_m=8,tile_n=256",
    "w4a16_gemm:group_size=64,tile_m=16,tile_n=256,activation_order=true",
    "w4a16_gemm:bits=8,tile_m=16,tile_n=256",
    "w4a16_gemm:format=symmetric,bits=8,group_size=32,element=bf16,tile_m=8,tile_n=256",
    "w4a16_gemm:format=awq,tile_m=64,tile_n=256",
    "w4a16_gemm:format=awq,element=bf16,tile_m=8,tile_n=256",
    "w4a16_gemm:format=symmetric,group_size=all,tile_m=32,tile_n=256"};

/// Blocks of few columns have no stream-K.
std::vector<std::string> with_few_columns() {
  std::vector<std::string> texts = kFormats;
  for (const char* text :
       {"w4a16_gemm:tile_m=8,tile_n=64", "w4a16_gemm:element=bf16,tile_m=16,tile_n=32",
        "w4a16_gemm:format=awq,group_size=32,tile_m=16,tile_n=64", "w4a16_gemm:tile_m=16,tile_n=128",
        "w4a16_gemm:tile_m=16,tile_n=224", "w4a16_gemm:tile_m=8,tile_n=32",
        "w4a16_gemm:group_size=32,element=bf16,tile_m=16,tile_n=64", "w4a16_gemm:format=awq,tile_m=8,tile_n=128",
        "w4a16_gemm:format=awq,tile_m=8,tile_n=224", "w4a16_gemm:tile_m=16,tile_n=96",
        "w4a16_gemm:format=awq,element=bf16,tile_m=16,tile_n=160", "w4a16_gemm:tile_m=8,tile_n=160",
        "w4a16_gemm:tile_m=8,tile_n=64,family=sm80", "w4a16_gemm:tile_m=16,tile_n=128,function=silu_gate"})
    texts.emplace_back(text);
  return texts;
}

/// Of family sm90_persistent: with many rows, or with dense weights.
std::vector<std::string> with_many_rows(const std::string& architecture) {
  if (architecture != "sm_90a") return {};
  return {"w4a16_gemm:tile_m=256,tile_n=256",
          "w4a16_gemm:tile_m=128,tile_n=256",
          "w4a16_gemm:tile_m=80,tile_n=256,function=gelu",
          "w4a16_gemm:format=awq,group_size=64,tile_m=144,tile_n=256,residual=true",
          "w4a16_gemm:group_size=32,element=bf16,tile_m=256,tile_n=256",
          "w4a16_gemm:format=gptq_v2,group_size=64,tile_m=192,tile_n=256,function=silu_gate,bias=true,residual=true",
          "w4a16_gemm:format=awq,tile_m=256,tile_n=256,bias=true",
          "w4a16_gemm:format=awq,group_size=32,element=bf16,tile_m=128,tile_n=256,function=silu_gate",
          "w4a16_gemm:format=symmetric,group_size=all,tile_m=64,tile_n=256,family=sm90_persistent",
          "w4a16_gemm:format=dense,tile_m=16,tile_n=256",
          "w4a16_gemm:format=dense,element=bf16,tile_m=32,tile_n=256,function=silu_gate,bias=true",
          "w4a16_gemm:format=dense,tile_m=64,tile_n=256",
          "w4a16_gemm:format=dense,tile_m=128,tile_n=256,function=silu_gate,residual=true",
          "w4a16_gemm:format=dense,element=bf16,tile_m=144,tile_n=256",
          "w4a16_gemm:format=dense,tile_m=256,tile_n=256",
          "w4a16_gemm:format=dense,element=bf16,tile_m=256,tile_n=256,function=silu_gate,bias=true"};
}

const std::vector<std::string> kAtomic = {
    "w4a16_gemm:tile_m=8,tile_n=256,atomic_splits=true",
    "w4a16_gemm:element=bf16,tile_m=16,tile_n=256,atomic_splits=true",
    "w4a16_gemm:format=awq,tile_m=32,tile_n=256,function=silu_gate,atomic_splits=true",
    "w4a16_gemm:tile_m=64,tile_n=256,bias=true,residual=true,atomic_splits=true",
    "w4a16_gemm:tile_m=64,tile_n=256,atomic_splits=true,family=sm80"};
const char* const kReordered = "w4a16_gemm:tile_m=64,tile_n=256";
const char* const kCaptured = "w4a16_gemm:tile_m=16,tile_n=256,function=silu_gate";
constexpr int kRowTiles[] = {8, 16, 32, 64};
const W4a16Gemm kNotInvariant{.tile_m = 8, .tile_n = 256};

const SuiteKernels kKernels("W4a16GemmGpu", [](const std::string& architecture) {
  std::vector<std::string> texts = with_few_columns();
  for (const W4a16Gemm& descriptor : pairwise_descriptors_for(architecture)) texts.push_back(descriptor.text());
  for (W4a16Gemm descriptor : batch_invariant_descriptors()) {
    for (const int tile_m : kRowTiles) {
      descriptor.tile_m = tile_m;
      texts.push_back(descriptor.text());
    }
  }
  texts.insert(texts.end(), kAtomic.begin(), kAtomic.end());
  for (std::string& text : with_many_rows(architecture)) texts.push_back(std::move(text));
  texts.insert(texts.end(), {kReordered, kCaptured, kNotInvariant.text()});
  return texts;
});

class W4a16GemmGpu : public GpuTest {
 protected:
  /// So many rows that they make more tiles than the device holds blocks.
  int rows_that_fill(const W4a16Gemm& descriptor, int columns) const {
    const std::string plan = explain(descriptor.text(), architecture());
    const int resident = number_behind(device().describe(), {"\"multiprocessors\""}) *
                         number_behind(plan, {"\"blocks_per_sm\"", "\"value\""});
    const int column_tiles = (columns + 255) / 256;
    return (resident / column_tiles + 1) * descriptor.tile_m;
  }
};

/// The fewest columns that a descriptor takes, of which any n is a multiple.
int columns_of(const W4a16Gemm& descriptor) {
  const int columns = descriptor.format == W4Format::awq && descriptor.alignment == 16 ? 32 : 8;
  return descriptor.is_gated() ? 2 * columns : columns;
}

int group_of(const W4a16Gemm& descriptor) {
  return descriptor.group_size == 0 || descriptor.is_dense() ? 8 : descriptor.group_size;
}

TEST_F(W4a16GemmGpu, EveryPairOfFieldValues) {
  const std::vector<W4a16Gemm> descriptors = pairwise_descriptors_for(architecture());
  for_each_case(descriptors, [&](const W4a16Gemm& descriptor) {
    const int columns = columns_of(descriptor);
    const int group = group_of(descriptor);
    const std::string text = descriptor.text();
    const bool is_persistent = is_persistent_gemm(descriptor);
    expect_good(text, {{"m", descriptor.tile_m + 3}, {"n", 512 + columns}, {"k", 1024 + group}});
    expect_good(text, {{"m", 1}, {"n", columns}, {"k", 8}, {"decomposition", 1}});
    const bool has_all_of_k = descriptor.tile_n < 256;  // in a block
    // With activation order a block of family sm90_persistent has shared memory for at least 76 groups.
    const bool has_table = descriptor.activation_order && descriptor.tile_m >= 64;
    const int longest = has_table ? std::min(4096, 64 * group) : 4096;
    expect_good(text, {{"m", 100},
                       {"n", 256 + 3 * columns},
                       {"k", longest + std::max(8, group - 24)},  // the last group is shorter
                       {"decomposition", has_all_of_k               ? 0
                                         : descriptor.atomic_splits ? 4
                                                                    : 2},
                       {"splits", has_all_of_k    ? 0
                                  : is_persistent ? 2
                                                  : 7}});
  });
  std::printf("%zu kernels, largest error %.2e\n", descriptors.size(), worst());
}

TEST_F(W4a16GemmGpu, HardData) {
  for_each_case(with_few_columns(), [&](const std::string& text) {
    for (int pattern = 0; pattern < 6; ++pattern) {
      SCOPED_TRACE(pattern);
      expect_good(text, {{"m", 17}, {"n", 1024}, {"k", 4096}, {"pattern", pattern}});
    }
  });
}

TEST_F(W4a16GemmGpu, RowsFromNoneToMany) {
  for (const std::string& text : kFormats) {
    const Problem none = Problem::random(text, {{"m", 0}, {"n", 256}, {"k", 256}}, 1);
    DeviceCase launched(device(), none);
    launch(kernel(text), launched);
    for (const int m : {1, 2, 7, 8, 9, 31, 33, 63, 65, 127, 300})
      expect_good(text, {{"m", m}, {"n", 320}, {"k", 512}}, static_cast<std::uint64_t>(m));
  }
}

// Tiles that are cut off at the last rows and columns, fewer and more tiles than clusters, both uses of a cluster, and
// tiles that clusters share, each with the same bits at every launch.
TEST_F(W4a16GemmGpu, ClustersOfManyRowsComputeTheReference) {
  for_each_case(with_many_rows(architecture()), [&](const std::string& text) {
    SCOPED_TRACE(text);
    for (const int m : {1, 63, 129, 300, 1000}) expect_good(text, {{"m", m}, {"n", 1088}, {"k", 1024}});
    expect_good(text, {{"m", 2500}, {"n", 2112}, {"k", 640}});
    for (int pattern = 0; pattern < 6; ++pattern)
      expect_good(text, {{"m", 300}, {"n", 512}, {"k", 4096}, {"pattern", pattern}});
    for (const int decomposition : {1, 2, 3}) {
      const int splits = decomposition == 2 ? 2 : 0;
      const Problem problem = Problem::random(
          text, {{"m", 400}, {"n", 1088}, {"k", 2048}, {"decomposition", decomposition}, {"splits", splits}}, 3);
      DeviceCase launched(device(), problem);
      const Kernel made = kernel(text);
      launch(made, launched);
      EXPECT_TRUE(launched.compare(problem).good());
      const auto first = launched.output(0).download();
      for (int i = 0; i < 20; ++i) {
        launch(made, launched);
        ASSERT_EQ(launched.output(0).download(), first) << "launch " << i;
      }
    }
  });
}

TEST_F(W4a16GemmGpu, SplitsGiveTheSameBitsEveryTime) {
  for (const std::string& text : with_few_columns()) {
    SCOPED_TRACE(text);
    const bool has_few_columns = text.find("tile_n=256") == std::string::npos;  // which share k as the launch chooses
    for (const int decomposition : has_few_columns ? std::vector<int>{0} : std::vector<int>{2, 3}) {
      const Problem problem =
          Problem::random(text, {{"m", 9}, {"n", 512}, {"k", 8192}, {"decomposition", decomposition}}, 3);
      DeviceCase launched(device(), problem);
      const Kernel made = kernel(text);
      launch(made, launched);
      const auto first = launched.output(0).download();
      for (int i = 0; i < 20; ++i) {
        launch(made, launched);
        ASSERT_EQ(launched.output(0).download(), first) << "launch " << i;
      }
    }
  }
}

// Of all rows, in any tile, there are more tiles than the device holds blocks, so blocks have all of k, part by part;
// of few rows they share it. The reference is asked once per descriptor: other tiles give the same bits.
TEST_F(W4a16GemmGpu, BatchInvariantRowsHaveTheSameBitsInEveryBatchAndTile) {
  constexpr int kColumns = 1024;
  constexpr int kDepth = 2048;
  constexpr int kMostRows = 140;
  for (W4a16Gemm descriptor : batch_invariant_descriptors()) {
    SCOPED_TRACE(descriptor.text());
    int rows = 0;
    for (const int tile_m : kRowTiles) {
      descriptor.tile_m = tile_m;
      rows = std::max(rows, rows_that_fill(descriptor, kColumns));
    }
    const GemmBatch batch(device(), descriptor, rows, kColumns, kDepth);
    std::vector<GemmBatch::Row> first;
    for (const int tile_m : kRowTiles) {
      descriptor.tile_m = tile_m;
      const Kernel made = kernel(descriptor.text());
      const std::vector<GemmBatch::Row> all = batch.compute_all(made);
      if (first.empty()) {
        batch.expect_good();
        first = all;
      }
      EXPECT_TRUE(all == first) << tile_m;
      EXPECT_EQ(batch.differing_batches(made, kMostRows, all), 0) << tile_m;
    }
  }
  const W4a16Gemm& usual = kNotInvariant;
  const GemmBatch batch(device(), usual, rows_that_fill(usual, kColumns), kColumns, kDepth);
  const Kernel made = kernel(usual.text());
  EXPECT_GT(batch.differing_batches(made, kMostRows, batch.compute_all(made)), 0);
}

TEST_F(W4a16GemmGpu, OneWorkspaceServesAllShapes) {
  const GuardedBuffer workspace(device(), 64 << 20, 0);
  for (const std::string& text : kFormats) {
    for (const int n : {256, 4096}) {
      const Problem problem =
          Problem::random(text, {{"m", 16}, {"n", n}, {"k", 4096}, {"decomposition", 2}, {"splits", 5}}, 5);
      const DeviceCase launched(device(), problem);
      launch_with(kernel(text), launched.arguments(), workspace);
      EXPECT_TRUE(launched.compare(problem).good());
      expect_counters_zero(workspace);
    }
  }
}

// Sums in the order in which blocks come: of many parts and tiles, over what other launches have left in the workspace.
TEST_F(W4a16GemmGpu, AtomicSumsComputeTheReferenceAndLeaveCountersZero) {
  const GuardedBuffer workspace(device(), 64 << 20, 0);
  for (const std::string& text : kAtomic) {
    SCOPED_TRACE(text);
    for (const double splits : {2, 7, 64}) {
      const Problem problem =
          Problem::random(text, {{"m", 37}, {"n", 4160}, {"k", 8192}, {"decomposition", 4}, {"splits", splits}}, 5);
      const DeviceCase launched(device(), problem);
      for (int i = 0; i < 20; ++i) {
        launch_with(kernel(text), launched.arguments(), workspace);
        expect_counters_zero(workspace);
      }
      EXPECT_TRUE(launched.compare(problem).good());
    }
  }
}

// Blocks that end one tile and begin another, at every number of pieces: fewer stages than blocks, and many tiles per
// block.
TEST_F(W4a16GemmGpu, EvenSharesComputeTheReference) {
  for (const std::string& text : kFormats) {
    expect_good(text, {{"m", 5}, {"n", 320}, {"k", 512}, {"decomposition", 3}});
    expect_good(text, {{"m", 100}, {"n", 9024}, {"k", 1152}, {"decomposition", 3}});
    expect_good(text, {{"m", 60}, {"n", 8256}, {"k", 256}, {"decomposition", 3}});
  }
}

// Blocks put activations in order together: many more than the device holds at once; and those of two launches at a
// time, of 130 blocks each, for which an H200 has two places more. The two of the second that begin beside the first
// wait so long that they take the slices of the others.
TEST_F(W4a16GemmGpu, ActivationsArePutInOrderWhateverBlocksAreThere) {
  const std::string text = kReordered;
  expect_good(text, {{"m", 130}, {"n", 65536}, {"k", 1024}, {"decomposition", 1}});
  expect_good(text, {{"m", 1000}, {"n", 8192}, {"k", 640}});

  constexpr int kLaunches = 20;
  const Problem problem = Problem::random(text, {{"m", 128}, {"n", 16640}, {"k", 8192}, {"decomposition", 1}}, 3);
  const Kernel made = kernel(text);
  DeviceCase first(device(), problem);
  DeviceCase second(device(), problem);
  const std::size_t bytes = made.workspace(first.arguments(), &device());
  const GuardedBuffer first_workspace(device(), bytes, 0);
  const GuardedBuffer second_workspace(device(), bytes, 0);
  const cubit_stream stream = device().create_stream();
  const cubit_stream other = device().create_stream();
  const auto launch_on = [&](cubit_stream on, const DeviceCase& launched, const GuardedBuffer& workspace) {
    made.launch(launched.arguments(),
                {.device = &device(), .stream = on, .workspace = workspace.data(), .workspace_bytes = bytes});
  };
  for (int i = 0; i < kLaunches; ++i) {
    launch_on(stream, first, first_workspace);
    launch_on(other, second, second_workspace);
  }
  device().synchronise(stream);
  device().synchronise(other);
  expect_counters_zero(first_workspace);
  expect_counters_zero(second_workspace);
  EXPECT_TRUE(first.compare(problem).good());
  EXPECT_TRUE(second.compare(problem).good());
  device().destroy_stream(stream);
  device().destroy_stream(other);
}

TEST_F(W4a16GemmGpu, CapturedLaunchesAreReplayed) {
  const std::string text = kCaptured;
  const Problem problem = Problem::random(text, {{"m", 4}, {"n", 1024}, {"k", 4096}}, 6);
  const DeviceCase launched(device(), problem);
  const Kernel made = kernel(text);
  const std::size_t bytes = made.workspace(launched.arguments(), &device());
  const GuardedBuffer workspace(device(), bytes, 0);
  cubit_stream stream = device().create_stream();
  const Graph graph = device().capture(stream, [&] {
    made.launch(launched.arguments(), {.device = &device(),
                                       .stream = stream,
                                       .workspace = bytes == 0 ? nullptr : workspace.data(),
                                       .workspace_bytes = bytes});
  });
  EXPECT_FALSE(launched.compare(problem).good()) << "it ran before the replay";
  for (int i = 0; i < 3; ++i) device().replay(graph, stream);
  EXPECT_TRUE(launched.compare(problem).good());
  device().destroy_stream(stream);
}

}  // namespace
}  // namespace cubit::tests
