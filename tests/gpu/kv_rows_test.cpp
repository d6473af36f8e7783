// kv_append and kv_gather on a GPU: the reference's bits for every format, and what only a GPU can show: graph replays
// with changed positions and pages, rows beyond what 32 bits count, streams of many blocks. Skipped where there is no
// GPU.
#include <cubit/kv_append.hpp>
#include <cubit/kv_gather.hpp>

#include <algorithm>
#include <limits>

#include "tests/gpu/gpu_test.hpp"
#include "tests/gpu/long_cache.hpp"
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

const std::vector<std::string> kManyRows = {"",
                                            ":kv=int4_rows,groups=4",
                                            ":kv=int4_rows,groups=4,cache=paged",
                                            ":kv=int8_split",
                                            ":kv=fp8_e4m3,scales=group,groups=4,cache=paged",
                                            ":kv=fp8_e4m3,value=int4_rows,value_groups=4",
                                            ":head_dim=192,value_dim=128"};
const char* const kReplayedAppend = "kv_append:kv=int4_rows,groups=4,rotary=half_split";
const std::vector<std::string> kReplayedPages = {"kv_append:kv=int4_rows,groups=4,rotary=half_split,cache=paged",
                                                 "kv_append:kv=fp8_e4m3,cache=paged",
                                                 "kv_gather:kv=int4_rows,groups=4,cache=paged"};
struct LongFormat {
  const char* fields;
  std::int64_t row_bytes;
  std::int64_t element;
};
constexpr LongFormat kLongFormats[] = {{"head_dim=128", 256, 2}, {"kv=int4_rows,groups=4", 80, 1}};
const std::vector<std::string> kStreamCopies = {"stream_copy", "stream_copy:blocks_per_sm=2",
                                                "stream_copy:blocks_per_sm=8"};
const std::vector<std::string> kSameBits = {
    "kv_append:kv=int4_rows,groups=4,rotary=interleaved", "kv_gather:kv=int4_rows",
    "kv_append:kv=fp8_e4m3,value=int4_rows,value_groups=4", "kv_gather:kv=fp8_e4m3,value=int4_rows,value_groups=4"};

const SuiteKernels kKernels("KvRowsGpu", [](const std::string&) {
  std::vector<std::string> texts = append_texts();
  for (const KvAppend& append : mixed_rows_descriptors<KvAppend>()) texts.push_back(append.text());
  const std::size_t appends = texts.size();
  for (std::size_t i = 0; i < appends; ++i) texts.push_back(gather_text(texts[i]));
  for (const char* const name : {"kv_append", "kv_gather"}) {
    for (const std::string& fields : kManyRows) texts.push_back(name + fields);
    for (const LongFormat& format : kLongFormats) {
      for (const char* const cache : {"", ",cache=paged"})
        texts.push_back(std::string(name) + ":" + format.fields + cache);
    }
  }
  texts.emplace_back(kReplayedAppend);
  for (const auto* const more : {&kReplayedPages, &kStreamCopies, &kSameBits})
    texts.insert(texts.end(), more->begin(), more->end());
  return texts;
});

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
  for_each_case(texts, [&](const std::string& text) { expect_good_rows(text); });
  std::printf("%zu kernels of each operator\n", texts.size());
}

TEST_F(KvRowsGpu, ValuesStoredOtherwiseThanKeys) {
  const std::vector<KvAppend> appends = mixed_rows_descriptors<KvAppend>();
  for_each_case(appends, [&](const KvAppend& append) { expect_good_rows(append.text()); });
  std::printf("%zu kernels of each operator\n", appends.size());
}

TEST_F(KvRowsGpu, ManyRows) {
  for_each_case(kManyRows, [&](const std::string& fields) {
    expect_good("kv_append" + fields, {{"batch", 1}, {"tokens", 8192}, {"kv_heads", 8}});
    expect_good("kv_append" + fields, {{"batch", 512}, {"tokens", 1}, {"kv_heads", 8}, {"context", 5}});
    expect_good("kv_gather" + fields, {{"batch", 3}, {"context", 5000}, {"kv_heads", 8}});
  });
}

/// Two appends in a graph's replays, by lengths that change on the device: the caches hold both.
TEST_F(KvRowsGpu, GraphReplaysWithChangedLengths) {
  const std::string text = kReplayedAppend;
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

std::size_t index_of(const std::vector<cubit_tensor>& tensors, const std::string& name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const cubit_tensor& tensor) { return tensor.name == name; });
  if (found == tensors.end()) throw std::runtime_error("there is no tensor " + name);
  return static_cast<std::size_t>(found - tensors.begin());
}

/// Pages that change on the device, some of them none: each replay does what a launch of its own does to the same
/// caches.
TEST_F(KvRowsGpu, GraphReplaysWithChangedPages) {
  for (const std::string& text : kReplayedPages) {
    SCOPED_TRACE(text);
    const Kernel rows = kernel(text);
    const Problem problem = Problem::random(text, {{"batch", 4}, {"tokens", 33}, {"context", 64}, {"kv_heads", 2}}, 8);
    const std::size_t table = index_of(problem.inputs(), "page_table");
    const auto* first = static_cast<const std::int32_t*>(problem.inputs()[table].data);
    std::vector<std::int32_t> pages(first, first + 16);
    DeviceCase launched(device(), problem);
    DeviceCase alone(device(), problem);
    const void* arguments = launched.arguments();
    const cubit_stream stream = device().create_stream();
    const Graph graph =
        device().capture(stream, [&] { rows.launch(arguments, {.device = &device(), .stream = stream}); });
    std::vector<unsigned char> before;
    for (const std::int32_t none : {0, -1, 16, std::numeric_limits<std::int32_t>::max()}) {
      std::rotate(pages.begin(), pages.begin() + 5, pages.end());
      std::vector<std::int32_t> now = pages;
      if (none != 0) now[6] = none;
      device().upload(launched.input(table).data(), now.data(), 4 * now.size(), stream);
      device().replay(graph, stream);
      device().synchronise(stream);
      device().upload(alone.input(table).data(), now.data(), 4 * now.size());
      launch(rows, alone);
      const std::size_t outputs = problem.outputs().size();
      for (std::size_t i = 0; i < outputs; ++i) EXPECT_EQ(launched.output(i).download(), alone.output(i).download());
      const std::vector<unsigned char> after = launched.output(0).download();
      EXPECT_NE(after, before);
      before = after;
    }
    launched.expect_guards_intact();
    device().destroy_stream(stream);
  }
}

