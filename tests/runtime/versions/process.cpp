// This program is a process of one version of the library. It prints what it did, and fails if it was given code of
// another version.
//
//   process FOLDER get COUNT TEMPLATES   gets kernels whose templates hold the text TEMPLATES
//   process FOLDER stats | verify        counts the entries, or the entries that are damaged
//   process FOLDER prune BYTES           deletes the least recently used entries
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/engine.hpp"

namespace {

using namespace cubit;

/// What this version compiles for a source.
std::string code_of(const codegen::KernelSource& source) {
  return fmt::format("code of the {} version for {}", VERSION_NAME, source.template_text);
}

class VersionCompiler : public runtime::Compiler {
 public:
  const runtime::CompilerVersion& version() const override { return version_; }
  runtime::Compiled compile(const codegen::KernelSource& source) const override {
    const std::string code = code_of(source);
    runtime::Compiled compiled;
    compiled.cubin.resize(code.size());
    std::memcpy(compiled.cubin.data(), code.data(), code.size());
    compiled.milliseconds = 1;
    return compiled;
  }

 private:
  runtime::CompilerVersion version_{13, 0, 88};
};

codegen::KernelSource source_of(int number, const std::string& templates) {
  codegen::KernelSource source;
  source.descriptor = fmt::format("small:number={}", number);
  source.template_name = "small.cuh";
  source.template_text = fmt::format("// kernel {} of templates {}\n", number, templates);
  source.target = "sm_90a";
  source.entry_point = "small";
  source.launch = {.threads = 32, .dynamic_shared_memory = 0};
  return source;
}

int get(runtime::Engine& engine, int count, const std::string& templates) {
  for (int number = 0; number < count; ++number) {
    const codegen::KernelSource source = source_of(number, templates);
    const auto kernel = engine.get(source);
    const std::vector<std::byte>& cubin = kernel->artifact().cubin;
    const std::string code(reinterpret_cast<const char*>(cubin.data()), cubin.size());
    if (code == code_of(source)) continue;
    fmt::print("the {} version was given \"{}\" for {}\n", VERSION_NAME, code, source.descriptor);
    return 1;
  }
  const runtime::Counters counters = engine.counters();
  fmt::print("compiles={} hits={}\n", counters.compiles, counters.disk_hits);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string task = argv[2];
  const auto log = [](runtime::LogLevel level, std::string_view line) {
    if (level >= runtime::LogLevel::warning) fmt::print("{}\n", line);
  };
  runtime::Engine engine({.cache_dir = argv[1]}, log, std::make_shared<VersionCompiler>());
  if (task == "get" && argc == 5) return get(engine, std::atoi(argv[3]), argv[4]);
  const runtime::DiskCache& cache = engine.disk_cache();
  if (task == "stats") fmt::print("entries={}\n", cache.stats().entries);
  if (task == "verify") fmt::print("damaged={}\n", cache.remove_damaged().size());
  if (task == "prune" && argc == 4) {
    const runtime::CacheStats stats = cache.prune({.bytes = std::strtoull(argv[3], nullptr, 10)});
    fmt::print("removed={} entries={}\n", stats.removed, stats.entries);
  }
  return 0;
}
