// Measures the host time that cubit_kernel_launch adds to the driver's own time of the same launch. The driver's time
// is that of cuLaunchKernel, with the function, shape and parameters of a captured graph. One measurement repeats a
// launch, which the thread then remembers; another one passes new arguments each time. The last measurements let up to
// eight threads launch at the same time, each on a stream of its own. Needs a GPU, and says so if there is none.
// Usage: launch_bench [FILE.json]
// CUDA Driver API, "Graph Management" and "Execution Control". The few functions are declared here by hand, as in
// runtime/cuda/driver.hpp, so that no header of the toolkit is needed.
#include <cubit/gqa_decode.h>
#include <cubit/w4a16_gemm.h>
#include <dlfcn.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cubit/cubit.hpp>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
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

// The kinds of calls: the driver alone, and cubit with the device named, on the current context, and with new
// arguments.
constexpr int kKinds = 4;

/// A case with a stream and a workspace of its own.
class Lane {
 public:
  Lane(const Driver& driver, const cubit::Engine& engine, const cubit::Device& device, const Case& item,
       const std::string& architecture)
      : driver_(driver),
        device_(device),
        item_(item),
        kernel_(engine.get(item.descriptor, architecture)),
        workspace_(device, std::max<std::size_t>(item.workspace(kernel_), 256)),
        stream_(device.create_stream()) {
    kernel_.prepare(device_);
    device_.fill_zero(workspace_.data(), workspace_.bytes());
    device_.synchronise();
    raw_ = recorded_launch(driver_, stream_, [&] { item_.launch(kernel_, options(&device_)); });
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() { device_.destroy_stream(stream_); }

  const Recorded& raw() const { return raw_; }

  /// Host microseconds per call. The batch is queued on an idle stream; the wait for its end is not measured. `begin`
  /// is called before the first call.
  double time_batch(
      int kind, const std::function<void()>& begin = [] {}) {
    device_.synchronise(stream_);
    begin();
    const auto start = Clock::now();
    for (int i = 0; i < kLaunches; ++i) call(kind);
    const double microseconds = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    device_.synchronise(stream_);
    return microseconds / kLaunches;
  }

 private:
  cubit::LaunchOptions options(const cubit::Device* device) const {
    return {.device = device, .stream = stream_, .workspace = workspace_.data(), .workspace_bytes = workspace_.bytes()};
  }
  void call(int kind) {
    if (kind == 0) launch_again(driver_, raw_, stream_);
    if (kind == 1) item_.launch(kernel_, options(&device_));
    if (kind == 2) item_.launch(kernel_, options(nullptr));
    if (kind == 3) item_.launch_anew(kernel_, options(&device_));
  }

  const Driver& driver_;
  cubit::Device device_;
  const Case& item_;
  cubit::Kernel kernel_;
  cubit::Buffer workspace_;
  cubit_stream stream_;
  Recorded raw_;
};

/// The time that `share` of the batches do not exceed.
double quantile(std::vector<double>& times, double share) {
  const auto place = times.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(times.size()));
  std::nth_element(times.begin(), place, times.end());
  return *place;
}

json entry_of(const Case& item, const std::string& name, const double (&times)[kKinds]) {
  std::printf("%-44s %-60s %6.3f %6.3f %6.3f %6.3f us\n", name.c_str(), item.descriptor.c_str(), times[0],
              times[1] - times[0], times[2] - times[0], times[3] - times[0]);
  return {{"name", name},
          {"descriptor", item.descriptor},
          {"driver_microseconds", times[0]},
          {"beside_driver_microseconds", times[1] - times[0]},
          {"beside_driver_of_current_context_microseconds", times[2] - times[0]},
          {"beside_driver_of_new_arguments_microseconds", times[3] - times[0]},
          {"launches", kLaunches},
          {"batches", kBatches}};
}

json measure(const Driver& driver, const cubit::Engine& engine, const cubit::Device& device, const Case& item,
             const std::string& architecture) {
  Lane lane(driver, engine, device, item, architecture);
  // Batches of the kinds alternate, so that a slow moment of the machine affects all kinds. Each kind reports its
  // fastest tenth.
  std::vector<double> batches[kKinds];
  for (int batch = 0; batch < kBatches; ++batch) {
    for (int kind = 0; kind < kKinds; ++kind) batches[kind].push_back(lane.time_batch(kind));
  }
  double least[kKinds];
  for (int kind = 0; kind < kKinds; ++kind) least[kind] = quantile(batches[kind], 0.1);
  json entry = entry_of(item, item.name, least);
  const KernelNode& node = lane.raw().node;
  entry["blocks"] = node.grid[0] * node.grid[1] * node.grid[2];
  entry["cluster_blocks"] = std::max(lane.raw().cluster.value[0], 1U);
  return entry;
}

/// Threads that launch at the same time, each with a stream, a workspace and tensors of its own. All begin each batch
/// together. A kind reports the median of its batches, and of that the mean of the threads.
json measure_threads(const Driver& driver, const cubit::Engine& engine, const cubit::Device& device, void* context,
                     const std::function<Case()>& make, const std::string& architecture, int threads) {
  std::vector<std::unique_ptr<Case>> cases;
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < threads; ++i) {
    cases.push_back(std::make_unique<Case>(make()));
    lanes.push_back(std::make_unique<Lane>(driver, engine, device, *cases.back(), architecture));
  }
  std::barrier together(threads);
  std::vector<std::vector<double>> medians(static_cast<std::size_t>(threads), std::vector<double>(kKinds));
  std::vector<std::thread> running;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    running.emplace_back([&, i] {
      driver.set_context(context);
      std::vector<double> batches[kKinds];
      for (int batch = 0; batch < kBatches; ++batch) {
        for (int kind = 0; kind < kKinds; ++kind)
          batches[kind].push_back(lanes[i]->time_batch(kind, [&] { together.arrive_and_wait(); }));
      }
      for (int kind = 0; kind < kKinds; ++kind)
        medians[i][static_cast<std::size_t>(kind)] = quantile(batches[kind], 0.5);
    });
  }
  for (std::thread& thread : running) thread.join();
  double mean[kKinds] = {};
  for (const auto& of_thread : medians) {
    for (int kind = 0; kind < kKinds; ++kind) mean[kind] += of_thread[static_cast<std::size_t>(kind)] / threads;
  }
  json entry = entry_of(
      *cases.front(), std::to_string(threads) + (threads == 1 ? " thread" : " threads, each") + " on its stream", mean);
  entry["threads"] = threads;
  return entry;
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
  for (const Case& item : cases(device)) results.push_back(measure(driver, engine, device, item, architecture));
  const auto make = [&] { return attention(device, "", ",kv=int4_rows,groups=4", 80, 1, 1, false); };
  for (const int threads : {1, 2, 4, 8})
    results.push_back(measure_threads(driver, engine, device, context, make, architecture, threads));
  for (json& entry : results) {
    entry["device"] = facts.at("description");
    entry["driver"] = version;
    entry["commit"] = cubit::kCommit;
  }
  if (path != nullptr) std::ofstream(path) << results.dump(2) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc > 1 ? argv[1] : nullptr); } catch (const std::exception& error) {
  std::fprintf(stderr, "launch_bench: %s\n", error.what());
  return 1;
}
