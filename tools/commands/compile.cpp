// cubit compile: compiles kernels into the cache, for any architecture, on machines with or without a GPU.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <thread>

#include "files/output_folder.hpp"
#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tools/bundle/bundle_file.hpp"
#include "tools/kernels/compile_jobs.hpp"
#include "tools/options/score_files.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kHelp = R"(Compiles kernels into the cache. A second call finds them there and compiles nothing.
DESCRIPTOR is operator:field=value,field=value; fields at their default may be left out. See cubit operators.
Of a set of kernels (w4a16_gemm without tile_m and tile_n) the command compiles every member.)";

/// {} stands for the usual architectures.
constexpr const char* kExamples = R"(
Examples:
  cubit compile gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4
      for this machine's GPU; without a GPU, for {}
  cubit compile --file kernels.txt --arch sm_80,sm_90a --jobs 8 --cache-dir ship/
      every line of a file ('#' starts a comment), into a folder to ship
  generate-list | cubit compile --file - --json > report.json
      standard input; one JSON object per kernel and architecture
  cubit compile --file kernels.txt --arch sm_80,sm_90a --bundle ship.cubit
      one file to ship (see cubit bundle); after an interruption the same command goes on where it stopped
  cubit compile --file kernels.txt --arch sm_80,sm_90a --bundle shard3.cubit --shard 3/16
      the third of 16 machines; cubit bundle merge makes of all 16 files the bytes of one run

With --output, --bundle or --shard the kernels come from this machine's NVRTC. CUBIT_COMPILER=any also takes what other
versions left in the cache. If kernels fail, a bundle that has more entries than the run made is not replaced.

Exit code: 0 if every kernel is stored, 1 if a kernel failed to compile or could not be stored (the other kernels are
compiled all the same), 2 for bad input.)";

struct CompileOptions {
  std::vector<std::string> descriptors;
  std::optional<std::string> file;
  std::optional<std::string> architectures;
  std::optional<std::string> output;
  std::optional<std::string> bundle;
  std::optional<std::string> shard;
  int jobs = 0;
  bool ptx = false;
  bool json = false;
};

/// The value of --shard: part `index` of `count`, counted from 1.
struct Shard {
  std::size_t index = 1;
  std::size_t count = 1;
};

Shard parse_shard(const std::string& text) {
  constexpr std::size_t kMost = 100'000;
  Shard shard;
  const char* end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  const bool has_count = index.ec == std::errc{} && index.ptr != end && *index.ptr == '/';
  const auto count = has_count ? std::from_chars(index.ptr + 1, end, shard.count) : index;
  if (!has_count || count.ec != std::errc{} || count.ptr != end || shard.index < 1 || shard.count > kMost ||
      shard.index > shard.count) {
    throw BadInput("--shard " + quote(text), "is not a part of a whole",
                   fmt::format("give INDEX/COUNT with 1 <= INDEX <= COUNT <= {}, such as 3/16", kMost));
  }
  return shard;
}

std::vector<DescriptorText> gather(const CompileOptions& options, const Context& context) {
  std::vector<DescriptorText> all;
  for (const std::string& text : options.descriptors) {
    require_descriptor_length(text, "");
    all.push_back({text, ""});
  }
  if (options.file) {
    std::vector<DescriptorText> lines = read_descriptors(*options.file);
    std::move(lines.begin(), lines.end(), std::back_inserter(all));
  }
  ScoreFiles scores(context.scores);
  for (DescriptorText& descriptor : all) descriptor.text = scores.resolve(descriptor.text);
  scores.require_all_used();
  return all;
}

/// "gqa_decode-sm_90a-<first digits of the key>.cubin": a short name that differs for different code.
std::string cubin_name(const CompileResult& result) {
  const std::string& descriptor = result.job.descriptor;
  return fmt::format("{}-{}-{:.16}.{}", descriptor.substr(0, descriptor.find(':')),
                     result.kernel.at("architecture").get<std::string>(),
                     result.kernel.at("request_key").get<std::string>(),
                     result.kernel.at("registers").is_null() ? "ptx" : "cubin");
}

