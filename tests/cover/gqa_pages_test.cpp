// gqa_decode over pages in family sm90, whose boxes lie in one page each, on the CPU device: lengths 0, 1, and one less
// and one more than pages and stages; numbers that are no pages where no token needs them; tables that change between
// launches of one kernel. And in every family numbers that are no pages where tokens do need them, which whoever
// watches memory finds. Skipped where there is no NVRTC.
#include <cubit/gqa_decode.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

std::size_t index_of_table(const std::vector<cubit_tensor>& tensors) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [](const cubit_tensor& input) { return std::string(input.name) == "page_table"; });
  return static_cast<std::size_t>(found - tensors.begin());
}

struct Variant {
  const char* text;
  int page_size;
  int kv_heads;
  int hnd;
};

class BoxesOfPages : public ::testing::TestWithParam<Variant> {};

TEST_P(BoxesOfPages, SequencesEndAnywhereAndPagesMove) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  constexpr int kContext = 600;
  // Not bindings, which Clang 14 does not capture.
  const auto text = GetParam().text;
  const auto page = GetParam().page_size;
  const auto kv_heads = GetParam().kv_heads;
  const auto hnd = GetParam().hnd;
  std::vector<std::int32_t> lengths = {0,   1,   page - 1, page, page + 1, 5 * page + 1, 255,
                                       256, 257, 511,      512,  513,      599,          kContext};
  for (std::int32_t& length : lengths) length = std::min(length, kContext);
  const auto batch = static_cast<double>(lengths.size());
  const Problem random = Problem::random(
      text, {{"batch", batch}, {"context", kContext}, {"kv_heads", kv_heads}, {"page_size", page}, {"hnd", hnd}}, 5);
  std::vector<cubit_tensor> inputs = random.inputs();
  const std::size_t table = index_of_table(inputs);
  ASSERT_LT(table, inputs.size());
  const auto columns = inputs[table].shape[1];
  const auto* first = static_cast<const std::int32_t*>(inputs[table].data);
  const std::vector<std::int32_t> all(first, first + inputs[table].shape[0] * columns);
  inputs.push_back({"lengths", "I32", 1, {static_cast<std::int64_t>(lengths.size())}, lengths.data()});

  const Device device("cpu:sm_90a");
  device.watch(CUBIT_WATCH_MEMORY);
  const Kernel kernel = engine().get(text, "cpu:sm_90a");
  const auto problem_with = [&](std::vector<std::int32_t>& pages) {
    for (std::size_t sequence = 0; sequence < lengths.size(); ++sequence)
      for (std::int64_t column = (lengths[sequence] + page - 1) / page; column < columns; ++column)
        pages[sequence * columns + column] = column % 2 == 0 ? -1 : 1 << 30;
    inputs[table].data = pages.data();
    return Problem(text, inputs, {{"lse", 1}, {"max_length", kContext}, {"hnd", hnd}});
  };
  std::vector<std::int32_t> pages = all;
  const Problem before = problem_with(pages);
  DeviceCase launched(device, before);
  for (const std::int64_t turn : {0, 3}) {  // the pages of another sequence
    std::rotate_copy(all.begin(), all.begin() + turn * columns, all.end(), pages.begin());
    const Problem problem = problem_with(pages);
    device.upload(launched.input(index_of_table(before.inputs())).data(), pages.data(), 4 * pages.size());
    launch_once(device, kernel, launched.arguments());
    launched.expect_guards_intact();
    const auto result = launched.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }
}

constexpr const char* kPacked = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,cache=paged,family=sm90";
constexpr const char* kWide = "gqa_decode:heads_per_kv=2,cache=paged,family=sm90";
// Their scales lie in pages too, and are looked up by the warps that attend.
constexpr const char* kBytes = "gqa_decode:heads_per_kv=8,kv=fp8_e4m3,cache=paged,family=sm90";
constexpr const char* kGroups =
    "gqa_decode:kv=int8_split,groups=4,scales=group,scale_type=fp16,cache=paged,family=sm90";

INSTANTIATE_TEST_SUITE_P(
    Variants, BoxesOfPages,
    ::testing::Values(Variant{kPacked, 16, 1, 0}, Variant{kPacked, 24, 1, 0}, Variant{kPacked, 256, 1, 1},
                      Variant{kPacked, 7, 1, 0}, Variant{kPacked, 16, 8, 0}, Variant{kPacked, 64, 2, 1},
                      Variant{kWide, 16, 1, 0}, Variant{kWide, 8, 2, 1}, Variant{kWide, 64, 1, 0},
                      Variant{kWide, 1, 2, 0}, Variant{kBytes, 16, 1, 0}, Variant{kBytes, 24, 8, 1},
                      Variant{kBytes, 7, 2, 0}, Variant{kGroups, 32, 4, 0},
                      Variant{"gqa_decode:head_dim=192,heads_per_kv=3,cache=paged,family=sm90", 48, 1, 0}));

struct Sought {
  const char* text;
  const char* device;
  bool in_boxes;  ///< whole pages; others in pieces
};

class PagesThatAreNone : public ::testing::TestWithParam<Sought> {};

/// Given to the launch behind the problem's back, which would refuse them. The caches' memory has nothing else in it.
TEST_P(PagesThatAreNone, AreFound) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto& [text, name, in_boxes] = GetParam();
  constexpr int kContext = 300;
  const Device device(name);
  device.watch(CUBIT_WATCH_MEMORY);
  const Problem problem = Problem::random(text, {{"batch", 1}, {"context", kContext}}, 3);
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<void*> addresses;
  for (const auto& tensors : {problem.inputs(), problem.outputs()}) {
    for (const cubit_tensor& tensor : tensors) {
      buffers.push_back(std::make_unique<Buffer>(device, tensor_bytes(tensor)));
      addresses.push_back(buffers.back()->data());
      if (tensor.data != nullptr) device.upload(addresses.back(), tensor.data, tensor_bytes(tensor));
    }
  }
  const std::size_t table = index_of_table(problem.inputs());
  ASSERT_LT(table, problem.inputs().size());
  const auto* first = static_cast<const std::int32_t*>(problem.inputs()[table].data);
  const std::vector<std::int32_t> pages(first, first + problem.inputs()[table].shape[1]);
  const Kernel kernel = engine().get(text, name);
  const auto report_of = [&](std::size_t column, std::int32_t id) -> std::string {
    std::vector<std::int32_t> changed = pages;
    changed[column] = id;
    device.upload(addresses[table], changed.data(), 4 * changed.size());
    try {
      launch_once(device, kernel, problem.arguments(addresses));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), CUBIT_DEVICE_ERROR);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(report_of(0, pages[0]), "");
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t id : {-1, static_cast<std::int32_t>(pages.size()), kMost}) {
    SCOPED_TRACE(id);
    // A map has as many pages as there could be.
    const bool is_outside = in_boxes && (id < 0 || id == kMost);
    EXPECT_THAT(report_of(0, id),
                ::testing::HasSubstr(is_outside ? "is wholly outside of the tensor map" : "are in no allocation"));
    EXPECT_THAT(report_of(pages.size() - 1, id), ::testing::HasSubstr("are in no allocation"));  // in pieces
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PagesThatAreNone,
                         ::testing::Values(Sought{"gqa_decode:kv=fp16,query=fp16,cache=paged,family=sm75", "cpu:sm_75",
                                                  false},
                                           Sought{"gqa_decode:cache=paged,family=sm80", "cpu:sm_80", false},
                                           Sought{kPacked, "cpu:sm_90a", true}));

}  // namespace
}  // namespace cubit::tests
