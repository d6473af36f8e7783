// What gqa_decode makes of scores, tokens and denominator where the descriptor asks for it, on the CPU device: windows
// at every edge, what is not read because nobody sees it, users' device code. Skipped where there is no NVRTC.
#include <cubit/gqa_decode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

using ::testing::HasSubstr;

constexpr const char* kArchitecture = "cpu:sm_80";

std::string architecture_of(const std::string& descriptor) {
  return descriptor.find("family=sm90") == std::string::npos ? kArchitecture : "cpu:sm_90a";
}

cubit_gqa_decode_arguments arguments_of(const DeviceCase& on_device) {
  return *static_cast<const cubit_gqa_decode_arguments*>(on_device.arguments());
}

void launch(const Device& device, const std::string& descriptor, const cubit_gqa_decode_arguments& arguments) {
  const Kernel kernel = engine().get(descriptor, architecture_of(descriptor));
  const GuardedBuffer workspace(device, kernel.workspace(arguments, &device), 0);
  kernel.launch(arguments, {.device = &device,
                            .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                            .workspace_bytes = workspace.bytes()});
}

/// A made-up case with lengths of the caller's.
struct Case {
  Problem made;
  std::vector<std::int32_t> lengths;
  Problem problem;

  Case(const std::string& descriptor, Problem::Numbers sizes, std::vector<std::int32_t> with_lengths,
       const Problem::Numbers& numbers)
      : made(Problem::random(descriptor, joined(std::move(sizes), with_lengths.size()), 7)),
        lengths(std::move(with_lengths)),
        problem(descriptor, inputs(), numbers) {}

 private:
  static Problem::Numbers joined(Problem::Numbers sizes, std::size_t batch) {
    sizes.emplace_back("batch", static_cast<double>(batch));
    return sizes;
  }
  std::vector<cubit_tensor> inputs() {
    std::vector<cubit_tensor> all = made.inputs();
    cubit_tensor tensor{};
    tensor.name = "lengths";
    tensor.type = "I32";
    tensor.rank = 1;
    tensor.shape[0] = static_cast<std::int64_t>(lengths.size());
    tensor.data = lengths.data();
    all.push_back(tensor);
    return all;
  }
};

std::vector<float> log_sum_exps(DeviceCase& on_device) {
  const std::vector<unsigned char> bytes = on_device.output(1).download();
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void expect_window(const std::string& descriptor, double context, const std::vector<std::int32_t>& lengths, int window,
                   int kept, int splits) {
  SCOPED_TRACE(descriptor + " window " + std::to_string(window) + " kept " + std::to_string(kept));
  const Device device(architecture_of(descriptor));
  device.watch(CUBIT_WATCH_MEMORY);
  Problem::Numbers sizes = {{"context", context}, {"window", window}};
  Problem::Numbers numbers = {{"lse", 1}, {"window", window}, {"kept_tokens", kept}, {"splits", splits}};
  if (descriptor.find("paged") != std::string::npos) {
    sizes.emplace_back("page_size", 24);
    numbers.insert(numbers.end(), {{"max_length", context}});
  }
  const Case one(descriptor, sizes, lengths, numbers);
  DeviceCase on_device(device, one.problem);
  launch(device, descriptor, arguments_of(on_device));
  on_device.expect_guards_intact();
  const auto result = on_device.compare(one.problem);
  EXPECT_LE(result.error, result.tolerance) << result.worst;
}

TEST(GqaWindow, EveryEdge) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::vector<std::int32_t> lengths = {0, 1, 2, 15, 16, 17, 63, 64, 65, 130, 200};
  for (const std::string descriptor :
       {"gqa_decode:head_dim=64,heads_per_kv=3,window=true", "gqa_decode:head_dim=64,window=true,alibi=true,sinks=true",
        "gqa_decode:head_dim=64,kv=fp8_e4m3,cache=paged,window=true,alibi=true"}) {
    int splits = 0;
    for (const int window : {1, 2, 16, 17, 64, 199, 200, 1 << 30})
      for (const int kept : {0, 3, 32}) expect_window(descriptor, 200, lengths, window, kept, splits = 3 - splits);
  }
}

