// Throughput of collecting statistics, in bytes of activations per second, on 2 threads: from memory, from a file in
// the page cache, and from a file that is dropped from the page cache before every run.
#include <fcntl.h>
#include <unistd.h>

#include <benchmark/benchmark.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

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

constexpr int kLayers = 8;

/// Drops the file's pages from the system's memory, so that the next run reads the disk.
void drop_from_page_cache(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

/// Reads a file of several layers. `is_dropped`: the disk is read; otherwise the system keeps the file in memory.
void add_file(benchmark::State& state, const std::string& type, Collect collect, bool is_dropped) {
  namespace fs = std::filesystem;
  const std::string folder = fs::temp_directory_path() / ("cubit_calibrate_bench_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  cubit::calibrate::Recorder recorder(folder);
  const std::vector<std::int64_t> shape = {kTokens, kChannels};
  for (int layer = 0; layer < kLayers; ++layer)
    recorder.add("layer" + std::to_string(layer), {type, shape, data_of(type)});
  const std::string file = recorder.end_batch();
  for (auto _ : state) {
    if (is_dropped) {
      state.PauseTiming();
      drop_from_page_cache(file);
      state.ResumeTiming();
    }
    cubit::calibrate::Collector(collect, kThreads).add_file(file);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kLayers * data_of(type).size()));
  fs::remove_all(folder);
}

}  // namespace

BENCHMARK_CAPTURE(add, bf16_ranges, "BF16", kRanges)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, bf16_histogram, "BF16", kHistogram)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, bf16_all, "BF16", kAll)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, f16_ranges, "F16", kRanges)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, f16_histogram, "F16", kHistogram)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, f32_ranges, "F32", kRanges)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, f32_all, "F32", kAll)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_file, bf16_ranges_cached, "BF16", kRanges, false)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_file, bf16_histogram_cached, "BF16", kHistogram, false)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_file, bf16_all_cached, "BF16", kAll, false)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_file, bf16_ranges_dropped, "BF16", kRanges, true)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_file, bf16_histogram_dropped, "BF16", kHistogram, true)->MeasureProcessCPUTime()->UseRealTime();

BENCHMARK_MAIN();
