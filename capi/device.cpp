// C functions for devices, memory, streams and graphs, for programs that do not use the CUDA runtime.
#include <cubit/cubit.h>
#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/error.hpp"
#include "capi/border.hpp"
#include "capi/handles.hpp"
#include "ops/argument_checks.hpp"

namespace cubit::capi {
namespace {

constexpr std::string_view kCudaPrefix = "cuda:";

int cuda_ordinal(std::string_view name) {
  int ordinal = -1;
  if (name.starts_with(kCudaPrefix)) {
    const char* const first = name.data() + kCudaPrefix.size();
    const char* const last = name.data() + name.size();
    const auto [end, error] = std::from_chars(first, last, ordinal);
    if (error == std::errc{} && end == last && ordinal >= 0) return ordinal;
  }
  throw Failure(Status::invalid_argument, fmt::format("device \"{}\"", name), "there is no device of this name",
                "give \"cuda:0\", \"cuda:1\", … or \"cpu:sm_80\" with any architecture");
}

std::unique_ptr<cubit_device> open_device(std::string_view name) {
  if (name.starts_with(runtime::kCpuPrefix)) {
    return std::make_unique<cubit_device>(
        cubit_device{std::string(name), runtime::open_cpu_device(name.substr(runtime::kCpuPrefix.size()))});
  }
  const int ordinal = cuda_ordinal(name);
  return std::make_unique<cubit_device>(
      cubit_device{fmt::format("{}{}", kCudaPrefix, ordinal), runtime::open_cuda_device(ordinal)});
}

/// Runs `body` with the handle's device. Every function below is one call of on_device.
template <class Body>
cubit_status with_device(cubit_device* handle, const char* parameter, Body body) {
  return guarded([&] {
    require(handle, parameter);
    body(*handle->device);
  });
}

}  // namespace
}  // namespace cubit::capi

using namespace cubit;
using namespace cubit::capi;

cubit_status cubit_device_open(const char* name, cubit_device** device) {
  return guarded([&] {
    require(name, "cubit_device_open: name");
    require(device, "cubit_device_open: device");
    *device = nullptr;
    *device = open_device(name).release();
  });
}

void cubit_device_release(cubit_device* device) { delete device; }

cubit_status cubit_device_describe(cubit_device* device, const char** json) {
  return with_device(device, "cubit_device_describe: device", [&](runtime::Device& target) {
    require(json, "cubit_device_describe: json");
    *json = thread_text(device_json(device->name, target.facts()));
  });
}

cubit_status cubit_device_allocate(cubit_device* device, size_t bytes, void** memory) {
  return with_device(device, "cubit_device_allocate: device", [&](runtime::Device& target) {
    require(memory, "cubit_device_allocate: memory");
    *memory = nullptr;
    if (bytes != 0) *memory = target.allocate(bytes);
  });
}

cubit_status cubit_device_free(cubit_device* device, void* memory) {
  return with_device(device, "cubit_device_free: device", [&](runtime::Device& target) {
    if (memory != nullptr) target.release(memory);
  });
}

cubit_status cubit_device_fill_zero(cubit_device* device, void* memory, size_t bytes, cubit_stream stream) {
  return with_device(device, "cubit_device_fill_zero: device", [&](runtime::Device& target) {
    if (bytes == 0) return;
    require(memory, "cubit_device_fill_zero: memory");
    target.fill_zero(memory, bytes, stream);
  });
}

cubit_status cubit_device_upload(cubit_device* device, void* dst, const void* src, size_t bytes, cubit_stream stream) {
  return with_device(device, "cubit_device_upload: device", [&](runtime::Device& target) {
    if (bytes == 0) return;
    require(dst, "cubit_device_upload: dst");
    require(src, "cubit_device_upload: src");
    target.copy_to_device(dst, src, bytes, stream);
  });
}