/// Five tokens in the quarters of a long cache, one each and the very last, whose rows are those of five tokens in a
/// short one; where they would lie with fewer bits there is nothing.
TEST_F(KvRowsGpu, RowsBeyondWhat32BitsCount) {
  std::unique_ptr<const LongCache> cache;
  try {
    cache = std::make_unique<const LongCache>(device());
  } catch (const Error& error) {
    GTEST_SKIP() << "a cache of 8 GiB: " << error.what();
  }
  constexpr std::int64_t kQuarter = LongCache::kQuarter;
  const std::vector<std::int32_t> places = {3, kQuarter + 4, 2 * kQuarter + 5, 3 * kQuarter + 6, 4 * kQuarter - 1};
  std::vector<std::int32_t> ends = places;
  for (std::int32_t& end : ends) ++end;
  const auto count = static_cast<std::int32_t>(places.size());
  const Uploaded positions(device(), places);
  const Uploaded behind(device(), ends);
  const Uploaded pages(device(), LongCache::pages());
  for (const auto& [fields, row_bytes, element] : kLongFormats) {
    const std::string append = std::string("kv_append:") + fields;
    const std::string gather = std::string("kv_gather:") + fields;
    const std::size_t token_bytes = 8 * row_bytes;
    const Problem problem = Problem::random(append, {{"tokens", count}, {"context", count}, {"kv_heads", 8}}, 13);
    DeviceCase small(device(), problem);
    launch(kernel(append), small);
    ASSERT_EQ(small.compare(problem).error, 0);
    const auto small_append = *static_cast<const cubit_kv_append_arguments*>(small.arguments());
    const std::vector<unsigned char> expected[] = {small.output(0).download(), small.output(1).download()};
    GuardedBuffer small_rows(device(), 2 * count * 8 * 256, 0);
    GuardedBuffer rows(device(), small_rows.bytes(), 0xee);
    cubit_kv_gather_arguments gathered{};
    gathered.size = sizeof gathered;
    const auto gather_into = [&](const GuardedBuffer& dst, const std::string& text) {
      gathered.key = dst.data();
      gathered.value = static_cast<char*>(dst.data()) + dst.bytes() / 2;
      launch_once(device(), kernel(text), &gathered);
    };
    for (std::int64_t* const strides : {gathered.key_strides, gathered.value_strides}) {
      strides[0] = strides[1] = 8 * 128;  // a block of the cache has one sequence, or one token
      strides[2] = 128;
    }
    gathered.cache = small_append.cache;
    gathered.batch = 1;
    gathered.tokens = count;
    gather_into(small_rows, gather);

    for (const bool is_paged : {false, true}) {
      SCOPED_TRACE(append + (is_paged ? ", in pages" : ""));
      cache->clear();
      auto arguments = small_append;
      arguments.positions = positions.data();
      cubit_kv_cache& there = arguments.cache;
      there.key = cache->key();
      there.value = cache->value();
      LongCache::set_strides(there.key_strides, is_paged, row_bytes, element);
      LongCache::set_strides(there.value_strides, is_paged, row_bytes, element);
      there.max_length = LongCache::kTokens;
      if (is_paged) {
        there.page_table = pages.data();
        there.page_size = LongCache::kPageSize;
        there.pages = LongCache::kPages;
      } else {
        there.key_strides[0] = there.value_strides[0] = 0;  // for the gather all sequences are this one
      }
      const std::string addressing = is_paged ? ",cache=paged" : "";
      launch_once(device(), kernel(append + addressing), &arguments);
      std::vector<unsigned char> found(token_bytes);
      for (std::int32_t token = 0; token < count; ++token) {
        for (std::int64_t quarter = 0; quarter < 4; ++quarter) {
          const std::int64_t place =
              (LongCache::place(places[token], is_paged) + quarter * kQuarter) % LongCache::kTokens;
          for (const bool is_value : {false, true}) {
            device().download(found.data(), is_value ? cache->value(place) : cache->key(place), found.size());
            const auto row = expected[is_value].begin() + token * static_cast<std::ptrdiff_t>(token_bytes);
            const std::vector<unsigned char> wanted(row, row + static_cast<std::ptrdiff_t>(token_bytes));
            EXPECT_EQ(found, quarter == 0 ? wanted : std::vector<unsigned char>(token_bytes))
                << token << " " << quarter;
          }
        }
      }
      gathered.cache = there;
      gathered.from = positions.data();
      gathered.to = behind.data();
      gathered.batch = count;
      gathered.tokens = 1;
      gather_into(rows, gather + addressing);
      EXPECT_EQ(rows.download(), small_rows.download());
    }
  }
}

TEST_F(KvRowsGpu, StreamCopyCopiesEveryByte) {
  for (const std::string& text : kStreamCopies) {
    for (const double bytes : {16, 32, 4096, 1000000, 12345680, 80000000}) expect_good(text, {{"bytes", bytes}});
  }
}

TEST_F(KvRowsGpu, SameInputsSameBits) {
  for (const std::string& text : kSameBits) {
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
