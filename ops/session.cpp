// Finds or makes the kernels of descriptor texts, and prepares many kernels for many devices in parallel.
#include "ops/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "runtime/missing.hpp"

namespace cubit::ops {
namespace {

KernelHandle counted(std::string descriptor, std::shared_ptr<runtime::Kernel> kernel,
                     std::shared_ptr<const Specialisation> specialisation,
                     std::shared_ptr<const KernelSet> set = nullptr) {
  auto made = std::make_unique<OperatorKernel>();
  made->descriptor = std::move(descriptor);
  made->kernel = std::move(kernel);
  made->specialisation = std::move(specialisation);
  made->set = std::move(set);
  return KernelHandle(made.release());
}

/// Calls body(i) for every i below `count` on several threads, and returns the exception of each call, or null.
template <class Body>
std::vector<std::exception_ptr> errors_in_parallel(std::size_t count, const Body& body) {
  std::vector<std::exception_ptr> errors(count);
  parallel_for(static_cast<std::int64_t>(count), [&](std::int64_t index) {
    const auto at = static_cast<std::size_t>(index);
    try {
      body(at);
    } catch (...) {
      errors[at] = std::current_exception();
    }
  });
  return errors;
}

/// Whether no store has the kernel, and the engine may not or cannot compile it.
bool is_missing(const Failure& failure) {
  return failure.status() == Status::not_cached || failure.status() == Status::compiler_unavailable;
}

bool is_not_cached(const std::exception_ptr& error) {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const Failure& failure) {
    return failure.status() == Status::not_cached;
  } catch (...) {
    return false;
  }
}

/// Throws one failure that names every kernel whose request ended with Status::not_cached. `kernel_of(i)` describes the
/// kernel of request i. Does nothing if there are not several such requests, or if another request failed before.
template <class KernelOf>
void throw_if_not_cached(const runtime::Engine& engine, const std::vector<std::exception_ptr>& errors,
                         const KernelOf& kernel_of) {
  std::vector<runtime::MissingKernel> missing;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (is_not_cached(errors[i]))
      missing.push_back(kernel_of(i));
    else if (errors[i] && missing.empty())
      return;
  }
  if (missing.size() > 1) throw runtime::not_cached(missing, engine.place_of_missing());
}

[[noreturn]] void rethrow_naming(const std::exception_ptr& error, std::string_view text,
                                 const runtime::Device& device) {
  try {
    std::rethrow_exception(error);
  } catch (const Failure& failure) {
    throw Failure(failure.status(), fmt::format("preparing {} for {}: {}", text, device.facts().name, failure.given()),
                  failure.rule(), failure.remedy());
  }
}

/// Whether the descriptor has kernels that were planned for `planned`, and `device` has the shared memory and the
/// clusters that they need.
bool fits(std::string_view text, const codegen::Architecture& planned, const codegen::Architecture& device) {
  try {
    const auto sources = Session::sources(text, planned);
    return std::all_of(sources.begin(), sources.end(), [&](const codegen::KernelSource& source) {
      return source.launch.dynamic_shared_memory <= device.shared_memory_per_block &&
             source.launch.cluster_blocks <= std::max(1, device.cluster_blocks);
    });
  } catch (const Failure&) {  // no kernel family serves this architecture
    return false;
  }
}

void load(const OperatorKernel& kernel, runtime::Device& device) {
  const runtime::CurrentDevice current(device);
  for (std::size_t i = 0; i < kernel.member_count(); ++i) kernel.member(i).kernel->prepare(device);
}

/// One kernel to make and load on one device.
struct PrepareJob {
  std::string_view text;  ///< as the caller gave it
  std::string member;     ///< the text itself, or a member of the set that the text names
  runtime::Device* device = nullptr;
  bool is_last_of_set = false;
};

/// Members of sets are jobs of their own, so that all jobs together use all processors.
void add_jobs(std::vector<PrepareJob>& jobs, std::string_view text, runtime::Device& device) {
  std::vector<std::string> members;
  try {
    members = find_operator(text).members(text, *device.facts().architecture);
  } catch (const Failure&) {  // the job meets the same failure and reports it
  }
  if (members.size() <= 1) return jobs.push_back({text, std::string(text), &device});
  for (std::string& member : members) jobs.push_back({text, std::move(member), &device});
  jobs.back().is_last_of_set = true;
}

}  // namespace

