// kv_append and kv_gather on a GPU: the reference's bits for every format, and what only a GPU can show: graph replays
// with changed positions, streams of many blocks, padded tensors. Skipped where there is none.
#include <cubit/kv_append.hpp>
#include <cubit/kv_gather.hpp>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cache_descriptors.hpp"

namespace cubit::tests {
namespace {

/// All rows, formats and rotations.
std::vector<std::string> append_texts() {
  std::vector<std::string> texts;
  for (const int head_dim : {64, 80, 96, 112, 128, 160, 192, 256}) {
    std::vector<KvAppend> formats = {{head_dim, KvFormat::bf16}, {head_dim, KvFormat::fp16}};
    for (const int groups : {1, 2, 4, 8})
      if (head_dim % (16 * groups) == 0) formats.push_back({head_dim, KvFormat::int4_rows, groups});
    for (const KvFormat kv : {KvFormat::int8_split, KvFormat::fp8_e4m3, KvFormat::fp8_e5m2}) {
      for (const KvScales scales : {KvScales::head, KvScales::token, KvScales::tensor, KvScales::group}) {
        const int groups = scales == KvScales::group ? 2 : 1;
        if (head_dim % (16 * groups) != 0) continue;
        const ScaleType type = formats.size() % 2 == 0 ? ScaleType::fp32 : ScaleType::fp16;
        formats.push_back({head_dim, kv, groups, scales, type});
      }
    }
    for (KvAppend& format : formats) {
      format.rotary = static_cast<Rotary>(texts.size() % 3);
      format.input = texts.size() % 2 == 0 ? Element::bf16 : Element::fp16;
      format.cache = texts.size() / 2 % 2 == 0 ? KvAddressing::contiguous : KvAddressing::paged;
      texts.push_back(format.text());
    }
  }
  return texts;
}

/// The gather of the same format.
std::string gather_text(std::string text) {
  text.replace(0, std::string("kv_append").size(), "kv_gather");
  const std::size_t input = text.find("input=");
  if (input != std::string::npos) text.replace(input, std::string("input").size(), "output");
  const std::size_t rotary = text.find("rotary=");
  if (rotary != std::string::npos) text.erase(rotary - 1, text.find(',', rotary) - (rotary - 1));
  return text;
}

class KvRowsGpu : public GpuTest {
 protected:
  /// An append and the gather of the same format: on data of every pattern, ragged, and with positions that jump.
  void expect_good_rows(const std::string& append) const {
    for (int pattern = 0; pattern < 6; ++pattern) {
      expect_good(append, {{"batch", 5}, {"tokens", 33}, {"kv_heads", 3}, {"ragged", 1}, {"pattern", pattern}});
      expect_good(gather_text(append),
                  {{"batch", 5}, {"context", 33}, {"kv_heads", 3}, {"ragged", 1}, {"pattern", pattern}});
    }
    expect_good(append, {{"batch", 3}, {"tokens", 40}, {"context", 100}, {"kv_heads", 2}, {"scattered", 1}});
  }
};

TEST_F(KvRowsGpu, EveryFormat) {
  const std::vector<std::string> texts = append_texts();
  for (const std::string& text : texts) expect_good_rows(text);
  std::printf("%zu kernels of each operator\n", texts.size());
}

TEST_F(KvRowsGpu, ValuesStoredOtherwiseThanKeys) {
  const std::vector<KvAppend> appends = mixed_rows_descriptors<KvAppend>();
  for (const KvAppend& append : appends) expect_good_rows(append.text());
  std::printf("%zu kernels of each operator\n", appends.size());
}

TEST_F(KvRowsGpu, ManyRows) {
  for (const char* fields : {"", ":kv=int4_rows,groups=4", ":kv=int4_rows,groups=4,cache=paged", ":kv=int8_split",
                             ":kv=fp8_e4m3,scales=group,groups=4,cache=paged",
                             ":kv=fp8_e4m3,value=int4_rows,value_groups=4", ":head_dim=192,value_dim=128"}) {
    expect_good(std::string("kv_append") + fields, {{"batch", 1}, {"tokens", 8192}, {"kv_heads", 8}});
    expect_good(std::string("kv_append") + fields, {{"batch", 512}, {"tokens", 1}, {"kv_heads", 8}, {"context", 5}});
    expect_good(std::string("kv_gather") + fields, {{"batch", 3}, {"context", 5000}, {"kv_heads", 8}});
  }
}

/// Two appends in a graph's replays, by lengths that change on the device: the caches hold both.
TEST_F(KvRowsGpu, GraphReplaysWithChangedLengths) {
  const std::string text = "kv_append:kv=int4_rows,groups=4,rotary=half_split";
  const Kernel append = kernel(text);
  const Problem problem = Problem::random(text, {{"batch", 4}, {"tokens", 3}, {"context", 64}, {"ragged", 1}}, 8);
  std::size_t lengths_index = 0;
  std::size_t counts_index = 0;
  for (std::size_t i = 0; i < problem.inputs().size(); ++i) {
    if (std::string(problem.inputs()[i].name) == "lengths") lengths_index = i;
    if (std::string(problem.inputs()[i].name) == "counts") counts_index = i;
  }
  DeviceCase launched(device(), problem);
  const void* arguments = launched.arguments();
  const cubit_stream stream = device().create_stream();
  const Graph graph =
      device().capture(stream, [&] { append.launch(arguments, {.device = &device(), .stream = stream}); });
  const std::vector<std::int32_t> all = {3, 3, 3, 3};
  device().upload(launched.input(counts_index).data(), all.data(), 16, stream);
  std::vector<std::uint8_t> expected = launched.output(0).download();
  for (const std::vector<std::int32_t>& lengths : {std::vector<std::int32_t>{0, 61, 62, 64}, {3, -1, 70, 5}}) {
    device().upload(launched.input(lengths_index).data(), lengths.data(), 16, stream);
    device().replay(graph, stream);
    // The same by a launch of its own into caches that are not these.
    DeviceCase alone(device(), problem);
    device().upload(alone.input(counts_index).data(), all.data(), 16);
    device().upload(alone.input(lengths_index).data(), lengths.data(), 16);
    launch(append, alone);
    const auto rows = alone.output(0).download();
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i] != 0) expected[i] = rows[i];
  }
  device().synchronise(stream);
  EXPECT_EQ(launched.output(0).download(), expected);
  launched.expect_guards_intact();
  device().destroy_stream(stream);
}

