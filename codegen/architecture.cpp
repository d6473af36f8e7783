// The table of GPU architectures and its queries: find a row, check binary compatibility, compute occupancy.
#include "codegen/architecture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace cubit::codegen {
namespace {

using enum MmaType;

// Shapes that the hardware executes as one tensor-core instruction. ptxas also accepts shapes that it expands into
// conversions and wider instructions: int4 from sm_90 on, and fp8 mma.sync on sm_90 to sm_110, whose fp8 hardware is
// reached through wgmma and tcgen05 only. The table leaves these shapes out, because a plan with such a shape would be
// slower than a plan with the wider type. tests/codegen compiles every shape for every row and counts instructions.
constexpr std::array kMmaSm75 = {
    MmaShape{16, 8, 8, fp16},
    MmaShape{8, 8, 16, int8},
    MmaShape{8, 8, 32, int4},
};
constexpr std::array kMmaSm90 = {
    MmaShape{16, 8, 8, fp16},  MmaShape{16, 8, 16, fp16}, MmaShape{16, 8, 8, bf16}, MmaShape{16, 8, 16, bf16},
    MmaShape{16, 8, 4, tf32},  MmaShape{16, 8, 8, tf32},  MmaShape{8, 8, 16, int8}, MmaShape{16, 8, 16, int8},
    MmaShape{16, 8, 32, int8}, MmaShape{8, 8, 4, fp64},
};
constexpr std::array kInt4 = {MmaShape{8, 8, 32, int4}, MmaShape{16, 8, 32, int4}, MmaShape{16, 8, 64, int4}};
constexpr std::array kFp8 = {
    MmaShape{16, 8, 16, e4m3},
    MmaShape{16, 8, 32, e4m3},
    MmaShape{16, 8, 16, e5m2},
    MmaShape{16, 8, 32, e5m2},
};

template <std::size_t... Sizes>
constexpr auto join(const std::array<MmaShape, Sizes>&... parts) {
  std::array<MmaShape, (Sizes + ...)> all{};
  std::size_t next = 0;
  ((std::copy(parts.begin(), parts.end(), all.begin() + next), next += Sizes), ...);
  return all;
}

constexpr auto kMmaSm80 = join(kMmaSm90, kInt4);
constexpr auto kMmaSm89 = join(kMmaSm90, kInt4, kFp8);
constexpr auto kMmaSm120 = join(kMmaSm90, kFp8);

constexpr int kK = 1024;
constexpr int kR = 64 * kK;
constexpr bool kN = false;  // short names for the columns of the table
constexpr bool kY = true;

// clang-format off
constexpr auto kArchitectures = std::to_array<Architecture>({
  // Columns: usual; shared memory per SM, per block, reserved, unit; registers per SM, per thread; threads and blocks
  // per SM; ldmatrix, movmatrix, stmatrix, cp_async, bulk_copy; cluster blocks; kernel_overlap, wgmma,
  // register_transfer, fp8_conversion; mma shapes.
  {"sm_75",    75, '\0', kN,  64 * kK,  64 * kK, 0,  256, kR, 255, 1024, 16, kY, kY, kN, kN, kN,  0, kN, kN, kN, kN, kMmaSm75},
  {"sm_80",    80, '\0', kY, 164 * kK, 163 * kK, kK, 128, kR, 255, 2048, 32, kY, kY, kN, kY, kN,  0, kN, kN, kN, kN, kMmaSm80},
  {"sm_86",    86, '\0', kY, 100 * kK,  99 * kK, kK, 128, kR, 255, 1536, 16, kY, kY, kN, kY, kN,  0, kN, kN, kN, kN, kMmaSm80},
  {"sm_87",    87, '\0', kN, 164 * kK, 163 * kK, kK, 128, kR, 255, 1536, 16, kY, kY, kN, kY, kN,  0, kN, kN, kN, kN, kMmaSm80},
  {"sm_88",    88, '\0', kN, 100 * kK,  99 * kK, kK, 128, kR, 255, 1536, 16, kY, kY, kN, kY, kN,  0, kN, kN, kN, kN, kMmaSm80},
  {"sm_89",    89, '\0', kY, 100 * kK,  99 * kK, kK, 128, kR, 255, 1536, 24, kY, kY, kN, kY, kN,  0, kN, kN, kN, kY, kMmaSm89},
  {"sm_90",    90, '\0', kN, 228 * kK, 227 * kK, kK, 128, kR, 255, 2048, 32, kY, kY, kY, kY, kY, 16, kY, kN, kN, kY, kMmaSm90},
  {"sm_90a",   90, 'a',  kY, 228 * kK, 227 * kK, kK, 128, kR, 255, 2048, 32, kY, kY, kY, kY, kY, 16, kY, kY, kY, kY, kMmaSm90},
  {"sm_100",  100, '\0', kN, 228 * kK, 227 * kK, kK, 128, kR, 255, 2048, 32, kY, kY, kY, kY, kY, 16, kY, kN, kN, kY, kMmaSm90},
  {"sm_100a", 100, 'a',  kY, 228 * kK, 227 * kK, kK, 128, kR, 255, 2048, 32, kY, kY, kY, kY, kY, 16, kY, kN, kY, kY, kMmaSm90},
  {"sm_100f", 100, 'f',  kN, 228 * kK, 227 * kK, kK, 128, kR, 255, 2048, 32, kY, kY, kY, kY, kY, 16, kY, kN, kY, kY, kMmaSm90},
  {"sm_103",  103, '\0', kN, 228 * kK, 227 * kK, kK, 128, kR, 255, 2048, 32, kY, kY, kY, kY, kY, 16, kY, kN, kN, kY, kMmaSm90},
  {"sm_103a", 103, 'a',  kN, 228 * kK, 227 * kK, kK, 128, kR, 255, 2048, 32, kY, kY, kY, kY, kY, 16, kY, kN, kY, kY, kMmaSm90},
  {"sm_103f", 103, 'f',  kN, 228 * kK, 227 * kK, kK, 128, kR, 255, 2048, 32, kY, kY, kY, kY, kY, 16, kY, kN, kY, kY, kMmaSm90},
  {"sm_110",  110, '\0', kN, 228 * kK, 227 * kK, kK, 128, kR, 255, 1536, 24, kY, kY, kY, kY, kY,  8, kY, kN, kN, kY, kMmaSm90},
  {"sm_110a", 110, 'a',  kN, 228 * kK, 227 * kK, kK, 128, kR, 255, 1536, 24, kY, kY, kY, kY, kY,  8, kY, kN, kY, kY, kMmaSm90},
  {"sm_110f", 110, 'f',  kN, 228 * kK, 227 * kK, kK, 128, kR, 255, 1536, 24, kY, kY, kY, kY, kY,  8, kY, kN, kY, kY, kMmaSm90},
  {"sm_120",  120, '\0', kY, 100 * kK,  99 * kK, kK, 128, kR, 255, 1536, 24, kY, kY, kY, kY, kY,  8, kY, kN, kN, kY, kMmaSm120},
  {"sm_120a", 120, 'a',  kN, 100 * kK,  99 * kK, kK, 128, kR, 255, 1536, 24, kY, kY, kY, kY, kY,  8, kY, kN, kY, kY, kMmaSm120},
  {"sm_120f", 120, 'f',  kN, 100 * kK,  99 * kK, kK, 128, kR, 255, 1536, 24, kY, kY, kY, kY, kY,  8, kY, kN, kY, kY, kMmaSm120},
  {"sm_121",  121, '\0', kN, 100 * kK,  99 * kK, kK, 128, kR, 255, 1536, 24, kY, kY, kY, kY, kY,  8, kY, kN, kN, kY, kMmaSm120},
  {"sm_121a", 121, 'a',  kN, 100 * kK,  99 * kK, kK, 128, kR, 255, 1536, 24, kY, kY, kY, kY, kY,  8, kY, kN, kY, kY, kMmaSm120},
  {"sm_121f", 121, 'f',  kN, 100 * kK,  99 * kK, kK, 128, kR, 255, 1536, 24, kY, kY, kY, kY, kY,  8, kY, kN, kY, kY, kMmaSm120},
});
// clang-format on

std::string accepted_names() {
  std::string names;
  for (const Architecture& row : kArchitectures) fmt::format_to(std::back_inserter(names), " {},", row.name);
  names.pop_back();
  return "accepted:" + names;
}

constexpr int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

constexpr int kWarp = 32;
constexpr int kThreadsPerBlock = 1024;
constexpr int kSubPartitions = 4;     // an SM's register file has four equal parts; each warp uses one part
constexpr int kRegisterUnit = 256;    // the hardware allocates a warp's registers in units of this many
constexpr int kRegisterRounding = 8;  // registers per thread are rounded up to a multiple of this

int blocks_by_registers(const Architecture& architecture, int warps, int registers_per_thread) {
  const int per_warp = round_up(round_up(std::max(registers_per_thread, 1), kRegisterRounding) * kWarp, kRegisterUnit);
  // The hardware places a block as if the block's warps filled all sub-partitions evenly.
  if (per_warp * round_up(warps, kSubPartitions) > architecture.registers_per_sm) return 0;
  return architecture.registers_per_sm / kSubPartitions / per_warp * kSubPartitions / warps;
}

int blocks_by_shared_memory(const Architecture& architecture, int shared_memory) {
  const int per_block = round_up(shared_memory + architecture.shared_memory_reserved, architecture.shared_memory_unit);
  return per_block == 0 ? architecture.blocks_per_sm : architecture.shared_memory_per_sm / per_block;
}

/// True for Jetson Orin and Jetson Thor; source: NVIDIA's list of GPUs by compute capability.
bool is_tegra(int capability) { return capability == 87 || capability == 110; }

}  // namespace

