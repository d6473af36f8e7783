// Throughput of collecting statistics, in bytes of activations per second, on 2 threads.
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
  return type == "BF16" ? std::as_bytes(std::span(bf16_values())) : std::as_bytes(std::span(values()));
}

void add(benchmark::State& state, const std::string& type, Collect collect) {
  const std::vector<std::int64_t> shape = {kTokens, kChannels};
  const auto data = data_of(type);
  cubit::calibrate::Statistics statistics(collect);
  for (auto _ : state) statistics.add({type, shape, data}, kThreads);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(data.size()));
}

/// Reads a file, which the system keeps in memory.
void add_file(benchmark::State& state, const std::string& type, Collect collect) {
  namespace fs = std::filesystem;
  const std::string folder = fs::temp_directory_path() / "cubit_calibrate_bench";
  fs::remove_all(folder);
  cubit::calibrate::Recorder recorder(folder);
  const std::vector<std::int64_t> shape = {kTokens, kChannels};
  recorder.add("layer", {type, shape, data_of(type)});
  const std::string file = recorder.end_batch();
  for (auto _ : state) cubit::calibrate::Collector(collect, kThreads).add_file(file);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(data_of(type).size()));
  fs::remove_all(folder);
}

}  // namespace

BENCHMARK_CAPTURE(add, bf16_ranges, "BF16", kRanges)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, bf16_histogram, "BF16", kHistogram)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, bf16_all, "BF16", kAll)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, f32_ranges, "F32", kRanges)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add, f32_all, "F32", kAll)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_file, bf16_ranges, "BF16", kRanges)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK_CAPTURE(add_file, bf16_all, "BF16", kAll)->MeasureProcessCPUTime()->UseRealTime();

BENCHMARK_MAIN();