/// Family sm90 leaves whole stages out, which are of 64 to 256 tokens here.
TEST(GqaWindow, EveryEdgeOfStages) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::vector<std::int32_t> lengths = {0, 1, 63, 64, 65, 255, 256, 257, 512, 513, 700};
  for (const std::string descriptor :
       {"gqa_decode:heads_per_kv=3,window=true,family=sm90",
        "gqa_decode:heads_per_kv=3,query_tokens=5,window=true,alibi=true,sinks=true,family=sm90",
        "gqa_decode:heads_per_kv=17,query_tokens=2,window=true,alibi=true,sinks=true,family=sm90",
        "gqa_decode:kv=int4_rows,groups=4,cache=paged,query_tokens=3,mask=tree,window=true,alibi=true,family="
        "sm90"}) {
    int kept = 70;
    for (const int window : {1, 65, 256, 600})
      expect_window(descriptor, 700, lengths, window, kept = 70 - kept, window % 2 == 0 ? 0 : 3);
  }
}

/// A cache of which only the rows that are seen have been written.
class SeenRows {
 public:
  SeenRows(const Device& device, const cubit_tensor& cache, int first, int kept)
      : buffer_(device, tensor_bytes(cache)) {
    const std::size_t row = tensor_bytes(cache) / static_cast<std::size_t>(cache.shape[1]);
    for (int token = 0; token < cache.shape[1]; ++token) {
      if (token < first && token >= kept) continue;
      device.upload(static_cast<char*>(buffer_.data()) + token * row, static_cast<char*>(cache.data) + token * row,
                    row);
    }
  }
  void* data() const { return buffer_.data(); }

 private:
  Buffer buffer_;
};

/// One sequence of 300 tokens, of which the last 37 and the first 3 are seen.
TEST(GqaWindow, WhatNobodySeesIsNotRead) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  for (const std::string descriptor :
       {"gqa_decode:heads_per_kv=8,window=true", "gqa_decode:kv=int4_rows,groups=4,window=true,alibi=true",
        "gqa_decode:kv=int8_split,scales=group,groups=2,window=true",
        "gqa_decode:heads_per_kv=8,window=true,family=sm90",
        "gqa_decode:kv=int4_rows,groups=4,window=true,alibi=true,family=sm90",
        "gqa_decode:kv=int4_rows,window=true,family=sm90"}) {
    SCOPED_TRACE(descriptor);
    const Device device(architecture_of(descriptor));
    device.watch(CUBIT_WATCH_MEMORY);
    const Problem problem =
        Problem::random(descriptor, {{"batch", 1}, {"context", 300}, {"window", 37}, {"kept_tokens", 3}}, 3);
    DeviceCase on_device(device, problem);
    cubit_gqa_decode_arguments arguments = arguments_of(on_device);
    std::vector<std::unique_ptr<SeenRows>> caches;
    const auto replace = [&](auto*& data, const cubit_tensor& tensor) {
      caches.push_back(std::make_unique<SeenRows>(device, tensor, 300 - 37, 3));
      data = caches.back()->data();
    };
    for (const cubit_tensor& tensor : problem.inputs()) {
      const std::string name = tensor.name;
      if (name == "key") replace(arguments.key, tensor);
      if (name == "value") replace(arguments.value, tensor);
      if (name == "key_scale") replace(arguments.scales.key, tensor);
      if (name == "value_scale") replace(arguments.scales.value, tensor);
    }
    launch(device, descriptor, arguments);
    const auto result = on_device.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
    arguments.window = 38;
    EXPECT_THROW(launch(device, descriptor, arguments), Error) << "the row before the window has not been written";
  }
}