Session::Session(runtime::Settings settings, runtime::LogSink log) : engine_(std::move(settings), std::move(log)) {}

KernelHandle Session::get(std::string_view text, const codegen::Architecture& architecture, codegen::Code code) {
  const SpellingView spelling{&architecture, text, code};
  if (KernelHandle known = find(spelling)) return known;
  const Operator& op = find_operator(text);
  const std::string canonical = op.canonical(text);
  if (canonical == text) return make(canonical, op, architecture, code);
  KernelHandle kernel = find({&architecture, canonical, code});
  if (!kernel) kernel = make(canonical, op, architecture, code);
  remember_alias(spelling, kernel);
  return kernel;
}

KernelHandle Session::get_for(std::string_view text, const runtime::DeviceFacts& device) {
  if (KernelHandle known = find({device.architecture, text, device.code})) return known;
  if (KernelHandle known = find_substitute(text, device)) return known;
  try {
    return get(text, *device.architecture, device.code);
  } catch (const Failure& failure) {
    if (!is_missing(failure)) throw;
    if (KernelHandle older = make_substitute(text, device)) return older;
    throw;
  }
}

KernelHandle Session::find_substitute(std::string_view text, const runtime::DeviceFacts& device) const {
  const std::shared_lock lock(mutex_);
  const auto found = substitutes_.find(SpellingView{device.architecture, text, device.code});
  return found == substitutes_.end() ? KernelHandle() : found->second;
}

/// Returns true if this is the first such request, so that threads that make one set warn once.
bool Session::remember_substitute(const SpellingView& request, const KernelHandle& kernel) {
  if (request.text.size() > kMaxAliasLength) return true;
  const std::lock_guard lock(mutex_);
  if (substitutes_.size() == kMaxAliases) return true;
  return substitutes_.try_emplace({request.architecture, std::string(request.text), request.code}, kernel).second;
}

KernelHandle Session::make_substitute(std::string_view text, const runtime::DeviceFacts& device) {
  if (device.capability == 0) return {};
  const auto rows = codegen::architectures();
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (row->variant != '\0' || !codegen::ptx_runs_on(*row, device.capability)) continue;
    if (!fits(text, *row, *device.architecture) || !is_cached(text, *row, codegen::Code::ptx)) continue;
    KernelHandle kernel = get(text, *row, codegen::Code::ptx);
    if (runtime::trouble_on(kernel->member(0).kernel->artifact(), device)) continue;
    if (remember_substitute({device.architecture, text, device.code}, kernel)) {
      engine_.log(runtime::LogLevel::warning,
                  fmt::format("{}: no store has code for {}; the driver compiles PTX for {} instead, which is slower "
                              "than a kernel for this GPU",
                              kernel->descriptor, device.name, row->name));
    }
    return kernel;
  }
  return {};
}

KernelHandle Session::get(const codegen::KernelSource& source) {
  return counted(source.descriptor, engine_.get(source), nullptr);
}

std::vector<codegen::KernelSource> Session::sources(std::string_view text, const codegen::Architecture& architecture,
                                                    codegen::Code code) {
  const Operator& op = find_operator(text);
  std::vector<codegen::KernelSource> sources;
  for (const std::string& member : op.members(op.canonical(text), architecture)) {
    sources.push_back(op.specialise(member, architecture)->source());
    sources.back().code = code;
  }
  return sources;
}

bool Session::is_cached(std::string_view text, const codegen::Architecture& architecture, codegen::Code code) {
  const std::vector<codegen::KernelSource> wanted = sources(text, architecture, code);
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const codegen::KernelSource& source) { return engine_.is_cached(source); });
}

bool Session::is_cached_for(std::string_view text, const runtime::DeviceFacts& device) {
  return is_cached(text, *device.architecture, device.code) || find_substitute(text, device) ||
         make_substitute(text, device);
}

