// Measures the time that the engine adds to the compiler's own time, and the time of a cache hit. Uses Google
// Benchmark; --benchmark_out=… writes JSON whose context holds the compiler's version and cubit's commit. Needs no GPU:
// nothing is loaded onto a device.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "codegen/kernel_source.hpp"
#include "cubit_commit.hpp"
#include "runtime/cache/key.hpp"
#include "runtime/compiler/load_nvrtc.hpp"
#include "runtime/engine.hpp"
#include "runtime/settings.hpp"

namespace {

namespace fs = std::filesystem;
using namespace cubit;
using Clock = std::chrono::steady_clock;

// About the sizes of the INT4 decode kernel: one template, a dozen headers, a cubin of 100 KB.
constexpr std::size_t kTextBytes = 60'000;
constexpr std::size_t kCubinBytes = 100'000;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A folder that exists for this run only. TMPDIR can place it on the disk that holds caches instead of in memory.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "cubit-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  runtime::Settings settings() const {
    runtime::Settings settings = runtime::Settings::from_environment();
    settings.cache_dir = path_;
    settings.compile_policy = runtime::CompilePolicy::allow;
    return settings;
  }

 private:
  std::string path_;
};

codegen::KernelSource source_of(int number) {
  codegen::KernelSource source;
  source.descriptor = fmt::format("bench:number={}", number);
  source.template_name = "bench.cuh";
  source.template_text =
      "#include \"plan.cuh\"\nextern \"C\" __global__ void bench(float* x) { x[threadIdx.x] += plan; }\n";
  std::string plan = fmt::format("constexpr float plan = {};\n", number);
  while (plan.size() < kTextBytes)
    plan += "// as many bytes as the device headers of a real kernel have, in comments\n";
  source.headers = {{"plan.cuh", std::move(plan)}};
  source.options = codegen::default_options();
  source.target = "sm_90a";
  source.entry_point = "bench";
  source.launch.threads = 32;
  return source;
}

/// A compiler that answers at once, so that the measurement contains only the engine's own work.
class InstantCompiler final : public runtime::Compiler {
 public:
  const runtime::CompilerVersion& version() const override { return version_; }
  runtime::Compiled compile(const codegen::KernelSource&) const override {
    runtime::Compiled compiled;
    compiled.cubin.resize(kCubinBytes);
    return compiled;
  }

 private:
  runtime::CompilerVersion version_{13, 0, 88};
};

/// Time of a cold get without the time inside the compiler: key, lookup, lock, and store with its fsyncs.
void cold_get_overhead(benchmark::State& state, const std::shared_ptr<const runtime::Compiler>& compiler) {
  const Folder folder;
  runtime::Engine engine(folder.settings(), {}, compiler);
  int number = 0;
  for (auto _ : state) {
    const auto source = source_of(++number);
    const auto start = Clock::now();
    const auto kernel = engine.get(source);
    state.SetIterationTime(seconds_since(start) - kernel->artifact().compile_milliseconds / 1000);
  }
}

void cold_get_overhead_nvrtc(benchmark::State& state) {
  try {
    const auto settings = runtime::Settings::from_environment();
    const auto compiler = runtime::load_nvrtc(settings.nvrtc_path, 0, settings.nvrtc_folders, settings.nvrtc_folder);
    static_cast<void>(compiler->version());
    cold_get_overhead(state, compiler);
  } catch (const Failure& failure) {
    state.SkipWithError(failure.what());
  }
}
BENCHMARK(cold_get_overhead_nvrtc)->UseManualTime()->Unit(benchmark::kMillisecond);

void cold_get_overhead_instant_compiler(benchmark::State& state) {
  cold_get_overhead(state, std::make_shared<InstantCompiler>());
}
BENCHMARK(cold_get_overhead_instant_compiler)->UseManualTime()->Unit(benchmark::kMillisecond);

/// The first get of a key that another process stored. Nothing is loaded onto a device.
void disk_hit(benchmark::State& state) {
  const Folder folder;
  const auto compiler = std::make_shared<InstantCompiler>();
  const auto source = source_of(1);
  runtime::Engine(folder.settings(), {}, compiler).get(source);
  for (auto _ : state) {
    runtime::Engine engine(folder.settings(), {}, compiler);
    const auto start = Clock::now();
    engine.get(source);
    state.SetIterationTime(seconds_since(start));
    if (engine.counters().disk_hits != 1) state.SkipWithError("not a disk hit");
  }
}
BENCHMARK(disk_hit)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// Get by source: each call computes the key of 60 KB of text. The table of texts above the engine avoids this cost.
void memory_hit_by_source(benchmark::State& state) {
  runtime::Engine engine({}, {}, std::make_shared<InstantCompiler>());
  const auto source = source_of(1);
  engine.get(source);
  for (auto _ : state) benchmark::DoNotOptimize(engine.get(source));
}
BENCHMARK(memory_hit_by_source)->Unit(benchmark::kMicrosecond);

void key_of_60_kb(benchmark::State& state) {
  const auto source = source_of(1);
  for (auto _ : state) benchmark::DoNotOptimize(runtime::request_key(source));
}
BENCHMARK(key_of_60_kb)->Unit(benchmark::kMicrosecond);

/// The first costs of a process: find the compiler's library and ask for its build.
std::string compiler_context() {
  try {
    const auto settings = runtime::Settings::from_environment();
    const auto start = Clock::now();
    const auto compiler = runtime::load_nvrtc(settings.nvrtc_path, 0, settings.nvrtc_folders, settings.nvrtc_folder);
    const double loaded = seconds_since(start);
    const std::string version = compiler->version().text();
    return fmt::format("NVRTC {}, found in {:.1f} ms, build known after {:.1f} ms", version, 1000 * loaded,
                       1000 * seconds_since(start));
  } catch (const Failure& failure) {
    return failure.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::AddCustomContext("cubit_commit", kCommit);
  benchmark::AddCustomContext("compiler", compiler_context());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
