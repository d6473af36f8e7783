// Example: changes the scores of attention by a device function of one's own, which the engine compiles into the
// kernel.
//
// The function hides every second token. The queries are zero, so that all visible tokens have the same weight, and the
// output shows which tokens those are. "custom_score cuda:0 sm_90a" runs on an H100; without arguments the program uses
// the CPU device.
#include <cubit/gqa_decode.h>

#include <cstdint>
#include <cubit/cubit.hpp>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr int kHeads = 4, kDim = 64, kTokens = 50;
constexpr std::uint16_t kTwo = 0x4000, kHundred = 0x5640;  // in fp16
constexpr int kSkipped = 77;                               // the exit code that CTest takes for a skipped test

/// `score` is in natural units. Minus infinity, which NVRTC has no name for, hides the token at place.position.
constexpr const char* kScore = R"(
__device__ float modify_score(float score, const cubit::ScorePlace& place, const void* parameters) {
  return place.position % 2 == 0 ? score : __int_as_float(0xff800000);
}
)";

cubit::Buffer on_device(const cubit::Device& device, const std::vector<std::uint16_t>& values) {
  cubit::Buffer buffer(device, values.size() * sizeof values[0]);
  device.upload(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

/// One sequence of kTokens tokens and one KV head: tokens at even positions have the value 2, the others 100.
std::vector<std::uint16_t> values_by_position() {
  std::vector<std::uint16_t> values;
  for (int token = 0; token < kTokens; ++token) values.insert(values.end(), kDim, token % 2 == 0 ? kTwo : kHundred);
  return values;
}

/// Returns the number of outputs that are not 2.
int launch_and_count_wrong(const cubit::Device& device, const cubit::Kernel& kernel) {
  const cubit::Buffer query = on_device(device, std::vector<std::uint16_t>(kHeads * kDim));
  const cubit::Buffer key = on_device(device, std::vector<std::uint16_t>(kTokens * kDim));
  const cubit::Buffer value = on_device(device, values_by_position());
  const cubit::Buffer output(device, query.bytes());

  cubit_gqa_decode_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.query = query.data();
  arguments.key = key.data();
  arguments.value = value.data();
  arguments.output = output.data();
  for (std::int64_t* strides : {arguments.query_strides, arguments.output_strides}) {
    strides[0] = kHeads * kDim;  // sequence, head
    strides[1] = kDim;
  }
  for (std::int64_t* strides : {arguments.key_strides, arguments.value_strides}) {
    strides[0] = kTokens * kDim;  // sequence, token, KV head
    strides[1] = strides[2] = kDim;
  }
  arguments.batch = arguments.kv_heads = 1;
  arguments.max_length = kTokens;
  arguments.softmax_scale = 0.125f;

  const cubit::Buffer workspace(device, kernel.workspace(arguments, &device));
  device.fill_zero(workspace.data(), workspace.bytes());
  kernel.launch(arguments, {.device = &device, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
  std::vector<std::uint16_t> got(kHeads * kDim);
  device.download(got.data(), output.data(), output.bytes());
  device.synchronise();
  int wrong = 0;
  for (const std::uint16_t one : got) wrong += one != kTwo;
  return wrong;
}

}  // namespace

int main(int count, char** names) try {
  const cubit::Device device(count > 2 ? names[1] : "cpu:sm_80");
  const cubit::Engine engine;
  const std::string field = cubit::add_score("even", kScore);  // "even@…": the name and a hash of the text
  const cubit::Kernel kernel = engine.get("gqa_decode:head_dim=64,heads_per_kv=4,kv=fp16,query=fp16,score=" + field,
                                          count > 2 ? names[2] : "cpu:sm_80");
  kernel.prepare(device);
  const int wrong = launch_and_count_wrong(device, kernel);
  std::cout << kHeads * kDim << " outputs, " << wrong << " differ from the value of the visible tokens\n";
  return wrong == 0 ? 0 : 1;
} catch (const cubit::Error& error) {
  std::cerr << error.what() << "\n";
  const bool is_missing = error.code() == CUBIT_COMPILER_UNAVAILABLE || error.code() == CUBIT_DRIVER_UNAVAILABLE;
  return is_missing ? kSkipped : 1;
}
