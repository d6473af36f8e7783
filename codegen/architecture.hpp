// GPU architectures as a table with one row per compiler target. Adding an architecture adds one row.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cubit::codegen {

/// Element types of tensor-core operands.
enum class MmaType { fp16, bf16, tf32, e4m3, e5m2, int8, int4, fp64 };

/// One warp-level tensor-core instruction, `mma.sync.aligned.m<m>n<n>k<k>`, with operands of `type`.
struct MmaShape {
  int m = 0;
  int n = 0;
  int k = 0;
  MmaType type = MmaType::fp16;
  auto operator<=>(const MmaShape&) const = default;
};

/// The properties of a target that a plan may rely on. Sizes are in bytes, and per SM unless the name says otherwise.
/// Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; PTX ISA, "Target ISA Notes".
struct Architecture {
  std::string_view name;  ///< the compiler's name of the target: "sm_90a"
  int capability = 0;     ///< compute capability, 75 … 121
  char variant = '\0';    ///< '\0', 'a' (code for this chip only) or 'f' (code for this family)
  bool usual = false;     ///< default targets of `cubit compile` if no device is given: one per generation in wide use

  int shared_memory_per_sm = 0;
  int shared_memory_per_block = 0;  ///< the maximum that a kernel can opt in to
  int shared_memory_reserved = 0;   ///< reserved by the system for each resident block
  int shared_memory_unit = 0;       ///< a block's allocation is rounded up to a multiple of this
  int registers_per_sm = 0;         ///< 32-bit registers
  int registers_per_thread = 255;   ///< maximum per thread
  int threads_per_sm = 0;
  int blocks_per_sm = 0;

  bool ldmatrix = false;
  bool movmatrix = false;
  bool stmatrix = false;
  bool cp_async = false;
  bool bulk_copy = false;       ///< cp.async.bulk with transaction barriers
  int cluster_blocks = 0;       ///< maximum blocks in a cluster, where sizes above 8 are non-portable; 0: no clusters
  bool kernel_overlap = false;  ///< griddepcontrol: a kernel may start while the previous kernel in the stream ends
  bool wgmma = false;
  bool register_transfer = false;        ///< setmaxnreg: warps of a block can pass registers to other warps
  bool fp8_conversion = false;           ///< cvt between e4m3/e5m2 and f16x2
  std::span<const MmaShape> mma_shapes;  ///< shapes that are one instruction; shapes that ptxas expands are left out

  bool has_mma(const MmaShape& shape) const;
};

/// All architectures that cubit knows, in ascending order: sm_75 … sm_121 with their a and f variants.
std::span<const Architecture> architectures();

/// Returns the row named `name` ("sm_90a"). Throws Failure(unsupported), which lists the accepted names.
const Architecture& find_architecture(std::string_view name);

/// Multiplications plus additions per clock of one SM's tensor cores, for dense fp16 operands and the faster
/// accumulator type. Returns 0 if no source gives the number. Sources: NVIDIA's whitepapers on the Turing, A100, GA102,
/// H100, Ada and Blackwell architectures.
int tensor_operations_per_clock(const Architecture& architecture);

/// Returns the best row for a device of compute capability major.minor: the "a" variant if there is one. Throws
/// Failure(unsupported) if cubit has no row for the capability.
const Architecture& architecture_of_device(int major, int minor);

/// Whether a cubin for `code` runs on `device` (CUDA C++ Programming Guide, "Binary Compatibility"). A cubin runs on
/// devices of the same major capability with an equal or higher minor capability. Code of an "a" target runs on exactly
/// its own capability. Tegra is an exception: "binary compatibility between desktop and Tegra is not supported", so
/// code for sm_86 does not run on sm_87.
bool runs_on(const Architecture& code, const Architecture& device);

/// Whether a driver compiles PTX for `code` on a device of compute capability `capability` (90 for 9.0). PTX without a
/// variant serves every later device ("CUDA C++ Programming Guide", "Just-in-Time Compilation"). PTX of an "a" or "f"
/// target counts for exactly its own capability here.
bool ptx_runs_on(const Architecture& code, int capability);

/// Returns the newest row without a variant whose PTX runs on a device of compute capability major.minor, for devices
/// that architecture_of_device() does not know. If there is no such row, throws what architecture_of_device() throws.
const Architecture& ptx_architecture_of_device(int major, int minor);

/// How many blocks of this shape one SM holds at once; 0 if a block does not fit. The hardware allocates registers per
/// warp in units of 256. `registers_per_thread` is rounded up to a multiple of 8.
int resident_blocks(const Architecture& architecture, int threads, int registers_per_thread, int shared_memory);

}  // namespace cubit::codegen
