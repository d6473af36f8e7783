// A kernel that can be executed: its PTX, where its variables lie, and its code.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu/execute/frame.hpp"
#include "runtime/cpu/lower/control.hpp"

namespace cubit::runtime::cpu {

class Counters;

/// Where things lie; decided before any code is made.
struct Layout {
  std::vector<std::int64_t> register_offsets;  ///< in a warp's register file; -1: never lives across segments
  std::size_t register_bytes = 0;
  std::vector<std::uint64_t> module_variables;    ///< host address, or offset in shared memory
  std::vector<std::uint64_t> function_variables;  ///< offset in shared or local memory
  std::vector<std::uint64_t> parameters;          ///< offset
  std::size_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;  ///< dynamic shared memory follows
  std::uint32_t local_bytes = 0;          ///< per lane
};

struct AlignedFree {
  void operator()(std::byte* memory) const;
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedFree>;
AlignedBytes allocate_aligned(std::size_t bytes);  ///< zeroed, 256-byte aligned, never null

struct Program {
  ptx::Module module;
  const ptx::Function* function = nullptr;
  std::vector<Segment> segments;
  Layout layout;
  AlignedBytes globals;  ///< variables of the module in global and constant memory
  std::uint64_t global_bytes = 0;
  std::vector<Site> sites;
  std::vector<SegmentCode> code;   ///< of each segment
  std::shared_ptr<void> compiled;  ///< owns the code

  /// "ld.shared.b32, PTX line 12, copies.cuh:34 in gqa_decode.cuh:56" of an instruction: from the innermost inlined
  /// function outwards.
  std::string place(const ptx::Instruction& instruction) const;
};

/// Parses and compiles one entry point. Throws Failure(invalid_argument) for text that is not PTX or lacks the entry
/// point, Failure(unsupported) for an instruction that is not executed.
std::unique_ptr<const Program> load_program(std::string ptx_text, std::string_view entry_point);

/// Decides `layout` from the module, the function and the segments, and fills the global variables.
void lay_out(Program& program);

/// Fills `sites`, `code` and `compiled` (jit.cpp).
void generate(Program& program);

inline constexpr std::uint32_t kMostClusterBlocks = 16;  ///< of compute capability 9.0, the non-portable size

struct Launch {
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::array<std::uint32_t, 3> cluster{};  ///< blocks; zeros: as the kernel's PTX says, or {1, 1, 1}
  std::uint32_t dynamic_shared_bytes = 0;
  /// How long all warps of a launch may go round in circles, changing nothing but counters, before it is given up.
  /// Waiting in which nothing can happen any more is noticed at once.
  std::chrono::milliseconds patience{60000};
  std::span<const std::byte> parameters;
  const MemoryMap* memory = nullptr;  ///< what the kernel may touch; null: any address is believed
  bool check = false;                 ///< watch for races and for reads of unwritten shared memory; on one thread
  Counters* counters = nullptr;       ///< filled if given
};

/// Executes all clusters, on as many threads as the machine has processors, and returns when they are done. The first
/// thing that goes wrong in any block is thrown as Failure(device_error): what, kernel, place, block, warp and lane.
void execute(const Program& program, const Launch& launch);

}  // namespace cubit::runtime::cpu
