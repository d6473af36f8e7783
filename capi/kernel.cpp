// C functions that describe, load and launch kernels.
#include <cubit/cubit.h>
#include <fmt/format.h>

#include <span>

#include "base/error.hpp"
#include "capi/border.hpp"
#include "capi/handles.hpp"
#include "ops/argument_checks.hpp"

namespace cubit::capi {
namespace {

static_assert(ops::kWorkspaceCounterBytes == CUBIT_WORKSPACE_ZEROED_BYTES);

Json kernel_json(const ops::OperatorKernel& handle);

Json set_json(const ops::OperatorKernel& handle) {
  Json members = Json::array();
  for (std::size_t i = 0; i < handle.member_count(); ++i) members.push_back(kernel_json(handle.member(i)));
  return {{"descriptor", handle.descriptor},
          {"architecture", handle.member(0).kernel->artifact().target},
          {"members", std::move(members)}};
}

Json kernel_json(const ops::OperatorKernel& handle) {
  if (handle.set != nullptr) return set_json(handle);
  const runtime::Artifact& artifact = handle.kernel->artifact();
  const runtime::ResourceReport& resources = artifact.resources;
  const codegen::LaunchFacts& launch = handle.kernel->launch_facts();
  return {{"descriptor", handle.descriptor},
          {"architecture", artifact.target},
          {"request_key", artifact.key.hex()},
          {"artifact_id", runtime::artifact_id(artifact.key, artifact.compiler)},
          {"compiler", artifact.compiler.text()},
          {"entry_point", artifact.entry_point},
          {"registers", ptxas_json(artifact, resources.registers)},
          {"spill_bytes", ptxas_json(artifact, resources.spill_bytes())},
          {"spill_store_bytes", ptxas_json(artifact, resources.spill_store_bytes)},
          {"spill_load_bytes", ptxas_json(artifact, resources.spill_load_bytes)},
          {"stack_bytes", ptxas_json(artifact, resources.stack_bytes)},
          {"barriers", ptxas_json(artifact, resources.barriers)},
          {"threads", launch.threads},
          {"static_shared_memory", ptxas_json(artifact, resources.static_shared_memory)},
          {"dynamic_shared_memory", launch.dynamic_shared_memory},
          {"cubin_bytes", artifact.cubin.size()},
          {"compile_milliseconds", artifact.compile_milliseconds},
          {"inputs", runtime::inputs_text(artifact.inputs)}};
}

void require_operator(const ops::OperatorKernel& handle) {
  if (!handle.has_operator()) [[unlikely]] {
    throw Failure(Status::invalid_argument, handle.descriptor, "a kernel from cubit_engine_get_source has no operator",
                  "launch this kernel with cubit_kernel_launch_raw");
  }
}

/// Refuses raw launches that the driver would refuse with a less helpful message.
void check_raw(const ops::OperatorKernel& handle, const uint32_t grid[3], std::size_t parameter_bytes) {
  if (handle.has_operator()) {
    throw Failure(Status::invalid_argument, handle.descriptor, "the operator makes the parameters of this kernel",
                  "launch this kernel with cubit_kernel_launch");
  }
  // Kernel parameters may have 32764 bytes since CUDA 12.1 from sm_70 on (CUDA C++ Programming Guide, "__global__
  // function parameters"). The y and z limits of a grid are the same for every compute capability.
  constexpr std::size_t kMaxParameterBytes = 32764;
  constexpr uint32_t kMaxX = 0x7fffffff;
  constexpr uint32_t kMaxYZ = 65535;
  const auto within = [](uint32_t value, uint32_t limit) { return value >= 1 && value <= limit; };
  if (!within(grid[0], kMaxX) || !within(grid[1], kMaxYZ) || !within(grid[2], kMaxYZ)) {
    throw Failure(Status::invalid_argument, fmt::format("a grid of {} x {} x {}", grid[0], grid[1], grid[2]),
                  fmt::format("a grid has 1 to {} x {} x {} blocks", kMaxX, kMaxYZ, kMaxYZ),
                  "give numbers in that range");
  }
  if (parameter_bytes > kMaxParameterBytes) {
    throw Failure(Status::invalid_argument, fmt::format("{} bytes of parameters", parameter_bytes),
                  fmt::format("a kernel takes at most {}", kMaxParameterBytes), "pass large data by a pointer");
  }
}

}  // namespace
}  // namespace cubit::capi

using namespace cubit;
using namespace cubit::capi;

cubit_status cubit_kernel_describe(cubit_kernel* kernel, const char** json) {
  return guarded([&] {
    const ops::OperatorKernel& handle = from_handle(kernel, "cubit_kernel_describe: kernel");
    require(json, "cubit_kernel_describe: json");
    *json = thread_text(kernel_json(handle));
  });
}

void cubit_kernel_retain(cubit_kernel* kernel) {
  if (kernel != nullptr) from_handle(kernel, "").retain();
}

void cubit_kernel_release(cubit_kernel* kernel) {
  if (kernel != nullptr) from_handle(kernel, "").release();
}