TEST_F(KvRowsGpu, StreamCopyCopiesEveryByte) {
  for (const std::string text : {"stream_copy", "stream_copy:blocks_per_sm=2", "stream_copy:blocks_per_sm=8"}) {
    for (const double bytes : {16, 32, 4096, 1000000, 12345680, 80000000}) expect_good(text, {{"bytes", bytes}});
  }
}

TEST_F(KvRowsGpu, SameInputsSameBits) {
  for (const std::string text : {"kv_append:kv=int4_rows,groups=4,rotary=interleaved", "kv_gather:kv=int4_rows",
                                 "kv_append:kv=fp8_e4m3,value=int4_rows,value_groups=4",
                                 "kv_gather:kv=fp8_e4m3,value=int4_rows,value_groups=4"}) {
    const Problem problem =
        Problem::random(text, {{"batch", 7}, {"context", 300}, {"tokens", 200}, {"kv_heads", 2}}, 5);
    DeviceCase launched(device(), problem);
    launch(kernel(text), launched);
    const auto first = launched.output(0).download();
    for (int repeat = 0; repeat < 10; ++repeat) {
      launch(kernel(text), launched);
      ASSERT_EQ(first, launched.output(0).download());
    }
  }
}

}  // namespace
}  // namespace cubit::tests
