// Example: a decode step of one layer in one CUDA graph: append to a paged INT4 cache, attention, output projection.
//
// Lengths lie in device memory, so one graph serves all tokens. Each new key and value is 3, and the projection takes
// the mean of inputs, so every output is 3. "decode_step cuda:0 sm_90a" runs on an H100; the default is the CPU device.
#include <cubit/gqa_decode.h>
#include <cubit/kv_append.h>
#include <cubit/w4a16_gemm.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cubit/cubit.hpp>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr int kBatch = 2, kHeads = 8, kDim = 128, kFeatures = kHeads * kDim;  // one KV head
constexpr int kPage = 16, kPagesOfSequence = 4, kRoom = kPagesOfSequence * kPage, kPages = kBatch * kPagesOfSequence;
constexpr int kRow = 4 * 4 + kDim / 2;  // bytes of a row: 4 groups of (scale, shift), nibbles
constexpr int kCacheBytes = kPages * kPage * kRow, kOutputBytes = kBatch * kFeatures * 2;
constexpr int kGroup = 128;  // features that share a scale of the projection's weights
constexpr int kSteps = kPage + 1;
constexpr std::uint16_t kThree = 0x4200, kOneThousandth = 0x1400;  // 3 and 1 / kFeatures in fp16
constexpr std::uint32_t kEightOnes = 0x99999999;                   // a nibble of 9 means 9 - 8
constexpr int kSkipped = 77;                                       // the exit code that CTest takes for a skipped test

using Halves = std::vector<std::uint16_t>;

template <class T>
cubit::Buffer on_device(const cubit::Device& device, const std::vector<T>& values) {
  cubit::Buffer buffer(device, values.size() * sizeof(T));
  device.upload(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

cubit::Buffer zeros(const cubit::Device& device, std::size_t bytes) {
  return on_device(device, std::vector<unsigned char>(bytes));
}

/// The kernels, tensors and launch arguments of a step.
struct Step {
  void launch(cubit_stream stream, const cubit::Buffer& workspace) const {
    const cubit::LaunchOptions options{
        .device = &device, .stream = stream, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()};
    append.launch(added, options);
    attend.launch(attention, options);
    project.launch(projection, options);
  }

  const cubit::Device& device;
  const cubit::Engine& engine;
  std::string architecture;

  cubit::Kernel append = engine.get("kv_append:kv=int4_rows,groups=4,input=fp16,cache=paged", architecture);
  cubit::Kernel attend =
      engine.get("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,query=fp16,cache=paged", architecture);
  cubit::Kernel project = engine.get("w4a16_gemm:format=symmetric", architecture);

  cubit::Buffer keys = zeros(device, kCacheBytes), values = zeros(device, kCacheBytes);
  cubit::Buffer page_table = on_device<std::int32_t>(device, {7, 6, 5, 4, 3, 2, 1, 0});
  cubit::Buffer old_lengths = zeros(device, kBatch * 4), lengths = zeros(device, kBatch * 4);
  cubit::Buffer token = on_device(device, Halves(kBatch* kDim, kThree));  // the new key, and the new value
  cubit::Buffer query = zeros(device, kOutputBytes), attended = zeros(device, kOutputBytes);
  cubit::Buffer weights = on_device(device, std::vector<std::uint32_t>(kFeatures / 8 * kFeatures, kEightOnes));
  cubit::Buffer scales = on_device(device, Halves(kFeatures / kGroup * kFeatures, kOneThousandth));
  cubit::Buffer output = zeros(device, kOutputBytes);
  cubit_kv_append_arguments added{
      .size = sizeof added,
      .key = token.data(),
      .value = token.data(),
      .key_strides = {kDim, kDim, kDim},  // sequence, token, KV head, in elements
      .value_strides = {kDim, kDim, kDim},
      .cache = {.key = keys.data(),
                .value = values.data(),
                .key_strides = {kPage * kRow, kRow, kRow},  // page, token, KV head, in bytes
                .value_strides = {kPage * kRow, kRow, kRow},
                .kv_heads = 1,
                .max_length = kRoom,
                .page_table = static_cast<const std::int32_t*>(page_table.data()),
                .page_table_stride = kPagesOfSequence,
                .page_size = kPage,
                .pages = kPages},
      .lengths = static_cast<const std::int32_t*>(old_lengths.data()),
      .batch = kBatch,
      .tokens = 1};
  cubit_gqa_decode_arguments attention{.size = sizeof attention,
                                       .query = query.data(),
                                       .key = keys.data(),
                                       .value = values.data(),
                                       .lengths = static_cast<const std::int32_t*>(lengths.data()),
                                       .output = attended.data(),
                                       .query_strides = {kFeatures, kDim},  // sequence, head
                                       .key_strides = {kPage * kRow, kRow, kRow},
                                       .value_strides = {kPage * kRow, kRow, kRow},
                                       .output_strides = {kFeatures, kDim},
                                       .batch = kBatch,
                                       .kv_heads = 1,
                                       .max_length = kRoom,  // the bound of all lengths
                                       .softmax_scale = 1 / std::sqrt(static_cast<float>(kDim)),
                                       .page_table = static_cast<const std::int32_t*>(page_table.data()),
                                       .page_table_stride = kPagesOfSequence,
                                       .page_size = kPage};
  cubit_w4a16_gemm_arguments projection{.size = sizeof projection,
                                        .activations = attended.data(),
                                        .qweight = weights.data(),
                                        .scales = scales.data(),
                                        .output = output.data(),
                                        .activation_stride = kFeatures,
                                        .output_stride = kFeatures,
                                        .m = kBatch,
                                        .n = kFeatures,
                                        .k = kFeatures};
};

int run(const cubit::Device& device, const std::string& architecture) {
  const cubit::Engine engine;
  const Step step{device, engine, architecture};
  for (const cubit::Kernel* kernel : {&step.append, &step.attend, &step.project}) kernel->prepare(device);
  const cubit::Buffer workspace = zeros(device, std::max(step.attend.workspace(step.attention, &device),
                                                         step.project.workspace(step.projection, &device)));
  const cubit_stream stream = device.create_stream();  // the default stream cannot be captured
  const cubit::Graph graph = device.capture(stream, [&] { step.launch(stream, workspace); });
  Halves got(kBatch * kFeatures);
  std::ptrdiff_t wrong = 0;
  for (std::int32_t held = 0; held < kSteps; ++held) {  // tokens of each sequence that are in the cache already
    const std::int32_t before[kBatch] = {held, held}, after[kBatch] = {held + 1, held + 1};
    device.upload(step.old_lengths.data(), before, sizeof before);
    device.upload(step.lengths.data(), after, sizeof after);
    device.synchronise();
    device.replay(graph, stream);
    device.download(got.data(), step.output.data(), kOutputBytes);
    device.synchronise();
    wrong += std::ssize(got) - std::count(got.begin(), got.end(), kThree);
  }
  device.destroy_stream(stream);
  std::cout << kSteps << " steps of " << kBatch * kFeatures << " outputs, " << wrong << " wrong\n";
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** names) try {
  const std::string name = count > 2 ? names[1] : "cpu:sm_80";
  return run(cubit::Device(name), count > 2 ? names[2] : name);
} catch (const cubit::Error& error) {
  std::cerr << error.what() << "\n";
  return error.code() == CUBIT_COMPILER_UNAVAILABLE || error.code() == CUBIT_DRIVER_UNAVAILABLE ? kSkipped : 1;
}
