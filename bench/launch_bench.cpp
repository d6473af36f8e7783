// Measures the host time that cubit_kernel_launch adds to the driver's own time of the same launch. The driver's time
// is that of cuLaunchKernel, with the function, shape and parameters of a captured graph. One measurement repeats a
// launch, which the thread then remembers; another one passes new arguments each time. Needs a GPU, and says so if
// there is none. Usage: launch_bench [FILE.json]
// CUDA Driver API, "Graph Management" and "Execution Control". The few functions are declared here by hand, as in
// runtime/cuda/driver.hpp, so that no header of the toolkit is needed.
#include <cubit/gqa_decode.h>
#include <cubit/w4a16_gemm.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cubit/cubit.hpp>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cubit_commit.hpp"

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Launches are queued without waiting. Their number stays below the queue length (1024) at which the driver blocks.
constexpr int kLaunches = 100;
constexpr int kBatches = 300;
// Different outputs for launches with new arguments: a thread remembers its last thousand launches.
constexpr int kOutputs = 20000;
constexpr std::size_t kOutputStep = 16;
constexpr std::size_t kOutputsRoom = kOutputs * kOutputStep;

/// CUlaunchAttribute. The size of a cluster takes three words of the value.
struct Attribute {
  alignas(8) int id = 0;
  alignas(8) unsigned value[16] = {};
};
constexpr int kClusterDimension = 4;

/// CUlaunchConfig
struct Config {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void* stream;
  Attribute* attributes;
  unsigned attribute_count;
};

/// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNode {
  void* function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  void* context;
};

class Driver {
 public:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW), &close) {
    if (library_ == nullptr) throw std::runtime_error("there is no CUDA driver here");
    find(begin_capture, "cuStreamBeginCapture_v2");
    find(end_capture, "cuStreamEndCapture");
    find(nodes_of, "cuGraphGetNodes");
    find(parameters_of, "cuGraphKernelNodeGetParams_v2");
    find(function_of, "cuKernelGetFunction");
    find(attribute_of, "cuGraphKernelNodeGetAttribute");
    find(launch, "cuLaunchKernel");
    find(launch_with_attributes, "cuLaunchKernelEx");
    find(retain_context, "cuDevicePrimaryCtxRetain");
    find(set_context, "cuCtxSetCurrent");
    find(driver_version, "cuDriverGetVersion");
  }

  int (*begin_capture)(void* stream, int mode) = nullptr;
  int (*end_capture)(void* stream, void** graph) = nullptr;
  int (*nodes_of)(void* graph, void** nodes, std::size_t* count) = nullptr;
  int (*parameters_of)(void* node, KernelNode* parameters) = nullptr;
  int (*function_of)(void** function, void* kernel) = nullptr;
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) = nullptr;
  int (*attribute_of)(void* node, int attribute, unsigned* value) = nullptr;
  int (*launch_with_attributes)(const Config* config, void* function, void** parameters, void** extra) = nullptr;
  int (*retain_context)(void** context, int device) = nullptr;
  int (*set_context)(void* context) = nullptr;
  int (*driver_version)(int* version) = nullptr;

 private:
  static void close(void* library) {
    if (library != nullptr) dlclose(library);
  }
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(dlsym(library_.get(), name));
    if (function == nullptr) throw std::runtime_error(std::string("this CUDA driver has no ") + name);
  }

  std::unique_ptr<void, void (*)(void*)> library_;
};

void require(int result, const char* what) {
  if (result != 0) throw std::runtime_error(std::string(what) + " failed: CUresult " + std::to_string(result));
}

/// A launch as a graph node. The parameters live as long as the graph, which is never destroyed.
struct Recorded {
  KernelNode node{};
  Attribute cluster{.id = kClusterDimension, .value = {}};

  bool has_clusters() const { return cluster.value[0] > 1; }
};

/// Records the one launch that `record` puts on the stream.
Recorded recorded_launch(const Driver& driver, void* stream, const std::function<void()>& record) {
  constexpr int kRelaxed = 2;
  require(driver.begin_capture(stream, kRelaxed), "cuStreamBeginCapture");
  record();
  void* graph = nullptr;
  require(driver.end_capture(stream, &graph), "cuStreamEndCapture");
  std::size_t count = 0;
  require(driver.nodes_of(graph, nullptr, &count), "cuGraphGetNodes");
  if (count != 1) throw std::runtime_error("a launch is " + std::to_string(count) + " nodes of a graph, not 1");
  void* node = nullptr;
  require(driver.nodes_of(graph, &node, &count), "cuGraphGetNodes");
  Recorded result;
  KernelNode& kernel = result.node;
  require(driver.parameters_of(node, &kernel), "cuGraphKernelNodeGetParams");
  if (kernel.function == nullptr) require(driver.function_of(&kernel.function, kernel.kernel), "cuKernelGetFunction");
  require(driver.attribute_of(node, kClusterDimension, result.cluster.value), "cuGraphKernelNodeGetAttribute");
  return result;
}

