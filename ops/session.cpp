// Finds or makes the kernels of descriptor texts, and prepares many kernels for many devices in parallel.
#include "ops/session.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "base/parallel.hpp"

namespace cubit::ops {
namespace {

KernelHandle counted(std::string descriptor, std::shared_ptr<runtime::Kernel> kernel,
                     std::shared_ptr<const Specialisation> specialisation) {
  auto made = std::make_unique<OperatorKernel>();
  made->descriptor = std::move(descriptor);
  made->kernel = std::move(kernel);
  made->specialisation = std::move(specialisation);
  return KernelHandle(made.release());
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

KernelHandle Session::get(const codegen::KernelSource& source) {
  return counted(source.descriptor, engine_.get(source), nullptr);
}

KernelHandle Session::find(const SpellingView& spelling) {
  const std::shared_lock lock(mutex_);
  const auto found = kernels_.find(spelling);
  if (found == kernels_.end()) return {};
  engine_.count_memory_hit();
  return found->second;
}

/// Threads that make the same kernel at the same time share one compilation in the engine. The handle of the thread
/// that arrives first is remembered, and all threads get it.
KernelHandle Session::make(std::string_view canonical, const Operator& op, const codegen::Architecture& architecture,
                           codegen::Code code) {
  auto specialisation = op.specialise(canonical, architecture);
  codegen::KernelSource source = specialisation->source();
  source.code = code;
  auto kernel = engine_.get(source);
  KernelHandle made = counted(std::string(canonical), std::move(kernel), std::move(specialisation));
  const std::lock_guard lock(mutex_);
  return kernels_.try_emplace({&architecture, std::string(canonical), code}, std::move(made)).first->second;
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
  std::vector<std::exception_ptr> errors(texts.size() * devices.size());
  const auto text_of = [&](std::size_t job) { return texts[job / devices.size()]; };
  const auto device_of = [&](std::size_t job) -> runtime::Device& { return *devices[job % devices.size()]; };
  parallel_for(static_cast<std::int64_t>(errors.size()), [&](std::int64_t index) {
    const auto job = static_cast<std::size_t>(index);
    try {
      const KernelHandle kernel = get(text_of(job), *device_of(job).facts().architecture, device_of(job).facts().code);
      const runtime::CurrentDevice current(device_of(job));
      kernel->kernel->prepare(device_of(job));
    } catch (...) {
      errors[job] = std::current_exception();
    }
  });
  for (std::size_t job = 0; job < errors.size(); ++job) {
    if (errors[job]) rethrow_naming(errors[job], text_of(job), device_of(job));
  }
}

}  // namespace cubit::ops
