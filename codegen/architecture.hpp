// GPU architectures as data: one row per target, nothing computed. Adding an architecture adds one row.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cubit::codegen {

/// Element types as the tensor cores see them.
enum class MmaType { fp16, bf16, tf32, e4m3, e5m2, int8, int4, fp64 };

/// One warp-level tensor-core instruction, `mma.sync.aligned.m<m>n<n>k<k>`, operands of `type`.
struct MmaShape {
  int m = 0;
  int n = 0;
  int k = 0;
  MmaType type = MmaType::fp16;
  auto operator<=>(const MmaShape&) const = default;
};

/// What a plan may assume of a target. Sizes in bytes, per SM unless the name says otherwise.
/// Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; PTX ISA, "Target ISA Notes".
struct Architecture {
  std::string_view name;  ///< as the compiler takes it: "sm_90a"
  int capability = 0;     ///< 75 … 121
  char variant = '\0';    ///< '\0', 'a' (this chip only) or 'f' (this family)
  bool usual = false;  ///< one per generation that people run: what `cubit compile` makes where no device says better

  int shared_memory_per_sm = 0;
  int shared_memory_per_block = 0;  ///< the opt-in maximum
  int shared_memory_reserved = 0;   ///< taken by the system from each resident block
  int shared_memory_unit = 0;       ///< a block's share is rounded up to a multiple of this
  int registers_per_sm = 0;         ///< 32-bit
  int registers_per_thread = 255;   ///< the most a thread may have
  int threads_per_sm = 0;
  int blocks_per_sm = 0;

  bool ldmatrix = false;
  bool movmatrix = false;
  bool stmatrix = false;
  bool cp_async = false;
  bool bulk_copy = false;       ///< cp.async.bulk with transaction barriers
  int cluster_blocks = 0;       ///< most blocks in a cluster, above 8 as a size that is not portable; 0: no clusters
  bool kernel_overlap = false;  ///< griddepcontrol: a kernel begins while the one before in the stream ends
  bool wgmma = false;
  bool register_transfer = false;        ///< setmaxnreg: from some warps of a block to others
  bool fp8_conversion = false;           ///< cvt between e4m3/e5m2 and f16x2
  std::span<const MmaShape> mma_shapes;  ///< those that are one instruction; what ptxas expands is left out

  bool has_mma(const MmaShape& shape) const;
};

/// Every architecture cubit knows, in ascending order: sm_75 … sm_121 with their a and f variants.
std::span<const Architecture> architectures();

/// The row named `name` ("sm_90a"). Throws Failure(unsupported) that lists the accepted names.
const Architecture& find_architecture(std::string_view name);

/// Multiplications and additions, each counted, of one SM's tensor cores per clock: fp16 operands, dense, the faster
/// accumulator; 0 where no source says. Sources: NVIDIA's whitepapers on the Turing, A100, GA102, H100, Ada and
/// Blackwell architectures.
int tensor_operations_per_clock(const Architecture& architecture);

/// The best row for a device of compute capability major.minor: the "a" variant where one exists. Throws as above.
const Architecture& architecture_of_device(int major, int minor);

/// Binary compatibility of cubins (CUDA C++ Programming Guide, "Binary Compatibility"): within a major capability from
/// lower to higher minor; code of an "a" target runs on that very capability only. The guide's note: Tegra takes no
/// part, "binary compatibility between desktop and Tegra is not supported", so code of sm_86 does not run on sm_87.
bool runs_on(const Architecture& code, const Architecture& device);

/// How many blocks of this shape one SM holds at once; 0 if a block does not fit.
/// Registers are allocated per warp in units of 256; `registers_per_thread` is rounded up to a multiple of 8.
int resident_blocks(const Architecture& architecture, int threads, int registers_per_thread, int shared_memory);

}  // namespace cubit::codegen