/// Writes every cubin as a file for other tools, and as an entry that cubit reads when the folder is its cache folder.
void write_cubins(const std::string& folder, const std::vector<CompileResult>& results, Context& context) {
  const Engine store = context.cache_at(folder);
  for (const CompileResult& result : results) {
    if (!result.error.empty()) continue;
    store.cache_add(*result.handle);
    write_file(folder, cubin_name(result), {reinterpret_cast<const char*>(result.cubin.data()), result.cubin.size()});
  }
}

bool is_stored(const CompileResult& result, const Engine& reader) {
  try {
    reader.get(result.job.descriptor, result.job.architecture);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Reports kernels that were compiled, but that no store kept. Returns the exit code.
int report_unstored(const std::vector<CompileResult>& results, Context& context) {
  if (context.named_cache_dir() == "") return kExitGood;  // the user asked for no cache
  const Engine reader = context.cache_reader();
  for (const CompileResult& result : results) {
    if (!result.error.empty() || is_stored(result, reader)) continue;
    context.console.say(
        fmt::format("{} for {}: could not be stored in the disk cache; give a folder that can be "
                    "written with --cache-dir, or --output",
                    result.job.descriptor, result.job.architecture));
    return kExitWorkFailed;
  }
  return kExitGood;
}

std::vector<CompileJob> wanted_jobs(const CompileOptions& options, const Context& context) {
  const Shard shard = options.shard ? parse_shard(*options.shard) : Shard{};
  const std::vector<CompileJob> all = plan_jobs(gather(options, context), options.architectures, true);
  const std::vector<CompileJob> jobs = shard_of(all, shard.index, shard.count);
  return options.ptx ? with_ptx(jobs) : jobs;  // a kernel's cubin and PTX are in one shard
}

/// The number of entries of the bundle at `path`; 0 if there is none.
std::uint64_t entries_of_bundle_at(const std::string& path) {
  try {
    return BundleFile(path).entries();
  } catch (const BadInput&) {
    return 0;
  }
}

/// Throws BadInput if the path names a file that is no bundle, which the command would replace.
void require_bundle_or_new(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 || facts.st_size == 0) return;
  try {
    static_cast<void>(BundleFile(path));
  } catch (const BadInput&) {
    throw BadInput("--bundle " + path, "the file is not a bundle, and it would be replaced",
                   "name a bundle or a new file");
  }
}

/// Says that the file of `path` is signed, whose signature does not hold for a new bundle; "" if it is not.
std::string note_about_signature(const std::string& path) {
  try {
    if (BundleFile(path).signer().empty()) return {};
  } catch (const BadInput&) {  // there is no bundle yet
    return {};
  }
  return "the bundle before was signed; sign the new one with cubit bundle sign\n";
}

/// Says why a run with failed kernels must not write the bundle, or returns "".
std::string reason_not_to_write(const std::string& path, const BundleBuilder& builder, std::ptrdiff_t failed) {
  if (failed == 0) return {};
  const std::string failures = fmt::format("{} {} failed", failed, failed == 1 ? "kernel" : "kernels");
  if (builder.entries() == 0) return failures + " and no other is left to write";
  const std::uint64_t before = entries_of_bundle_at(path);
  if (before <= builder.entries()) return {};
  return fmt::format("{}, and the file has {} entries while this run made {}", failures, before, builder.entries());
}

std::ptrdiff_t failures_of(const std::vector<CompileResult>& results) {
  return std::ranges::count_if(results, [](const CompileResult& result) { return !result.error.empty(); });
}

/// Writes the bundle. Returns "ship.cubit: 812 entries, 14.2 MiB". A failed run does not replace a better bundle; the
/// function then says why, and returns "".
std::string store_bundle(const std::string& path, const BundleBuilder& builder, std::ptrdiff_t failed,
                         Context& context) {
  const std::string reason = reason_not_to_write(path, builder, failed);
  if (!reason.empty()) {
    context.console.say(fmt::format("{}: the bundle is not written, because {}", path, reason));
    return {};
  }
  const std::string note = note_about_signature(path);
  const std::uint64_t bytes = builder.write(path);
  return fmt::format("{}: {} {}, {}\n{}", printable(path), builder.entries(),
                     builder.entries() == 1 ? "entry" : "entries", format_bytes(static_cast<double>(bytes)), note);
}

/// How many kernels were made, and how fast.
std::string speed_text(const std::vector<CompileResult>& results, double seconds) {
  const auto compiled = std::ranges::count_if(results, [](const CompileResult& result) { return result.compiled; });
  const auto failed = failures_of(results);
  const auto cached = static_cast<std::ptrdiff_t>(results.size()) - compiled - failed;
  return fmt::format("{} compiled, {} cached, {} failed in {}, {:.1f} kernels per second\n", compiled, cached, failed,
                     format_seconds(seconds), static_cast<double>(compiled) / seconds);
}

void report(const CompileOptions& options, const std::vector<CompileResult>& results, const std::string& summary) {
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const CompileResult& result : results) json.push_back(to_json(result));
    print_json(json);
  } else if (options.bundle) {
    fmt::print("{}{}", summary, failure_table(results));
  } else {
    fmt::print("{}", compile_table(results));
  }
}

