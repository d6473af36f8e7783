// C functions for engines: options, counters, kernels from descriptors or sources, and preparation. Functions about the
// engine's stores are in stores.cpp.
#include <cubit/cubit.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "capi/border.hpp"
#include "capi/handles.hpp"
#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "templates/embedded.hpp"

namespace cubit::capi {
namespace {

/// The value of an enumeration whose first value lets the environment decide. A C caller may store any number in an
/// enum, and C++ must not read an enum value outside its range, so the function reads the bytes.
template <class Enum>
std::optional<int> chosen(const Enum& value, const char* name, Enum last) {
  int number = 0;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  if (number < 0 || number > static_cast<int>(last)) {
    throw Failure(Status::invalid_argument, fmt::format("cubit_engine_options.{} = {}", name, number),
                  "there is no such policy", fmt::format("give one of the values of {}", name));
  }
  return number == 0 ? std::nullopt : std::optional(number);
}

/// Returns the caller's compile policy, or nothing if the environment decides.
std::optional<runtime::CompilePolicy> policy_of(const cubit_engine_options& options) {
  const auto policy = chosen(options.compile, "compile", CUBIT_COMPILE_NEVER);
  if (!policy) return std::nullopt;
  return *policy == CUBIT_COMPILE_ALLOW ? runtime::CompilePolicy::allow : runtime::CompilePolicy::never;
}

std::vector<runtime::BundleMemory> bundles_in_memory(const cubit_engine_options& options) {
  if (options.bundle_memory_count != 0) require(options.bundle_memory, "cubit_engine_options: bundle_memory");
  std::vector<runtime::BundleMemory> bundles;
  for (const cubit_bundle_memory& bundle : std::span(options.bundle_memory, options.bundle_memory_count)) {
    require(bundle.name, "cubit_bundle_memory: name");
    require(bundle.data, "cubit_bundle_memory: data");
    bundles.push_back({bundle.name, {static_cast<const std::byte*>(bundle.data), bundle.bytes}});
  }
  return bundles;
}

runtime::Settings settings_of(const cubit_engine_options& options) {
  runtime::Settings settings = runtime::Settings::from_environment(policy_of(options));
  if (options.cache_dir != nullptr) {
    settings.cache_dir = options.cache_dir;
    settings.is_cache_dir_unknown = false;
    settings.is_cache_dir_given = true;
  }
  if (options.nvrtc_path != nullptr) settings.nvrtc_path = options.nvrtc_path;
  if (options.system_caches != nullptr) settings.system_caches = runtime::path_list(options.system_caches);
  if (options.bundles != nullptr) settings.bundles = runtime::path_list(options.bundles);
  settings.bundle_memory = bundles_in_memory(options);
  if (options.public_keys != nullptr) settings.public_keys = options.public_keys;
  settings.allow_local_compile = options.allow_local_compile != 0;
  if (options.cache_trust != nullptr) settings.cache_trust = options.cache_trust;
  if (const auto policy = chosen(options.compiler, "compiler", CUBIT_COMPILER_EXACT)) {
    settings.compiler_policy =
        *policy == CUBIT_COMPILER_EXACT ? runtime::CompilerPolicy::exact : runtime::CompilerPolicy::any;
    settings.compiler_version.reset();
  }
  if (options.cache_max_bytes != 0) settings.cache_max_bytes = options.cache_max_bytes;
  if (options.cache_max_days != 0) settings.cache_max_days = static_cast<int>(std::min(options.cache_max_days, 36500U));
  if (options.lock_wait_seconds != 0) settings.lock_wait = std::chrono::seconds(std::max(0, options.lock_wait_seconds));
  return settings;
}

/// Returns a sink that drops the exceptions of the caller's log function, so that a failing log function does not make
/// a good kernel fail.
runtime::LogSink sink_of(const cubit_engine_options& options) {
  if (options.log == nullptr) return {};
  return [log = options.log, context = options.log_context](runtime::LogLevel level, std::string_view line) {
    try {
      log(context, static_cast<cubit_log_level>(level), printable(line).c_str());
    } catch (...) {
    }
  };
}

std::vector<codegen::Header> headers_of(const cubit_source& source) {
  if (source.header_count != 0) require(source.headers, "cubit_source: headers");
  std::vector<codegen::Header> headers;
  for (const cubit_header& header : std::span(source.headers, source.header_count)) {
    require(header.name, "cubit_header: name");
    require(header.text, "cubit_header: text");
    headers.push_back({header.name, header.text});
  }
  return headers;
}

void check_launch(const cubit_source& source, const codegen::Architecture& architecture) {
  constexpr int kMaxThreads = 1024;  // for every compute capability; CUDA C++ Programming Guide, "Technical
                                     // Specifications"
  if (source.threads < 1 || source.threads > kMaxThreads) {
    throw Failure(Status::invalid_argument, fmt::format("cubit_source.threads = {}", source.threads),
                  "a block has 1 to 1024 threads", "give a number in that range");
  }
  if (source.dynamic_shared_memory < 0 || source.dynamic_shared_memory > architecture.shared_memory_per_block) {
    throw Failure(
        Status::invalid_argument, fmt::format("cubit_source.dynamic_shared_memory = {}", source.dynamic_shared_memory),
        fmt::format("a block of {} has 0 to {} bytes", architecture.name, architecture.shared_memory_per_block),
        "give a number in that range");
  }
}

codegen::KernelSource kernel_source(const cubit_source& source, const codegen::Architecture& architecture) {
  require(source.name, "cubit_source: name");
  require(source.template_name, "cubit_source: template_name");
  require(source.template_text, "cubit_source: template_text");
  require(source.entry_point, "cubit_source: entry_point");
  check_launch(source, architecture);
  codegen::KernelSource assembled =
      codegen::assemble(source.name, {source.template_name, source.template_text},
                        source.plan_header == nullptr ? "" : source.plan_header, architecture, source.entry_point,
                        {source.threads, source.dynamic_shared_memory}, templates::embedded(), headers_of(source));
  assembled.callers_own = true;
  return assembled;
}

std::vector<std::string_view> texts_of(const char* const* descriptors, std::size_t count) {
  if (count != 0) require(descriptors, "cubit_engine_prepare: descriptors");
  std::vector<std::string_view> texts;
  for (const char* text : std::span(descriptors, count)) {
    require(text, "cubit_engine_prepare: a descriptor");
    texts.emplace_back(text);
  }
  return texts;
}

std::vector<runtime::Device*> devices_of(cubit_device* const* handles, std::size_t count) {
  if (count == 0) return {&runtime::current_cuda_device()};
  require(handles, "cubit_engine_prepare: devices");
  std::vector<runtime::Device*> devices;
  for (cubit_device* handle : std::span(handles, count)) {
    require(handle, "cubit_engine_prepare: a device");
    devices.push_back(handle->device.get());
  }
  return devices;
}

}  // namespace

CodeTarget target_of(const char* given) {
  if (given == nullptr) {
    const runtime::DeviceFacts& facts = runtime::current_cuda_device().facts();
    return {*facts.architecture, facts.code};
  }
  const std::string_view name = given;
  if (!name.starts_with(runtime::kCpuPrefix)) return {codegen::find_architecture(name), codegen::Code::cubin};
  return {codegen::find_architecture(name.substr(runtime::kCpuPrefix.size())), codegen::Code::ptx};
}

}  // namespace cubit::capi