cubit_status cubit_kernel_member_count(cubit_kernel* kernel, size_t* count) {
  return guarded([&] {
    const ops::OperatorKernel& handle = from_handle(kernel, "cubit_kernel_member_count: kernel");
    require(count, "cubit_kernel_member_count: count");
    *count = handle.member_count();
  });
}

cubit_status cubit_kernel_member(cubit_kernel* kernel, size_t index, cubit_kernel** member) {
  return guarded([&] {
    require(member, "cubit_kernel_member: member");
    *member = nullptr;
    const ops::OperatorKernel& handle = from_handle(kernel, "cubit_kernel_member: kernel");
    if (index >= handle.member_count()) {
      throw Failure(Status::invalid_argument, fmt::format("index = {}", index),
                    fmt::format("{} has {} member{}", handle.descriptor, handle.member_count(),
                                handle.member_count() == 1 ? "" : "s"),
                    fmt::format("accepted: 0 to {}", handle.member_count() - 1));
    }
    *member = to_handle(ops::KernelHandle(&handle.member(index)));
  });
}

cubit_status cubit_kernel_choose(cubit_kernel* kernel, const void* arguments, cubit_device* device, size_t* index) {
  return guarded([&] {
    const ops::OperatorKernel& handle = from_handle(kernel, "cubit_kernel_choose: kernel");
    require(arguments, "cubit_kernel_choose: arguments");
    require(index, "cubit_kernel_choose: index");
    require_operator(handle);
    const runtime::Device& target = device == nullptr ? runtime::current_cuda_device() : *device->device;
    *index = ops::chosen_member(handle, target, arguments);
  });
}

cubit_status cubit_kernel_cubin(cubit_kernel* kernel, const void** bytes, size_t* size) {
  return guarded([&] {
    const ops::OperatorKernel& handle = from_handle(kernel, "cubit_kernel_cubin: kernel");
    require(bytes, "cubit_kernel_cubin: bytes");
    require(size, "cubit_kernel_cubin: size");
    if (handle.set != nullptr) {
      throw Failure(Status::invalid_argument, handle.descriptor,
                    fmt::format("it is a set of {} kernels, each with code of its own", handle.member_count()),
                    "ask for the code of a member from cubit_kernel_member");
    }
    *bytes = handle.kernel->artifact().cubin.data();
    *size = handle.kernel->artifact().cubin.size();
  });
}

cubit_status cubit_kernel_prepare(cubit_kernel* kernel, cubit_device* device) {
  return guarded([&] {
    const ops::OperatorKernel& handle = from_handle(kernel, "cubit_kernel_prepare: kernel");
    const Target target(device);
    for (std::size_t i = 0; i < handle.member_count(); ++i) handle.member(i).kernel->prepare(target.device());
  });
}

cubit_status cubit_kernel_workspace(cubit_kernel* kernel, const void* arguments, cubit_device* device, size_t* bytes) {
  return guarded([&] {
    const ops::OperatorKernel& handle = from_handle(kernel, "cubit_kernel_workspace: kernel");
    require(arguments, "cubit_kernel_workspace: arguments");
    require(bytes, "cubit_kernel_workspace: bytes");
    require_operator(handle);
    const runtime::Device& target = device == nullptr ? runtime::current_cuda_device() : *device->device;
    *bytes = ops::workspace_bytes(handle, target, arguments);
  });
}

// This function is the hot path: only a thread's first launches allocate memory, and texts are made only for errors.
cubit_status cubit_kernel_launch(cubit_kernel* kernel, const void* arguments, const cubit_launch* launch) {
  return guarded([&] {
    const ops::OperatorKernel& handle = from_handle(kernel, "cubit_kernel_launch: kernel");
    require(arguments, "cubit_kernel_launch: arguments");
    require(launch, "cubit_kernel_launch: launch");
    const cubit_launch where = versioned(*launch, "cubit_launch");
    require_operator(handle);
    const Target target(where.device);
    ops::launch(handle, target.device(), arguments,
                {where.workspace, where.workspace_bytes, where.stream, where.overlap != 0});
  });
}

cubit_status cubit_kernel_launch_raw(cubit_kernel* kernel, const uint32_t grid[3], const void* parameters,
                                     size_t parameter_bytes, const cubit_launch* launch) {
  return guarded([&] {
    const ops::OperatorKernel& handle = from_handle(kernel, "cubit_kernel_launch_raw: kernel");
    require(grid, "cubit_kernel_launch_raw: grid");
    if (parameter_bytes != 0) require(parameters, "cubit_kernel_launch_raw: parameters");
    require(launch, "cubit_kernel_launch_raw: launch");
    const cubit_launch where = versioned(*launch, "cubit_launch");
    check_raw(handle, grid, parameter_bytes);
    const codegen::LaunchFacts& facts = handle.kernel->launch_facts();
    const runtime::LaunchShape shape{{grid[0], grid[1], grid[2]},
                                     static_cast<unsigned>(facts.threads),
                                     static_cast<unsigned>(facts.dynamic_shared_memory)};
    const Target target(where.device);
    handle.kernel->launch(target.device(), shape, std::span(static_cast<const std::byte*>(parameters), parameter_bytes),
                          where.stream);
  });
}
