#include "tools/kernels/compile_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "base/parallel.hpp"
#include "files/text/error.hpp"
#include "files/text/format.hpp"

namespace cubit::tools {
namespace {

/// Calls the function, and adds the descriptor's origin (file and line) to the library's error.
template <class Function>
auto with_origin(const DescriptorText& descriptor, Function function) {
  try {
    return function();
  } catch (const Error& error) {
    if (descriptor.origin.empty()) throw;
    const bool bad_input = error.code() == CUBIT_INVALID_ARGUMENT || error.code() == CUBIT_UNSUPPORTED;
    throw CommandError(bad_input ? kExitBadInput : kExitWorkFailed, descriptor.origin, error.what());
  }
}

/// The kernels that the descriptor names on the architecture: usually one, several for a set, none if the operator has
/// no kernel for the architecture. With `required`, a missing kernel is an error.
std::vector<std::string> plannable_members(const std::string& descriptor, const std::string& architecture,
                                           bool required) {
  try {
    std::vector<std::string> texts = nlohmann::json::parse(members(descriptor, architecture));
    for (const std::string& text : texts) explain(text, architecture);
    return texts;
  } catch (const Error& error) {
    if (required || error.code() != CUBIT_UNSUPPORTED) throw;
    return {};
  }
}

struct Targets {
  std::vector<std::string> architectures;
  bool required = true;  ///< false: skip architectures that the operator does not support
};

Targets find_targets(const std::optional<std::string>& architectures, bool use_device) {
  if (architectures) return {parse_architectures(*architectures)};
  const Devices devices = use_device ? find_devices() : Devices{};
  if (!devices.list.empty()) return {{devices.list.front().at("architecture").get<std::string>()}};
  return {usual_architectures(), false};
}

/// An engine keeps every kernel that it returned. After so much code a thread takes a new engine, so that the memory of
/// a long run stays bounded if nobody else keeps the kernels.
constexpr std::size_t kBytesPerEngine = std::size_t{32} << 20;

CompileResult compile_one(const CompileJob& job, const Engine& engine) {
  CompileResult result{.job = job, .error = {}, .kernel = {}, .cubin = {}, .handle = {}};
  const auto start = std::chrono::steady_clock::now();
  try {
    const std::uint64_t compiles_before = engine.counters().compiles;
    Kernel kernel = engine.get(job.descriptor, job.architecture);
    result.compiled = engine.counters().compiles != compiles_before;
    result.kernel = nlohmann::json::parse(kernel.describe());
    const auto cubin = kernel.cubin();
    result.cubin.assign(cubin.begin(), cubin.end());
    result.handle = std::move(kernel);
  } catch (const Error& error) {
    result.error = error.what();
    result.missing = error.code() == CUBIT_NOT_CACHED;
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  result.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void hand_over(CompileResult& result, const std::function<void(CompileResult&)>& each) {
  if (!each || !result.error.empty()) return;
  try {
    each(result);
  } catch (const std::exception& error) {
    result.error = error.what();
  }
}

/// PTX has no report of ptxas, and hence no static shared memory.
int shared_memory(const nlohmann::json& kernel) {
  const nlohmann::json& fixed = kernel.at("static_shared_memory");
  return (fixed.is_null() ? 0 : fixed.get<int>()) + kernel.at("dynamic_shared_memory").get<int>();
}

std::vector<std::string> table_row(const CompileResult& result) {
  if (!result.error.empty()) return {result.job.descriptor, result.job.architecture, "", "", "", "", "", "failed"};
  const auto number = [&](const char* name) {
    const nlohmann::json& value = result.kernel.at(name);
    return value.is_null() ? std::string() : fmt::format("{}", value.get<std::int64_t>());
  };
  return {result.job.descriptor,
          result.job.architecture,
          number("registers"),
          number("spill_bytes"),
          fmt::format("{}", shared_memory(result.kernel)),
          number("cubin_bytes"),
          fmt::format("{:.1f}", result.milliseconds),
          result.compiled ? "compiled" : "cached"};
}

/// One command per architecture and kind of code, each on its own line.
std::string commands_for_missing(const std::vector<CompileResult>& results) {
  constexpr std::string_view kPtx = "cpu:";
  std::map<std::string, std::string> descriptors;  // by architecture
  for (const CompileResult& result : results) {
    if (result.missing) descriptors[result.job.architecture] += " '" + result.job.descriptor + "'";
  }
  std::string commands;
  for (const auto& [architecture, texts] : descriptors) {
    const bool is_ptx = architecture.starts_with(kPtx);
    commands += fmt::format("\n  cubit compile{} --arch {}{}", texts, architecture.substr(is_ptx ? kPtx.size() : 0),
                            is_ptx ? " --ptx" : "");
  }
  return commands;
}

}  // namespace

std::vector<CompileJob> plan_jobs(const std::vector<DescriptorText>& descriptors,
                                  const std::optional<std::string>& architectures, bool use_device) {
  if (descriptors.empty()) throw BadInput("no descriptor", "there is nothing to compile", "see cubit operators");
  const Targets targets = find_targets(architectures, use_device);
  std::vector<CompileJob> jobs;
  std::set<std::string> seen;
  std::set<std::pair<std::string, std::string>> planned;  // several sets may share a member
  for (const DescriptorText& descriptor : descriptors) {
    const std::string text = with_origin(descriptor, [&] { return canonical(descriptor.text); });
    if (!seen.insert(text).second) continue;
    bool has_kernel = false;
    for (const std::string& name : targets.architectures) {
      for (const std::string& member :
           with_origin(descriptor, [&] { return plannable_members(text, name, targets.required); })) {
        has_kernel = true;
        if (planned.emplace(member, name).second) jobs.push_back({member, name});
      }
    }
    if (!has_kernel)
      throw BadInput(text, "no usual architecture has a kernel for this descriptor", "name one with --arch");
  }
  return jobs;
}

std::vector<CompileJob> shard_of(const std::vector<CompileJob>& jobs, std::size_t index, std::size_t count) {
  std::vector<CompileJob> shard;
  for (std::size_t i = index - 1; i < jobs.size(); i += count) shard.push_back(jobs[i]);
  return shard;
}

std::vector<CompileJob> with_ptx(const std::vector<CompileJob>& jobs) {
  std::vector<CompileJob> both;
  for (const CompileJob& job : jobs) {
    both.push_back(job);
    both.push_back({job.descriptor, "cpu:" + job.architecture});
  }
  return both;
}

std::vector<CompileResult> compile_all(const std::vector<CompileJob>& jobs, int threads, Context& context,
                                       const std::function<void(CompileResult&)>& each) {
  std::vector<CompileResult> results(jobs.size());
  // Each thread has an engine of its own, so that the engine's counters show whether this call compiled. The engines
  // share the disk cache, which lets only one of them compile a key.
  std::vector<std::optional<Engine>> engines;
  for (std::size_t i = 0; i < std::min<std::size_t>(threads, jobs.size()); ++i) engines.emplace_back(context.engine());
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  std::atomic<std::size_t> compiled{0};
  const auto start = std::chrono::steady_clock::now();
  const auto work = [&](std::size_t worker) {
    std::size_t kept_bytes = 0;
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      if (kept_bytes > kBytesPerEngine) {
        engines[worker].emplace(context.engine());
        kept_bytes = 0;
      }
      results[i] = compile_one(jobs[i], *engines[worker]);
      kept_bytes += results[i].cubin.size();
      hand_over(results[i], each);
      if (results[i].compiled || !results[i].error.empty()) ++compiled;
      const std::size_t now_done = ++done;
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      context.console.progress(now_done, jobs.size(),
                               time_left(elapsed.count(), compiled, jobs.size() - now_done) + jobs[i].descriptor);
    }
  };
  context.console.progress(0, jobs.size(), jobs.empty() ? "" : jobs.front().descriptor);
  on_threads(engines.size(), work);
  return results;
}

nlohmann::ordered_json to_json(const CompileResult& result) {
  nlohmann::ordered_json json = {{"descriptor", result.job.descriptor}, {"arch", result.job.architecture}};
  if (!result.error.empty()) {
    json["error"] = result.error;
    return json;
  }
  json["key"] = result.kernel.at("request_key");
  json["compiled"] = result.compiled;
  json["milliseconds"] = result.milliseconds;
  json["registers"] = result.kernel.at("registers");
  json["spill_bytes"] = result.kernel.at("spill_bytes");
  json["shared_memory"] = shared_memory(result.kernel);
  json["cubin_bytes"] = result.kernel.at("cubin_bytes");
  return json;
}

std::string failure_table(const std::vector<CompileResult>& results) {
  std::vector<std::vector<std::string>> rows;
  for (const CompileResult& result : results) {
    if (result.error.empty()) continue;
    rows.push_back({result.job.descriptor, result.job.architecture, result.error.substr(0, result.error.find('\n'))});
  }
  return rows.empty() ? "" : format_table({{"failed"}, {"arch"}, {"error"}}, rows);
}

std::string compile_table(const std::vector<CompileResult>& results) {
  std::vector<std::vector<std::string>> rows;
  for (const CompileResult& result : results) rows.push_back(table_row(result));
  return format_table({{"descriptor"},
                       {"arch"},
                       {"registers", true},
                       {"spill bytes", true},
                       {"shared memory", true},
                       {"cubin bytes", true},
                       {"ms", true},
                       {""}},
                      rows);
}

int report_failures(const std::vector<CompileResult>& results, Context& context) {
  int exit_code = kExitGood;
  std::size_t missing = 0;
  for (const CompileResult& result : results) {
    if (result.error.empty()) continue;
    exit_code = kExitWorkFailed;
    if (result.missing && ++missing > 1) continue;
    context.console.say_log(result.error);
  }
  if (missing > 1) {
    context.console.say_log(fmt::format("{} more {} missing; these commands compile all of them:{}", missing - 1,
                                        missing == 2 ? "kernel is" : "kernels are", commands_for_missing(results)));
  }
  return exit_code;
}

}  // namespace cubit::tools