int compile(const CompileOptions& options, Context& context) {
  if (options.output || options.bundle || options.shard) context.use_own_compiler();
  if (options.bundle) require_bundle_or_new(*options.bundle);
  const std::vector<CompileJob> jobs = wanted_jobs(options, context);
  if (options.output) make_folder(*options.output, "--output");
  const int threads =
      options.jobs > 0 ? options.jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  BundleBuilder builder;
  const auto keep = [&](CompileResult& result) {
    if (options.bundle) builder.add_kernel(result.job.descriptor, result.kernel, result.cubin);
    if (options.output) return;  // which needs the code later
    // A bundle of thousands of kernels is kept compressed alone. Assigning {} would keep the vector's memory.
    result.cubin = std::vector<std::byte>();
    result.handle.reset();  // it holds the code as well
  };
  const auto start = std::chrono::steady_clock::now();
  const std::vector<CompileResult> results = compile_all(jobs, threads, context, keep);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (options.output) write_cubins(*options.output, results, context);
  std::string summary;
  if (options.bundle) {
    summary = store_bundle(*options.bundle, builder, failures_of(results), context);
    summary += speed_text(results, elapsed.count());
  }
  report(options, results, summary);
  const int stored = options.output || options.bundle ? kExitGood : report_unstored(results, context);
  return std::max(stored, report_failures(results, context));
}

}  // namespace

void add_compile(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("compile", kHelp);
  auto options = std::make_shared<CompileOptions>();
  command->add_option("DESCRIPTOR", options->descriptors, "Descriptors to compile: operator:field=value,...");
  command->add_option("--file", options->file, "More descriptors, one per line; - is standard input");
  command->add_option("--arch", options->architectures, "Architectures, separated by commas: sm_80,sm_90a");
  command->add_option("--jobs", options->jobs, "Threads (default: one per core)")->check(CLI::Range(1, 256));
  command->add_option("--output", options->output,
                      "Also write the cubins as files to this folder, which is then a cache folder as well");
  command->add_option("--bundle", options->bundle, "Also write the kernels to this file, as one bundle");
  command->add_option("--shard", options->shard, "Compile one part of the work: 3/16 is the third of 16 parts");
  command->add_flag("--ptx", options->ptx, "Also compile PTX, which CPU devices execute");
  command->add_flag("--json", options->json, "Print an array of JSON objects");
  command->footer([] { return fmt::format(kExamples, fmt::join(usual_architectures(), ", ")); });
  command->final_callback(
      [options, &context] { context.action = [options, &context] { return compile(*options, context); }; });
}

}  // namespace cubit::tools