TEST(GqaWindow, PagesThatNobodySeesMayBeGone) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  for (const std::string descriptor :
       {"gqa_decode:cache=paged,window=true", "gqa_decode:kv=int8_split,cache=paged,window=true",
        "gqa_decode:cache=paged,window=true,family=sm90",
        "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,cache=paged,window=true,family=sm90"}) {
    for (const int page_size : {1, 7, 16, 48}) {
      SCOPED_TRACE(descriptor + " pages of " + std::to_string(page_size));
      const Device device(architecture_of(descriptor));
      device.watch(CUBIT_WATCH_MEMORY);
      const double pages = page_size;
      const Problem problem = Problem::random(
          descriptor, {{"batch", 1}, {"context", 300}, {"window", 37}, {"kept_tokens", 3}, {"page_size", pages}}, 3);
      DeviceCase on_device(device, problem);
      const auto inputs = problem.inputs();
      const auto table = std::find_if(inputs.begin(), inputs.end(),
                                      [](const auto& tensor) { return std::string(tensor.name) == "page_table"; });
      const auto* entries = static_cast<const std::int32_t*>(table->data);
      std::vector<std::int32_t> changed(entries, entries + table->shape[1]);
      for (int page = 0; page < table->shape[1]; ++page) {
        const int first = page * page_size;
        if (first >= 3 && first + page_size <= 300 - 37) changed[static_cast<std::size_t>(page)] = 1 << 24;
      }
      ASSERT_NE(std::count(changed.begin(), changed.end(), 1 << 24), 0);
      device.upload(on_device.input(static_cast<std::size_t>(table - inputs.begin())).data(), changed.data(),
                    4 * changed.size());
      cubit_gqa_decode_arguments arguments = arguments_of(on_device);
      launch(device, descriptor, arguments);
      const auto result = on_device.compare(problem);
      EXPECT_LE(result.error, result.tolerance) << result.worst;
      arguments.window = 37 + 2 * page_size;
      EXPECT_THROW(launch(device, descriptor, arguments), Error) << "a page of the window is gone";
    }
  }
}

TEST(GqaSoftCap, IsExactWhereScoresAreSmallBesideIt) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const Device device(kArchitecture);
  const std::string descriptor = "gqa_decode:head_dim=64,kv=fp16,query=fp16,soft_cap=true";
  for (const double cap : {1e-30, 1e-3, 0.3, 50.0, 1e4, 1e8, 1e30}) {
    SCOPED_TRACE(cap);
    const Problem problem =
        Problem::random(descriptor, {{"batch", 2}, {"context", 90}, {"soft_cap", cap}, {"lse", 1}, {"pattern", 3}}, 5);
    DeviceCase on_device(device, problem);
    launch(device, descriptor, arguments_of(on_device));
    const auto result = on_device.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }
}

// Beyond 2^27 a float does not tell a score from one 8 further on: only the largest counts then, and no weight leaves
// the range of fp16.
TEST(GqaScore, MayBeOfAnySize) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  for (const std::string& descriptor :
       {std::string("gqa_decode:heads_per_kv=8,kv=fp16,family=sm80"), std::string("gqa_decode:kv=fp16,family=sm90"),
        std::string("gqa_decode:heads_per_kv=8,kv=int8_split,family=sm90"),
        std::string("gqa_decode:heads_per_kv=12,kv=int4_rows,groups=4,family=sm80"),
        std::string("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90"),
        std::string("gqa_decode:heads_per_kv=8,kv=fp8_e4m3,alibi=true,family=sm80")}) {
    const Device device(architecture_of(descriptor));
    device.watch(CUBIT_WATCH_MEMORY);
    for (const double scale : {1e6, 3e6, 1e7, 2e7, 3e7, 1e9, 1e12, -1e7}) {
      SCOPED_TRACE(descriptor + " with a softmax_scale of " + std::to_string(scale));
      const Problem problem =
          Problem::random(descriptor, {{"batch", 2}, {"context", 200}, {"kv_heads", 2}, {"softmax_scale", scale}}, 7);
      const DeviceCase on_device(device, problem);
      launch(device, descriptor, arguments_of(on_device));
      const auto result = on_device.compare(problem);
      EXPECT_LE(result.error, result.tolerance) << result.worst;
    }
  }
}

