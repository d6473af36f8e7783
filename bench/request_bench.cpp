// Measures requests by text through the public surface, for the INT4 decode kernel with head_dim 128. Cold requests are
// also split into the compiler's time and the rest, and are measured for family sm80 too, which every architecture
// since sm_80 supports. Other requests come from disk in a new engine, or from memory. Uses Google Benchmark; needs no
// GPU, because nothing is loaded.
#include <benchmark/benchmark.h>

#include <cubit/cubit.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cubit_commit.hpp"

namespace {

namespace fs = std::filesystem;

const std::string kDescriptor = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";
const std::string kArchitecture = "sm_90a";

std::string fresh_folder() {
  std::string pattern = (fs::temp_directory_path() / "cubit-bench-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  return pattern;
}

cubit::Engine engine_in(const std::string& folder) {
  cubit::EngineOptions options;
  options.cache_dir = folder.c_str();
  options.compile = CUBIT_COMPILE_ALLOW;
  return cubit::Engine(options);
}

/// Loads NVRTC and asks for its version before any timing starts.
void load_compiler(const std::string& folder) { engine_in(folder).get("stream_read", kArchitecture); }

void cold_get(benchmark::State& state, const std::string& descriptor) {
  double compiler = 0;
  double total = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const std::string folder = fresh_folder();
    const cubit::Engine engine = engine_in(folder);
    engine.get("stream_read", kArchitecture);  // this engine's compiler is at hand
    state.ResumeTiming();
    const auto start = std::chrono::steady_clock::now();
    const cubit::Kernel kernel = engine.get(descriptor, kArchitecture);
    total += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    state.PauseTiming();
    compiler += nlohmann::json::parse(kernel.describe()).at("compile_milliseconds").get<double>();
    fs::remove_all(folder);
    state.ResumeTiming();
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["compiler_ms"] = compiler / runs;
  state.counters["beside_compiler_ms"] = (total - compiler) / runs;
}
BENCHMARK_CAPTURE(cold_get, usual, kDescriptor)->Unit(benchmark::kMillisecond)->Iterations(9);
BENCHMARK_CAPTURE(cold_get, family_sm80, kDescriptor + ",family=sm80")->Unit(benchmark::kMillisecond)->Iterations(9);

void disk_hit(benchmark::State& state) {
  const std::string folder = fresh_folder();
  load_compiler(folder);
  engine_in(folder).get(kDescriptor, kArchitecture);
  for (auto _ : state) {
    state.PauseTiming();
    const cubit::Engine engine = engine_in(folder);
    engine.get("stream_read", kArchitecture);
    state.ResumeTiming();
    benchmark::DoNotOptimize(engine.get(kDescriptor, kArchitecture));
  }
  fs::remove_all(folder);
}
BENCHMARK(disk_hit)->Unit(benchmark::kMicrosecond);

void memory_hit(benchmark::State& state) {
  const std::string folder = fresh_folder();
  const cubit::Engine engine = engine_in(folder);
  engine.get(kDescriptor, kArchitecture);
  for (auto _ : state) benchmark::DoNotOptimize(engine.get(kDescriptor, kArchitecture));
  fs::remove_all(folder);
}
BENCHMARK(memory_hit)->Unit(benchmark::kNanosecond);

/// Text, plan, layout search and source without the engine: the work of a cold get before it computes the key.
void explain(benchmark::State& state, const std::string& descriptor) {
  for (auto _ : state) benchmark::DoNotOptimize(cubit::explain(descriptor, kArchitecture));
}
BENCHMARK_CAPTURE(explain, usual, kDescriptor)->Unit(benchmark::kMillisecond);
// No layout of this descriptor is free of conflicts, so the search examines all layouts.
BENCHMARK_CAPTURE(explain, whole_search, "gqa_decode:kv=int4_rows,groups=1")->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  benchmark::AddCustomContext("cubit_commit", cubit::kCommit);
  benchmark::AddCustomContext("descriptor", kDescriptor + " for " + kArchitecture);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