using namespace cubit;
using namespace cubit::capi;

cubit_status cubit_engine_create(const cubit_engine_options* options, cubit_engine** engine) {
  return guarded([&] {
    require(engine, "cubit_engine_create: engine");
    *engine = nullptr;
    const auto given = options == nullptr ? cubit_engine_options{} : versioned(*options, "cubit_engine_options");
    *engine = new cubit_engine{ops::Session(settings_of(given), sink_of(given))};
  });
}

void cubit_engine_release(cubit_engine* engine) { delete engine; }

cubit_status cubit_engine_counters(cubit_engine* engine, cubit_counters* counters) {
  return guarded([&] {
    require(engine, "cubit_engine_counters: engine");
    require(counters, "cubit_engine_counters: counters");
    check_size(*counters, "cubit_counters");
    const runtime::Counters now = engine->session.engine().counters();
    const cubit_counters whole{counters->size, now.memory_hits, now.disk_hits,      now.compiles,
                               now.failures,   now.waits,       now.damaged_entries};
    std::memcpy(counters, &whole, counters->size);
  });
}

cubit_status cubit_engine_warnings(cubit_engine* engine, const char** json) {
  return guarded([&] {
    require(engine, "cubit_engine_warnings: engine");
    require(json, "cubit_engine_warnings: json");
    Json texts = Json::array();
    for (const std::string& line : engine->session.engine().warnings()) texts.push_back(printable(line));
    *json = thread_text(texts);
  });
}

cubit_status cubit_engine_is_cached(cubit_engine* engine, const char* descriptor, const char* architecture,
                                    int* cached) {
  return guarded([&] {
    require(engine, "cubit_engine_is_cached: engine");
    require(descriptor, "cubit_engine_is_cached: descriptor");
    require(cached, "cubit_engine_is_cached: cached");
    if (architecture == nullptr) {
      *cached = engine->session.is_cached_for(descriptor, runtime::current_cuda_device().facts()) ? 1 : 0;
      return;
    }
    const CodeTarget target = target_of(architecture);
    *cached = engine->session.is_cached(descriptor, target.architecture, target.code) ? 1 : 0;
  });
}

cubit_status cubit_engine_get(cubit_engine* engine, const char* descriptor, const char* architecture,
                              cubit_kernel** kernel) {
  return guarded([&] {
    require(kernel, "cubit_engine_get: kernel");
    *kernel = nullptr;
    require(engine, "cubit_engine_get: engine");
    require(descriptor, "cubit_engine_get: descriptor");
    if (architecture == nullptr) {
      *kernel = to_handle(engine->session.get_for(descriptor, runtime::current_cuda_device().facts()));
      return;
    }
    const CodeTarget target = target_of(architecture);
    *kernel = to_handle(engine->session.get(descriptor, target.architecture, target.code));
  });
}

cubit_status cubit_engine_get_source(cubit_engine* engine, const cubit_source* source, const char* architecture,
                                     cubit_kernel** kernel) {
  return guarded([&] {
    require(kernel, "cubit_engine_get_source: kernel");
    *kernel = nullptr;
    require(engine, "cubit_engine_get_source: engine");
    require(source, "cubit_engine_get_source: source");
    const cubit_source given = versioned(*source, "cubit_source");
    const CodeTarget target = target_of(architecture);
    codegen::KernelSource text = kernel_source(given, target.architecture);
    text.code = target.code;
    *kernel = to_handle(engine->session.get(text));
  });
}

cubit_status cubit_engine_prepare(cubit_engine* engine, const char* const* descriptors, size_t descriptor_count,
                                  cubit_device* const* devices, size_t device_count) {
  return guarded([&] {
    require(engine, "cubit_engine_prepare: engine");
    const auto texts = texts_of(descriptors, descriptor_count);
    if (texts.empty()) return;
    engine->session.prepare(texts, devices_of(devices, device_count));
  });
}