TEST(GqaScore, HidingEveryTokenLeavesTheSink) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string hidden = "score=" + add_score("hidden", R"(
__device__ float modify_score(float score, const cubit::ScorePlace& place, const void* parameters) {
  return -__int_as_float(0x7f800000);
}
)");
  for (const std::string fields : {"", ",sinks=true", ",family=sm90", ",sinks=true,family=sm90"}) {
    const std::string plain = "gqa_decode:head_dim=64,heads_per_kv=4" + fields;
    const Device device(architecture_of(plain));
    const Problem problem =
        Problem::random(plain, {{"batch", 2}, {"context", 300}, {"kv_heads", 1}, {"lse", 1}, {"splits", 2}}, 5);
    DeviceCase on_device(device, problem);
    launch(device, plain + "," + hidden, arguments_of(on_device));
    const float* given =
        fields.find("sinks") == std::string::npos ? nullptr : static_cast<const float*>(problem.inputs().back().data);
    const std::vector<float> lse = log_sum_exps(on_device);
    for (std::size_t item = 0; item < lse.size(); ++item) {
      const float expected = given == nullptr ? -std::numeric_limits<float>::infinity() : given[item % 4];
      if (std::isinf(expected)) {
        EXPECT_EQ(lse[item], expected);
      } else {
        EXPECT_NEAR(lse[item], expected, 1e-5);
      }
    }
    for (const unsigned char byte : on_device.output(0).download()) EXPECT_EQ(byte & 0x7f, 0);
  }
}

/// Tokens from the query's batch and head on: everything that a place holds is right.
TEST(GqaScore, KnowsItsPlace) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string place = "score=" + add_score("place", R"(
struct Case { int length; int heads; };
__device__ float modify_score(float, const cubit::ScorePlace& place, const void* parameters) {
  const Case& given = *static_cast<const Case*>(parameters);
  const bool is_right = place.query_position == given.length - 1 && place.position >= 0 &&
                        place.position < given.length && place.head >= 0 && place.head < given.heads;
  if (!is_right) return place.position >= given.length ? 0.f : 100.f;  // a row beyond the end is masked afterwards
  return place.position == 10 * place.batch + place.head ? 0.f : -__int_as_float(0x7f800000);
}
)");
  // Ten heads of two tiles for each of two KV heads: head h of sequence b sees token 10 b + h alone.
  for (const std::string family : {"", ",family=sm90"}) {
    const std::string plain = "gqa_decode:head_dim=64,heads_per_kv=10,kv=fp16,query=fp16" + family;
    const Device device(architecture_of(plain));
    device.watch(CUBIT_WATCH_MEMORY);
    const Problem problem =
        Problem::random(plain, {{"batch", 3}, {"context", 77}, {"kv_heads", 2}, {"lse", 1}, {"splits", 2}}, 5);
    DeviceCase on_device(device, problem);
    cubit_gqa_decode_arguments arguments = arguments_of(on_device);
    const std::int32_t given[] = {77, 20};
    const Buffer parameters(device, sizeof given);
    device.upload(parameters.data(), given, sizeof given);
    arguments.score_parameters = parameters.data();
    launch(device, plain + "," + place, arguments);
    for (const float x : log_sum_exps(on_device)) EXPECT_NEAR(x, 0, 1e-6);
    const auto* values = static_cast<const std::uint16_t*>(problem.inputs()[2].data);
    const std::vector<unsigned char> bytes = on_device.output(0).download();
    for (std::size_t batch = 0; batch < 3; ++batch)
      for (std::size_t head = 0; head < 20; ++head) {
        const std::size_t token = 10 * batch + head;
        const auto* row = values + ((batch * 77 + token) * 2 + head / 10) * 64;
        EXPECT_EQ(std::memcmp(bytes.data() + (batch * 20 + head) * 128, row, 128), 0) << batch << " " << head;
      }
  }
}

TEST(GqaScore, CompileErrorsCarryTheUsersLines) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string field = add_score("wrong",
                                      "// one\n// two\n__device__ float modify_score(float score, "
                                      "const cubit::ScorePlace& place, const void*) {\n"
                                      "  return score + place.positon;\n}\n");
  try {
    engine().get("gqa_decode:score=" + field, "sm_80");
    FAIL() << "it compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), CUBIT_COMPILE_FAILED);
    EXPECT_THAT(error.what(), HasSubstr("user/wrong.cuh(4): error"));
    EXPECT_THAT(error.what(), HasSubstr(">     4 |   return score + place.positon;"));
  }
}

}  // namespace
}  // namespace cubit::tests
