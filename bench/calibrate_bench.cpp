// Throughput of collecting statistics, in bytes of activations per second, on 2 threads: from memory, from a file in
// the page cache, from a file that is dropped from the page cache before every run, and from a file that is larger than
// the memory that the process may use.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cubit_commit.hpp"

namespace {

using cubit::calibrate::Collect;

constexpr int kThreads = 2;
constexpr std::int64_t kTokens = 8192;
constexpr std::int64_t kChannels = 4096;

constexpr Collect kRanges{.histogram = false, .moments = false};
constexpr Collect kHistogram{.histogram = true, .moments = false};
constexpr Collect kAll{};

const std::vector<float>& values() {
  static const std::vector<float> made = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> numbers(static_cast<std::size_t>(kTokens * kChannels));
    for (float& number : numbers) number = normal(random);
    return numbers;
  }();
  return made;
}

const std::vector<std::uint16_t>& bf16_values() {
  static const std::vector<std::uint16_t> made = [] {
    std::vector<std::uint16_t> halves;
    for (const float value : values())
      halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    return halves;
  }();
  return made;
}

std::span<const std::byte> data_of(const std::string& type) {
  // The bits of bf16 numbers, read as fp16, are finite numbers of another distribution.
  return type == "BF16" || type == "F16" ? std::as_bytes(std::span(bf16_values())) : std::as_bytes(std::span(values()));
}

void add(benchmark::State& state, const std::string& type, Collect collect) {
  const std::vector<std::int64_t> shape = {kTokens, kChannels};
  const auto data = data_of(type);
  cubit::calibrate::Statistics statistics(collect);
  for (auto _ : state) statistics.add({type, shape, data}, kThreads);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(data.size()));
}

constexpr std::size_t kLayers = 8;
constexpr std::size_t kLayersOfLargeFile = 64;

/// A file of activations, written layer by layer and removed in the end.
class ActivationFile {
 public:
  ActivationFile(const std::string& type, std::size_t layers)
      : path_(std::filesystem::temp_directory_path() /
              ("calibrate_bench_" + std::to_string(::getpid()) + "_" + std::to_string(layers))),
        bytes_(layers * data_of(type).size()) {
    const std::span<const std::byte> data = data_of(type);
    std::string header = "{";
    for (std::size_t layer = 0; layer < layers; ++layer) {
      header += (layer == 0 ? "\"layer" : ",\"layer") + std::to_string(layer) + R"(":{"dtype":")" + type +
                R"(","shape":[)" + std::to_string(kTokens) + "," + std::to_string(kChannels) + R"(],"data_offsets":[)" +
                std::to_string(layer * data.size()) + "," + std::to_string((layer + 1) * data.size()) + "]}";
    }
    header += "}";
    const std::uint64_t length = header.size();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    for (std::size_t layer = 0; layer < layers; ++layer)
      file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  }
  ~ActivationFile() { std::filesystem::remove(path_); }
  ActivationFile(const ActivationFile&) = delete;
  ActivationFile& operator=(const ActivationFile&) = delete;

  const std::string& path() const { return path_; }
  std::size_t bytes() const { return bytes_; }  ///< of the tensors

  /// Drops the file's pages from the page cache, so that the next run reads the disk.
  void drop_from_page_cache() const {
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(file);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }

 private:
  std::string path_;
  std::size_t bytes_;
};

/// What this process has read from the disk, in bytes.
std::int64_t disk_bytes() {
  constexpr std::int64_t kBlock = 512;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_inblock * kBlock;
}

/// `is_dropped`: the disk is read; otherwise the system keeps the file in memory. The counter `disk` is the share of
/// the file that came from the disk.
void add_file(benchmark::State& state, const ActivationFile& file, Collect collect, bool is_dropped) {
  const std::int64_t disk_before = disk_bytes();
  for (auto _ : state) {
    if (is_dropped) {
      state.PauseTiming();
      file.drop_from_page_cache();
      state.ResumeTiming();
    }
    cubit::calibrate::Collector(collect, kThreads).add_file(file.path());
  }
  const auto bytes = state.iterations() * static_cast<std::int64_t>(file.bytes());
  state.SetBytesProcessed(bytes);
  state.counters["disk"] = static_cast<double>(disk_bytes() - disk_before) / static_cast<double>(bytes);
}

void add_small_file(benchmark::State& state, Collect collect, bool is_dropped) {
  static const ActivationFile file("BF16", kLayers);
  add_file(state, file, collect, is_dropped);
}

/// The bytes that this process and its part of the page cache may take: the limit of its control group (cgroup) or the
/// machine's memory.
std::uint64_t memory_limit() {
  std::uint64_t least =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::string path = line.substr(line.rfind(':') + 1);
    const bool is_version_2 = line.starts_with("0::");
    if (!is_version_2 && line.find(":memory:") == std::string::npos) continue;
    std::ifstream file(is_version_2 ? "/sys/fs/cgroup" + path + "/memory.max"
                                    : "/sys/fs/cgroup/memory" + path + "/memory.limit_in_bytes");
    std::uint64_t limit = 0;
    if (file >> limit) least = std::min(least, limit);
  }
  return least;
}

/// A file that cannot stay in memory. Without a limit of a quarter of its size, which a control group sets, nothing is
/// written and the case is skipped.
void add_large_file(benchmark::State& state, Collect collect) {
  constexpr std::uint64_t kBytes = std::uint64_t{kLayersOfLargeFile} * kTokens * kChannels * sizeof(std::uint16_t);
  if (memory_limit() > kBytes / 4) {
    state.SkipWithError("needs a memory limit of at most 1 GiB; bench/notes/calibration.md says how to set the limit");
    return;
  }
  static const ActivationFile file("BF16", kLayersOfLargeFile);
  add_file(state, file, collect, true);
}

std::string processor() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

BENCHMARK_CAPTURE(add, bf16_ranges, "BF16", kRanges)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, bf16_histogram, "BF16", kHistogram)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, bf16_all, "BF16", kAll)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, f16_ranges, "F16", kRanges)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, f16_histogram, "F16", kHistogram)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, f32_ranges, "F32", kRanges)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, f32_all, "F32", kAll)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_small_file, bf16_ranges_cached, kRanges, false)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_small_file, bf16_histogram_cached, kHistogram, false)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_small_file, bf16_all_cached, kAll, false)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_small_file, bf16_ranges_dropped, kRanges, true)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_small_file, bf16_histogram_dropped, kHistogram, true)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_large_file, bf16_ranges, kRanges)->MeasureProcessCPUTime()->UseRealTime()->Iterations(3);
BENCHMARK_CAPTURE(add_large_file, bf16_histogram, kHistogram)->MeasureProcessCPUTime()->UseRealTime()->Iterations(3);
BENCHMARK_CAPTURE(add_large_file, bf16_all, kAll)->MeasureProcessCPUTime()->UseRealTime()->Iterations(3);

int main(int argc, char** argv) {
  benchmark::AddCustomContext("cubit_commit", cubit::kCommit);
  benchmark::AddCustomContext("processor", processor());
  benchmark::AddCustomContext("compiler", __VERSION__);
  benchmark::AddCustomContext("memory_limit_bytes", std::to_string(memory_limit()));
  benchmark::AddCustomContext("case",
                              "8192 tokens of 4096 channels per layer; small files have 8 layers, large files 64");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