/// Repeats the recorded launch through the driver alone.
void launch_again(const Driver& driver, Recorded& recorded, void* stream) {
  const KernelNode& node = recorded.node;
  if (recorded.has_clusters()) {
    const Config config{{node.grid[0], node.grid[1], node.grid[2]},
                        {node.block[0], node.block[1], node.block[2]},
                        node.shared_bytes,
                        stream,
                        &recorded.cluster,
                        1};
    return require(driver.launch_with_attributes(&config, node.function, node.parameters, nullptr), "cuLaunchKernelEx");
  }
  require(driver.launch(node.function, node.grid[0], node.grid[1], node.grid[2], node.block[0], node.block[1],
                        node.block[2], node.shared_bytes, stream, node.parameters, nullptr),
          "cuLaunchKernel");
}

/// One case: a kernel, its arguments, and the memory of its tensors.
struct Case {
  std::string name;
  std::string descriptor;
  std::vector<cubit::Buffer> memory;
  std::function<void(const cubit::Kernel&, const cubit::LaunchOptions&)> launch;
  /// Launches with a different output address each time.
  std::function<void(const cubit::Kernel&, const cubit::LaunchOptions&)> launch_anew;
  std::function<std::size_t(const cubit::Kernel&)> workspace;
};

void* add_zeros(Case& item, const cubit::Device& device, std::size_t bytes) {
  item.memory.emplace_back(device, bytes);
  device.fill_zero(item.memory.back().data(), bytes);
  return item.memory.back().data();
}

template <class Arguments>
void set_launch(Case& item, const cubit::Device& device, const Arguments& arguments) {
  item.launch = [arguments](const cubit::Kernel& kernel, const cubit::LaunchOptions& options) {
    kernel.launch(arguments, options);
  };
  item.launch_anew = [arguments = Arguments(arguments), output = static_cast<char*>(arguments.output), turn = 0](
                         const cubit::Kernel& kernel, const cubit::LaunchOptions& options) mutable {
    arguments.output = output + kOutputStep * (turn = (turn + 1) % kOutputs);
    kernel.launch(arguments, options);
  };
  item.workspace = [arguments, device](const cubit::Kernel& kernel) { return kernel.workspace(arguments, &device); };
}

/// An attention case of short sequences, so that a batch of launches does not wait for the device.
Case attention(const cubit::Device& device, const std::string& name, const std::string& fields, int row_bytes,
               int batch, int kv_heads, bool lengths) {
  constexpr int kTokens = 256;
  constexpr int kChannels = 128;
  const int element = fields.find("kv=") == std::string::npos ? 2 : 1;
  const int row = row_bytes / element;
  Case item{name, "gqa_decode:heads_per_kv=8" + fields, {}, {}, {}, {}};
  const std::size_t cache = std::size_t{1} * batch * kTokens * kv_heads * row_bytes;
  cubit_gqa_decode_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.query = add_zeros(item, device, std::size_t{16} * batch * kv_heads * kChannels);
  arguments.key = add_zeros(item, device, cache);
  arguments.value = add_zeros(item, device, cache);
  arguments.output = add_zeros(item, device, std::size_t{16} * batch * kv_heads * kChannels + kOutputsRoom);
  if (lengths) arguments.lengths = static_cast<const int32_t*>(add_zeros(item, device, std::size_t{4} * batch));
  arguments.query_strides[0] = arguments.output_strides[0] = std::int64_t{8} * kv_heads * kChannels;
  arguments.query_strides[1] = arguments.output_strides[1] = kChannels;
  for (auto* strides : {&arguments.key_strides, &arguments.value_strides}) {
    (*strides)[0] = std::int64_t{kTokens} * kv_heads * row;
    (*strides)[1] = std::int64_t{kv_heads} * row;
    (*strides)[2] = row;
  }
  arguments.batch = batch;
  arguments.kv_heads = kv_heads;
  arguments.max_length = kTokens;
  arguments.softmax_scale = 0.088F;
  set_launch(item, device, arguments);
  return item;
}

Case gemm(const cubit::Device& device, const std::string& name, const std::string& fields, int rows) {
  constexpr int kColumns = 1024;
  constexpr int kInner = 1024;
  constexpr int kGroups = kInner / 128;
  Case item{name, "w4a16_gemm" + fields, {}, {}, {}, {}};
  cubit_w4a16_gemm_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.activations = add_zeros(item, device, std::size_t{2} * rows * kInner);
  arguments.qweight = add_zeros(item, device, std::size_t{kColumns} * kInner / 2);
  arguments.qzeros = add_zeros(item, device, std::size_t{kGroups} * kColumns / 2);
  arguments.scales = add_zeros(item, device, std::size_t{2} * kGroups * kColumns);
  arguments.output = add_zeros(item, device, std::size_t{2} * rows * kColumns + kOutputsRoom);
  arguments.activation_stride = kInner;
  arguments.output_stride = kColumns;
  arguments.m = rows;
  arguments.n = kColumns;
  arguments.k = kInner;
  set_launch(item, device, arguments);
  return item;
}