bool Architecture::has_mma(const MmaShape& shape) const {
  return std::find(mma_shapes.begin(), mma_shapes.end(), shape) != mma_shapes.end();
}

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture& find_architecture(std::string_view name) {
  const auto row = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                [&](const Architecture& candidate) { return candidate.name == name; });
  if (row == kArchitectures.end()) {
    throw Failure(Status::unsupported, fmt::format("architecture \"{}\"", name), "cubit knows no such target",
                  accepted_names());
  }
  return *row;
}

const Architecture& architecture_of_device(int major, int minor) {
  const Architecture* best = nullptr;
  for (const Architecture& row : kArchitectures) {
    if (row.capability != major * 10 + minor || minor > 9 || minor < 0) continue;
    if (best == nullptr || row.variant == 'a') best = &row;
  }
  if (best == nullptr) {
    throw Failure(Status::unsupported, fmt::format("a device of compute capability {}.{}", major, minor),
                  "cubit knows no target for it", accepted_names());
  }
  return *best;
}

bool ptx_runs_on(const Architecture& code, int capability) {
  return code.variant == '\0' ? code.capability <= capability : code.capability == capability;
}

const Architecture& ptx_architecture_of_device(int major, int minor) {
  const auto is_older = [&](const Architecture& row) {
    return row.variant == '\0' && ptx_runs_on(row, major * 10 + minor);
  };
  const auto newest = std::find_if(kArchitectures.rbegin(), kArchitectures.rend(), is_older);
  return newest == kArchitectures.rend() ? architecture_of_device(major, minor) : *newest;
}

