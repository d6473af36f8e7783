// Exports the C table of libcubit_cpu: load and execute.
#include "runtime/cpu/interface.h"

#include <array>
#include <exception>
#include <optional>

#include "base/error.hpp"
#include "runtime/cpu/memory_map.hpp"
#include "runtime/cpu/program.hpp"
#include "runtime/cpu/watch/counters.hpp"

namespace cubit::runtime::cpu {
namespace {

/// Runs `body`. Reports an exception and returns `failed`.
template <class Result, class Body>
Result guarded(CubitCpuReport report, void* context, Result failed, Body body) {
  try {
    return body();
  } catch (const Failure& failure) {
    report(context, static_cast<int>(failure.status()), failure.given().c_str(), failure.rule().c_str(),
           failure.remedy().c_str());
  } catch (const std::exception& error) {
    report(context, static_cast<int>(Status::internal), "the CPU device", error.what(), "");
  }
  return failed;
}

const Program* program_of(const CubitCpuProgram* program) { return reinterpret_cast<const Program*>(program); }

CubitCpuProgram* load(const char* ptx, std::size_t bytes, const char* entry_point, CubitCpuReport report,
                      void* context) {
  return guarded<CubitCpuProgram*>(report, context, nullptr, [&] {
    const Program* program = load_program(std::string(ptx, bytes), entry_point).release();
    return reinterpret_cast<CubitCpuProgram*>(const_cast<Program*>(program));
  });
}

void unload(CubitCpuProgram* program) { delete program_of(program); }

int execute_program(const CubitCpuProgram* program, const CubitCpuLaunch* launch, CubitCpuReport report,
                    void* context) {
  return guarded(report, context, 0, [&] {
    std::vector<MemoryMap::Range> ranges;
    for (std::size_t i = 0; i < launch->memory_count; ++i)
      ranges.push_back({launch->memory[i].first, launch->memory[i].last, launch->memory[i].written});
    const MemoryMap memory(std::move(ranges));
    std::optional<Counters> counters;
    if (launch->counted != nullptr) counters.emplace(*program_of(program));
    std::array<std::uint32_t, 3> cluster{};  // zeros: the kernel's own cluster size
    if (launch->cluster_blocks > 1) cluster = {launch->cluster_blocks, 1, 1};
    execute(*program_of(program),
            {.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
             .block = {launch->threads, 1, 1},
             .cluster = cluster,
             .dynamic_shared_bytes = launch->dynamic_shared_memory,
             .parameters = {static_cast<const std::byte*>(launch->parameters), launch->parameter_bytes},
             .memory = &memory,
             .check = launch->check != 0,
             .counters = counters ? &*counters : nullptr});
    if (counters) launch->counted(context, counters->json().c_str());
    return 1;
  });
}

}  // namespace
}  // namespace cubit::runtime::cpu

extern "C" __attribute__((visibility("default"))) const CubitCpuInterface* cubit_cpu_interface() {
  using namespace cubit::runtime::cpu;
  static constexpr CubitCpuInterface kInterface = {CUBIT_CPU_INTERFACE_VERSION, load, unload, execute_program};
  return &kInterface;
}
