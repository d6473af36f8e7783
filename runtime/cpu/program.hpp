// Program: an executable kernel with its PTX, the layout of its variables, and its machine code.
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

/// Offsets of registers, variables and parameters. The layout is decided before code is generated.
struct Layout {
  std::vector<std::int64_t> register_offsets;  ///< offset in a warp's register file; -1: the register never lives
                                               ///< across segments
  std::size_t register_bytes = 0;
  std::vector<std::uint64_t> module_variables;    ///< host address, or offset in shared memory
  std::vector<std::uint64_t> function_variables;  ///< offset in shared or local memory
  std::vector<std::uint64_t> parameters;          ///< offset in the parameters
  std::size_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;  ///< dynamic shared memory follows
  std::uint32_t local_bytes = 0;          ///< bytes per lane
};

struct AlignedFree {
  void operator()(std::byte* memory) const;
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedFree>;
AlignedBytes allocate_aligned(std::size_t bytes);  ///< zeroed, 256-byte aligned, never null

/// A compiled kernel.
struct Program {
  ptx::Module module;
  const ptx::Function* function = nullptr;
  std::vector<Segment> segments;
  Layout layout;
  AlignedBytes globals;  ///< the module's variables in global and constant memory
  std::uint64_t global_bytes = 0;
  std::vector<Site> sites;
  std::vector<SegmentCode> code;   ///< code of each segment
  std::shared_ptr<void> compiled;  ///< owns the code

  /// Describes an instruction's place, from the innermost inlined function outwards: "ld.shared.b32, PTX line 12,
  /// copies.cuh:34 in gqa_decode.cuh:56".
  std::string place(const ptx::Instruction& instruction) const;
};

/// Parses and compiles one entry point. Throws Failure(invalid_argument) if the text is not PTX or lacks the entry
/// point, and Failure(unsupported) for an instruction that the CPU device does not execute.
std::unique_ptr<const Program> load_program(std::string ptx_text, std::string_view entry_point);

/// Computes `layout` from the module, the function and the segments, and initialises the global variables.
void lay_out(Program& program);

/// Fills `sites`, `code` and `compiled` (lower/jit.cpp).
void generate(Program& program);

inline constexpr std::uint32_t kMostClusterBlocks = 16;  ///< the non-portable maximum of compute capability 9.0

/// Sizes, parameters and memory of one launch.
struct Launch {
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::array<std::uint32_t, 3> cluster{};  ///< blocks; zeros: the kernel's own cluster size, or {1, 1, 1}
  std::uint32_t dynamic_shared_bytes = 0;
  /// Time limit for a launch whose warps only loop and change nothing but loop counters. A state in which no warp can
  /// continue is detected at once and does not wait for the limit.
  std::chrono::milliseconds patience{60000};
  std::span<const std::byte> parameters;
  const MemoryMap* memory = nullptr;  ///< memory that the kernel may access; nullptr: addresses are not checked
  bool check = false;                 ///< check for races and for reads of unwritten shared memory; the launch then
                                      ///< uses one thread
  Counters* counters = nullptr;       ///< filled if not nullptr
};

/// Executes all clusters, on as many threads as the machine has processors, and returns when they are done. The first
/// error in any block is thrown as Failure(device_error), which names the error, kernel, place, block, warp and lane.
void execute(const Program& program, const Launch& launch);

}  // namespace cubit::runtime::cpu