KernelHandle Session::find(const SpellingView& spelling) {
  const std::shared_lock lock(mutex_);
  const auto found = kernels_.find(spelling);
  if (found == kernels_.end()) return {};
  engine_.count_memory_hit();
  return found->second;
}

/// Threads that make the same kernel at the same time share one compilation in the engine.
KernelHandle Session::make(std::string_view canonical, const Operator& op, const codegen::Architecture& architecture,
                           codegen::Code code) {
  const std::vector<std::string> members = op.members(canonical, architecture);
  if (members.size() > 1) return make_set(canonical, members, op, architecture, code);
  if (members.front() != canonical)
    return remember({&architecture, canonical, code}, get(members.front(), architecture, code));
  auto specialisation = op.specialise(canonical, architecture);
  codegen::KernelSource source = specialisation->source();
  source.code = code;
  auto kernel = engine_.get(source);
  return remember({&architecture, canonical, code},
                  counted(std::string(canonical), std::move(kernel), std::move(specialisation)));
}

KernelHandle Session::make_set(std::string_view canonical, const std::vector<std::string>& members, const Operator& op,
                               const codegen::Architecture& architecture, codegen::Code code) {
  auto set = std::make_shared<KernelSet>();
  set->choice = op.choice(canonical, architecture);
  set->members.resize(members.size());
  const auto errors = errors_in_parallel(
      members.size(), [&](std::size_t index) { set->members[index] = get(members[index], architecture, code); });
  throw_if_not_cached(engine_, errors, [&](std::size_t index) {
    return runtime::MissingKernel{members[index], std::string(architecture.name), code, false, std::string(canonical)};
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return remember({&architecture, canonical, code}, counted(std::string(canonical), nullptr, nullptr, std::move(set)));
}

/// The handle of the thread that arrives first is remembered, and all threads get it.
KernelHandle Session::remember(const SpellingView& canonical, const KernelHandle& kernel) {
  const std::lock_guard lock(mutex_);
  return kernels_.try_emplace({canonical.architecture, std::string(canonical.text), canonical.code}, kernel)
      .first->second;
}

void Session::remember_alias(const SpellingView& spelling, const KernelHandle& kernel) {
  if (spelling.text.size() > kMaxAliasLength) return;
  const std::lock_guard lock(mutex_);
  if (aliases_ == kMaxAliases) return;
  aliases_ += kernels_.try_emplace({spelling.architecture, std::string(spelling.text), spelling.code}, kernel).second;
}

std::size_t Session::remembered_aliases() const {
  const std::shared_lock lock(mutex_);
  return aliases_;
}

void Session::prepare(std::span<const std::string_view> texts, std::span<runtime::Device* const> devices) {
  std::vector<PrepareJob> jobs;
  for (const std::string_view text : texts) {
    for (runtime::Device* device : devices) add_jobs(jobs, text, *device);
  }
  const auto errors = errors_in_parallel(jobs.size(), [&](std::size_t index) {
    const PrepareJob& job = jobs[index];
    const runtime::DeviceFacts& facts = job.device->facts();
    // A set of an older architecture has other members.
    if (const KernelHandle older = find_substitute(job.text, facts)) return load(*older, *job.device);
    try {
      load(*get(job.member, *facts.architecture, facts.code), *job.device);
    } catch (const Failure& failure) {
      if (!is_missing(failure)) throw;
      const KernelHandle older = make_substitute(job.text, facts);
      if (!older) throw;
      load(*older, *job.device);
    }
  });
  throw_if_not_cached(engine_, errors, [&](std::size_t index) {
    const runtime::DeviceFacts& facts = jobs[index].device->facts();
    return runtime::MissingKernel{jobs[index].member, std::string(facts.architecture->name), facts.code, false,
                                  std::string(jobs[index].text)};
  });
  for (std::size_t index = 0; index < jobs.size(); ++index) {
    if (errors[index]) rethrow_naming(errors[index], jobs[index].text, *jobs[index].device);
  }
  // The sets themselves, whose members are in memory by now.
  for (const PrepareJob& job : jobs) {
    if (job.is_last_of_set) get_for(job.text, job.device->facts());
  }
}

}  // namespace cubit::ops
