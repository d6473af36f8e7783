// Measures, with a signed bundle of 10,000 entries: the start of an engine, with and without a public key, and the
// first request of a kernel, which the engine finds, verifies and decompresses. The system may hold the file's pages.
// With a file, it also measures the first request by the text of a descriptor, which makes the kernel's source as well.
// request_bench measures requests from memory. Uses Google Benchmark; needs no GPU, because nothing is loaded.
//
//   bundle_bench              a bundle of made-up kernels of 100 KB each
//   bundle_bench FILE.cubit   a bundle that cubit compile --bundle wrote; measured without a key
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "cubit_commit.hpp"
#include "ops/session.hpp"
#include "runtime/bundle/bundle.hpp"
#include "runtime/bundle/sign.hpp"
#include "runtime/bundle/writer.hpp"
#include "runtime/cache/files.hpp"
#include "runtime/engine.hpp"

namespace {

namespace fs = std::filesystem;
using namespace cubit;

constexpr int kEntries = 10'000;
constexpr int kDifferent = 50;  // different contents; compressing 10,000 takes minutes and changes nothing
constexpr std::size_t kCodeBytes = 100'000;

/// Two of three bytes are zero, so zstd compresses the code to about a third. It compresses cubins to about a quarter.
std::vector<std::byte> made_up_code(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> code(kCodeBytes);
  for (std::size_t i = 0; i < code.size(); i += 3) code[i] = static_cast<std::byte>(random());
  return code;
}

codegen::KernelSource made_up_source(int number) {
  codegen::KernelSource source;
  source.descriptor = fmt::format("bench:number={}", number);
  source.template_name = "bench.cuh";
  source.template_text = fmt::format("// {}\n", number);
  source.target = "sm_90a";
  source.entry_point = "bench";
  return source;
}

std::string made_up_bundle() {
  std::vector<runtime::PackedEntry> packed;
  for (int i = 0; i < kDifferent; ++i) {
    runtime::Artifact artifact;
    artifact.compiler = {13, 0, 88};
    artifact.descriptor = fmt::format("bench:number={}", i);
    artifact.target = "sm_90a";
    artifact.entry_point = "bench";
    artifact.cubin = made_up_code(static_cast<unsigned>(i));
    packed.push_back(runtime::pack(artifact, "0.0.0"));
  }
  runtime::BundleWriter writer;
  for (int i = 0; i < kEntries; ++i) {
    runtime::PackedEntry entry = packed[static_cast<std::size_t>(i % kDifferent)];
    entry.record.key = runtime::request_key(made_up_source(i));
    writer.add(std::move(entry));
  }
  return writer.bytes();
}

void write(const std::string& path, const std::string& content) {
  if (runtime::publish_file(path, content).error != 0) std::abort();
}

/// Signs the bundle at `path` in its place. Returns the public key.
std::string sign(const std::string& path, std::string bundle) {
  const runtime::KeyPair keys = runtime::make_keys();
  runtime::BundleHeader header = runtime::Bundle::open(path).header();
  header.signature = runtime::sign_root(runtime::root_of(bundle), keys.secret);
  bundle.replace(0, runtime::kBundlePageBytes, runtime::header_page(header));
  write(path, bundle);
  return keys.signer.hex();
}

void engine_start(benchmark::State& state, const std::string& path, const std::string& public_keys) {
  for (auto _ : state) {
    runtime::Settings settings;
    settings.bundles = {path};
    settings.public_keys = public_keys;
    const runtime::Engine engine(settings, {});
    benchmark::DoNotOptimize(&engine);
    if (!engine.store_reports().back().readable) state.SkipWithError("the bundle cannot be read");
  }
}

runtime::Settings settings_with(const std::string& path) {
  runtime::Settings settings;
  settings.bundles = {path};
  settings.compile_policy = runtime::CompilePolicy::never;
  return settings;
}

/// The sources of up to 1000 entries of the bundle, in random order.
std::vector<codegen::KernelSource> sources_of(const std::string& path, bool is_made_up) {
  const runtime::Bundle bundle = runtime::Bundle::open(path);
  std::vector<codegen::KernelSource> sources;
  std::vector<std::uint64_t> order(bundle.entries());
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  order.resize(std::min<std::size_t>(order.size(), 1000));
  for (const std::uint64_t index : order) {
    if (is_made_up) {
      sources.push_back(made_up_source(static_cast<int>(index)));
      continue;
    }
    const runtime::BundleRecord record = bundle.record(index);
    const runtime::BundleFacts facts = bundle.facts(record);
    const codegen::Architecture& architecture = codegen::find_architecture(facts.target);
    sources.push_back(ops::Session::sources(facts.descriptor, architecture, record.code).at(0));
  }
  return sources;
}

/// Calls `get` for each kernel of the bundle once in each of many engines.
template <class Get>
void first_requests(benchmark::State& state, const std::string& path, std::span<const codegen::KernelSource> sources,
                    Get get) {
  std::optional<ops::Session> session;
  std::size_t next = 0;
  for (auto _ : state) {
    if (next % sources.size() == 0) {
      state.PauseTiming();
      session.emplace(settings_with(path), runtime::LogSink());
      state.ResumeTiming();
    }
    get(*session, sources[next++ % sources.size()]);
  }
  const runtime::Counters counters = session->engine().counters();
  if (counters.disk_hits == 0 || counters.memory_hits != 0) state.SkipWithError("a request was no first request");
}

void first_get(benchmark::State& state, const std::string& path, std::span<const codegen::KernelSource> sources) {
  first_requests(state, path, sources, [](ops::Session& session, const codegen::KernelSource& source) {
    benchmark::DoNotOptimize(session.engine().get(source));
  });
}

void first_get_by_text(benchmark::State& state, const std::string& path,
                       std::span<const codegen::KernelSource> sources) {
  first_requests(state, path, sources, [](ops::Session& session, const codegen::KernelSource& source) {
    benchmark::DoNotOptimize(session.get(source.descriptor, codegen::find_architecture(source.target), source.code));
  });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("cubit_commit", kCommit);
  const fs::path folder = fs::temp_directory_path();
  const std::string made_up = (folder / fmt::format("bundle_bench-{}.cubit", ::getpid())).string();
  const std::string path = argc > 1 ? argv[1] : made_up;
  std::string public_key;
  if (argc <= 1) {
    const std::string bundle = made_up_bundle();
    write(path, bundle);
    public_key = sign(path, bundle);
  }
  benchmark::AddCustomContext("bundle_entries", fmt::format("{}", runtime::Bundle::open(path).entries()));
  benchmark::RegisterBenchmark("engine_start", engine_start, path, "")->Unit(benchmark::kMicrosecond);
  if (!public_key.empty()) {
    benchmark::RegisterBenchmark("engine_start_with_key", engine_start, path, public_key)
        ->Unit(benchmark::kMicrosecond);
  }
  const std::vector<codegen::KernelSource> sources = sources_of(path, argc <= 1);
  benchmark::RegisterBenchmark("first_get", first_get, path, sources)->Unit(benchmark::kMicrosecond);
  if (argc > 1) {
    benchmark::RegisterBenchmark("first_get_by_text", first_get_by_text, path, sources)->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  if (argc <= 1) fs::remove(made_up);
}
