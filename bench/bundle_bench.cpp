// Measures the start of an engine with a signed bundle of 10,000 entries, with and without a public key, and the first
// request of an entry: found, verified and decompressed. The store keeps nothing between requests, so every request is
// a first one, but for the file's pages, which the system may hold. Uses Google Benchmark; needs no GPU.
//
//   bundle_bench              a bundle of made-up kernels of 100 KB each
//   bundle_bench FILE.cubit   a bundle that cubit compile --bundle wrote; measured without a key
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "cubit_commit.hpp"
#include "runtime/bundle/bundle_store.hpp"
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
    entry.record.key.bytes = runtime::content_hash(fmt::format("key {}", i));
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

struct Wanted {
  runtime::BundleRecord record;
  runtime::BundleFacts facts;
};

std::vector<Wanted> random_entries(const std::string& path) {
  const runtime::Bundle bundle = runtime::Bundle::open(path);
  std::vector<Wanted> wanted;
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const runtime::BundleRecord record = bundle.record(random() % bundle.entries());
    wanted.push_back({record, bundle.facts(record)});
  }
  return wanted;
}

void first_get(benchmark::State& state, const std::string& path) {
  const std::vector<Wanted> wanted = random_entries(path);
  const runtime::BundleStore store(path, {}, {}, {});
  std::size_t next = 0;
  for (auto _ : state) {
    const auto& [record, facts] = wanted[next++ % wanted.size()];
    const auto found = store.find({.key = record.key,
                                   .target = facts.target,
                                   .entry_point = facts.entry_point,
                                   .code = record.code,
                                   .exact = record.compiler});
    if (!found) state.SkipWithError("an entry was not found");
    benchmark::DoNotOptimize(found->cubin.data());
  }
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
  benchmark::RegisterBenchmark("first_get", first_get, path)->Unit(benchmark::kMicrosecond);
  benchmark::RunSpecifiedBenchmarks();
  if (argc <= 1) fs::remove(made_up);
}