int tensor_operations_per_clock(const Architecture& architecture) {
  struct Rate {
    int capability;
    int operations;
  };
  constexpr Rate kRates[] = {{75, 1024}, {80, 2048}, {86, 1024}, {89, 1024}, {90, 4096}, {100, 8192}, {120, 1024}};
  for (const Rate& rate : kRates) {
    if (rate.capability == architecture.capability) return rate.operations;
  }
  return 0;
}

bool runs_on(const Architecture& code, const Architecture& device) {
  if (code.capability == device.capability) return true;
  if (code.variant == 'a' || is_tegra(code.capability) || is_tegra(device.capability)) return false;
  return code.capability / 10 == device.capability / 10 && code.capability <= device.capability;
}

int resident_blocks(const Architecture& architecture, int threads, int registers_per_thread, int shared_memory) {
  const bool fits = threads > 0 && threads <= kThreadsPerBlock && shared_memory >= 0 &&
                    shared_memory <= architecture.shared_memory_per_block &&
                    registers_per_thread <= architecture.registers_per_thread;
  if (!fits) return 0;
  const int warps = (threads + kWarp - 1) / kWarp;
  return std::min({architecture.blocks_per_sm, architecture.threads_per_sm / kWarp / warps,
                   blocks_by_registers(architecture, warps, registers_per_thread),
                   blocks_by_shared_memory(architecture, shared_memory)});
}

}  // namespace cubit::codegen