/// Host microseconds per call. The batch is queued on an idle stream; the wait for its end is not measured.
double time_batch(const cubit::Device& device, cubit_stream stream, const std::function<void()>& call) {
  device.synchronise(stream);
  const auto start = Clock::now();
  for (int i = 0; i < kLaunches; ++i) call();
  const double microseconds = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  device.synchronise(stream);
  return microseconds / kLaunches;
}

json measure(const Driver& driver, const cubit::Engine& engine, const cubit::Device& device, const Case& item,
             const std::string& architecture) {
  const cubit::Kernel kernel = engine.get(item.descriptor, architecture);
  kernel.prepare(device);
  cubit::Buffer workspace(device, std::max<std::size_t>(item.workspace(kernel), 256));
  device.fill_zero(workspace.data(), workspace.bytes());
  device.synchronise();
  const cubit_stream stream = device.create_stream();
  cubit::LaunchOptions named{
      .device = &device, .stream = stream, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()};
  cubit::LaunchOptions current = named;
  current.device = nullptr;
  Recorded raw = recorded_launch(driver, stream, [&] { item.launch(kernel, named); });
  constexpr int kCalls = 4;
  const std::function<void()> calls[kCalls] = {
      [&] { launch_again(driver, raw, stream); }, [&] { item.launch(kernel, named); },
      [&] { item.launch(kernel, current); }, [&] { item.launch_anew(kernel, named); }};
  // Batches of the four kinds alternate, so that a slow moment of the machine affects all kinds. Each kind reports its
  // fastest tenth.
  std::vector<double> batches[kCalls];
  for (int batch = 0; batch < kBatches; ++batch) {
    for (int which = 0; which < kCalls; ++which) batches[which].push_back(time_batch(device, stream, calls[which]));
  }
  double least[kCalls];
  for (int which = 0; which < kCalls; ++which) {
    std::vector<double>& times = batches[which];
    std::nth_element(times.begin(), times.begin() + kBatches / 10, times.end());
    least[which] = times[kBatches / 10];
  }
  device.destroy_stream(stream);
  std::printf("%-44s %-60s %6.3f %6.3f %6.3f %6.3f us\n", item.name.c_str(), item.descriptor.c_str(), least[0],
              least[1] - least[0], least[2] - least[0], least[3] - least[0]);
  return {{"name", item.name},
          {"descriptor", item.descriptor},
          {"blocks", raw.node.grid[0] * raw.node.grid[1] * raw.node.grid[2]},
          {"cluster_blocks", std::max(raw.cluster.value[0], 1U)},
          {"driver_microseconds", least[0]},
          {"beside_driver_microseconds", least[1] - least[0]},
          {"beside_driver_of_current_context_microseconds", least[2] - least[0]},
          {"beside_driver_of_new_arguments_microseconds", least[3] - least[0]},
          {"launches", kLaunches},
          {"batches", kBatches}};
}

std::vector<Case> cases(const cubit::Device& device) {
  const std::string int4 = ",kv=int4_rows,groups=4";
  std::vector<Case> all;
  all.push_back(attention(device, "one sequence", int4, 80, 1, 1, false));
  all.push_back(attention(device, "32 sequences", int4, 80, 32, 1, false));
  all.push_back(attention(device, "32 sequences, lengths on the device", int4, 80, 32, 1, true));
  all.push_back(attention(device, "8 KV heads", int4, 80, 4, 8, false));
  all.push_back(attention(device, "bf16, 32 sequences", "", 256, 32, 1, false));
  all.push_back(attention(device, "family sm80, 32 sequences", int4 + ",family=sm80", 80, 32, 1, false));
  all.push_back(gemm(device, "one row", ":tile_m=16,tile_n=256", 1));
  all.push_back(gemm(device, "one row, blocks of 64 columns", ":tile_m=16,tile_n=64", 1));
  all.push_back(gemm(device, "64 rows", ":tile_m=64,tile_n=256", 64));
  all.push_back(gemm(device, "one row, a set", "", 1));
  return all;
}

int run(const char* path) {
  const Driver driver;
  const cubit::Device device("cuda:0");
  // Launches without a named device use the current context. The first device has handle 0 in every driver.
  void* context = nullptr;
  require(driver.retain_context(&context, 0), "cuDevicePrimaryCtxRetain");
  require(driver.set_context(context), "cuCtxSetCurrent");
  const cubit::Engine engine;
  const json facts = json::parse(device.describe());
  const auto architecture = facts.at("architecture").get<std::string>();
  int version = 0;
  require(driver.driver_version(&version), "cuDriverGetVersion");
  std::printf("%-44s %-60s driver, beside it: device named, current context, new arguments\n", "case", "kernel");
  json results = json::array();
  for (const Case& item : cases(device)) {
    json entry = measure(driver, engine, device, item, architecture);
    entry["device"] = facts.at("description");
    entry["driver"] = version;
    entry["commit"] = cubit::kCommit;
    results.push_back(std::move(entry));
  }
  if (path != nullptr) std::ofstream(path) << results.dump(2) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc > 1 ? argv[1] : nullptr); } catch (const std::exception& error) {
  std::fprintf(stderr, "launch_bench: %s\n", error.what());
  return 1;
}
