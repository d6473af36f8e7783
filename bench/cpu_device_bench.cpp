// Times one launch on the CPU device. The case is the INT4 decode kernel with head_dim 128, one sequence of 1024
// tokens, 8 query heads and one KV head. A cold launch runs in a process of its own, which finds NVRTC, compiles the
// CUDA source, has LLVM compile the PTX, and launches. A warm launch uses a loaded kernel. Unwatched launches run on
// all cores; launches whose memory is checked run on one core.
// Uses Google Benchmark; needs NVRTC but no GPU. The smallest of several repetitions is the best estimate.
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cubit/check.hpp>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cubit_commit.hpp"

namespace {

const std::string kDescriptor = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
const std::string kDevice = "cpu:sm_80";
const cubit::Problem::Numbers kSizes = {{"batch", 1}, {"context", 1024}, {"kv_heads", 1}};
constexpr const char* kLaunchOnce = "--launch-once";
constexpr double kKibPerMib = 1024;

/// The case on the device, ready for a launch.
class Case {
 public:
  explicit Case(unsigned watched) : device_(kDevice), problem_(cubit::Problem::random(kDescriptor, kSizes, 1)) {
    device_.watch(watched);
    cubit::EngineOptions options;
    options.cache_dir = "";
    kernel_.emplace(cubit::Engine(std::move(options)).get(kDescriptor, kDevice));
    for (const cubit_tensor& tensor : problem_.inputs()) {
      add(cubit::tensor_bytes(tensor));
      device_.upload(addresses_.back(), tensor.data, buffers_.back().bytes());
    }
    for (const cubit_tensor& tensor : problem_.outputs()) add(cubit::tensor_bytes(tensor));
    workspace_.emplace(device_, kernel_->workspace(arguments(), &device_));
    device_.fill_zero(workspace_->data(), workspace_->bytes());
    kernel_->prepare(device_);
  }

  void launch() const {
    kernel_->launch(arguments(), {.device = &device_,
                                  .stream = nullptr,
                                  .workspace = workspace_->data(),
                                  .workspace_bytes = workspace_->bytes()});
  }
  void drop_counters() const { benchmark::DoNotOptimize(device_.counters()); }
  bool is_good() const {
    std::vector<std::vector<char>> host;
    std::vector<const void*> results;
    for (std::size_t i = problem_.inputs().size(); i < buffers_.size(); ++i) {
      host.emplace_back(buffers_[i].bytes());
      device_.download(host.back().data(), addresses_[i], host.back().size());
    }
    for (const auto& bytes : host) results.push_back(bytes.data());
    return problem_.compare(results).good();
  }

 private:
  const void* arguments() const { return problem_.arguments(addresses_); }
  void add(std::size_t bytes) { addresses_.push_back(buffers_.emplace_back(device_, bytes).data()); }

  cubit::Device device_;
  cubit::Problem problem_;
  std::optional<cubit::Kernel> kernel_;
  std::vector<cubit::Buffer> buffers_;
  std::vector<void*> addresses_;
  std::optional<cubit::Buffer> workspace_;
};

/// Starts this program again for one launch. Returns the peak resident set of that process in KiB, or -1 if it failed.
long launch_in_new_process(unsigned watched) {
  std::string once = kLaunchOnce;
  std::string what = std::to_string(watched);
  std::string self = "/proc/self/exe";
  char* words[] = {self.data(), once.data(), what.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, self.c_str(), nullptr, nullptr, words, environ) != 0) return -1;
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || status != 0) return -1;
  return usage.ru_maxrss;
}

void cold(benchmark::State& state, unsigned watched) {
  for (auto _ : state) {
    const long peak = launch_in_new_process(watched);
    if (peak < 0) state.SkipWithError("the launch failed");
    state.counters["peak_rss_mib"] = static_cast<double>(peak) / kKibPerMib;
  }
}

void warm(benchmark::State& state, unsigned watched) {
  const Case one(watched);
  for (auto _ : state) {
    one.launch();
    state.PauseTiming();
    one.drop_counters();
    state.ResumeTiming();
  }
  if (!one.is_good()) state.SkipWithError("the result is wrong");
}

void add_benchmarks() {
  const struct {
    const char* name;
    unsigned watched;
  } modes[] = {{"unwatched", 0},
               {"memory", CUBIT_WATCH_MEMORY},
               {"counters", CUBIT_WATCH_COUNTERS},
               {"memory_and_counters", CUBIT_WATCH_MEMORY | CUBIT_WATCH_COUNTERS}};
  const auto smallest = [](const std::vector<double>& values) {
    return *std::min_element(values.begin(), values.end());
  };
  for (const auto& kind : {std::pair{"cold/", &cold}, std::pair{"warm/", &warm}}) {
    for (const auto& mode : modes) {
      benchmark::RegisterBenchmark((std::string(kind.first) + mode.name).c_str(), kind.second, mode.watched)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime()
          ->Iterations(1)
          ->Repetitions(7)
          ->ComputeStatistics("minimum", smallest)
          ->ReportAggregatesOnly(true);
    }
  }
}

std::string processor() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

int launch_once(unsigned watched) {
  try {
    Case(watched).launch();
    return 0;
  } catch (const cubit::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && argv[1] == std::string_view(kLaunchOnce))
    return launch_once(static_cast<unsigned>(std::stoul(argv[2])));
  benchmark::AddCustomContext("cubit_commit", cubit::kCommit);
  benchmark::AddCustomContext("descriptor", kDescriptor + " on " + kDevice);
  benchmark::AddCustomContext("case", "batch 1, context 1024, 1 KV head, 8 query heads");
  benchmark::AddCustomContext("processor", processor());
  add_benchmarks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