cubit_status cubit_device_download(cubit_device* device, void* dst, const void* src, size_t bytes,
                                   cubit_stream stream) {
  return with_device(device, "cubit_device_download: device", [&](runtime::Device& target) {
    if (bytes == 0) return;
    require(dst, "cubit_device_download: dst");
    require(src, "cubit_device_download: src");
    target.copy_to_host(dst, src, bytes, stream);
  });
}

cubit_status cubit_device_check_workspace(cubit_device* device, const void* workspace, cubit_stream stream) {
  return with_device(device, "cubit_device_check_workspace: device", [&](runtime::Device& target) {
    require(workspace, "cubit_device_check_workspace: workspace");
    target.require_zero(workspace, ops::kWorkspaceCounterBytes, stream);
  });
}

cubit_status cubit_device_synchronise(cubit_device* device, cubit_stream stream) {
  return with_device(device, "cubit_device_synchronise: device",
                     [&](runtime::Device& target) { target.synchronise(stream); });
}

cubit_status cubit_device_watch(cubit_device* device, unsigned what) {
  return with_device(device, "cubit_device_watch: device", [&](runtime::Device& target) {
    if ((what & ~(CUBIT_WATCH_MEMORY | CUBIT_WATCH_COUNTERS)) != 0) {
      throw Failure(Status::invalid_argument, fmt::format("cubit_device_watch: {}", what), "there is no such watch",
                    "accepted: the sum of CUBIT_WATCH_MEMORY and CUBIT_WATCH_COUNTERS");
    }
    target.watch({.memory = (what & CUBIT_WATCH_MEMORY) != 0, .counters = (what & CUBIT_WATCH_COUNTERS) != 0});
  });
}

cubit_status cubit_device_counters(cubit_device* device, const char** json) {
  return with_device(device, "cubit_device_counters: device", [&](runtime::Device& target) {
    require(json, "cubit_device_counters: json");
    *json = thread_text(fmt::format("[{}]", fmt::join(target.take_counters(), ", ")));
  });
}

cubit_status cubit_stream_create(cubit_device* device, cubit_stream* stream) {
  return with_device(device, "cubit_stream_create: device", [&](runtime::Device& target) {
    require(stream, "cubit_stream_create: stream");
    *stream = nullptr;
    *stream = target.create_stream();
  });
}

cubit_status cubit_stream_destroy(cubit_device* device, cubit_stream stream) {
  return with_device(device, "cubit_stream_destroy: device", [&](runtime::Device& target) {
    if (stream != nullptr) target.destroy_stream(stream);
  });
}

cubit_status cubit_capture_begin(cubit_device* device, cubit_stream stream) {
  return with_device(device, "cubit_capture_begin: device", [&](runtime::Device& target) {
    require(stream, "cubit_capture_begin: stream");  // the legacy default stream cannot be captured
    target.begin_capture(stream);
  });
}

cubit_status cubit_capture_end(cubit_device* device, cubit_stream stream, cubit_graph** graph) {
  return with_device(device, "cubit_capture_end: device", [&](runtime::Device& target) {
    require(stream, "cubit_capture_end: stream");
    require(graph, "cubit_capture_end: graph");
    *graph = nullptr;
    auto result = std::make_unique<cubit_graph>();
    result->device = device->device;
    result->graph = target.end_capture(stream);
    *graph = result.release();
  });
}

cubit_status cubit_graph_replay(cubit_device* device, cubit_graph* graph, cubit_stream stream, double* milliseconds) {
  return with_device(device, "cubit_graph_replay: device", [&](runtime::Device& target) {
    require(graph, "cubit_graph_replay: graph");
    if (graph->device != device->device) {
      throw Failure(Status::invalid_argument, "cubit_graph_replay: graph", "another device captured this graph",
                    "give the device that captured the graph");
    }
    const double elapsed = target.replay(*graph->graph, stream);
    if (milliseconds != nullptr) *milliseconds = elapsed;
  });
}

void cubit_graph_release(cubit_graph* graph) { delete graph; }
