// What every operator provides, so that the library, the command line, the benchmark and `explain` need not know it.
//
// descriptor text ──specialise──► Specialisation { plan, source } ──encode(arguments)──► launch shape + parameters
//
// Problems and references of operators, which only tools and tests need: check/problem.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/kernel_source.hpp"
#include "codegen/tile_layout.hpp"
#include "ops/map_parameters.hpp"
#include "ops/numbers.hpp"
#include "runtime/device.hpp"
#include "runtime/kernel.hpp"

namespace cubit::ops {

/// One line of a plan: a decision, its value and the reason for it.
struct Decision {
  std::string name;   ///< "stages"
  std::string value;  ///< "4"
  std::string why;    ///< "as many as 100 KiB of shared memory hold at 2 blocks per SM"
};

/// A kernel family that was considered and not chosen.
struct Rejection {
  std::string family;
  std::string why;
};

/// A tile in shared memory and the accesses that its layout was made for.
struct Tile {
  std::string name;  ///< "stage: 16 rows of keys, then 16 of values"
  codegen::TileLayout layout;
  std::vector<codegen::TileAccess> accesses;
};

/// Bytes of a block's dynamic shared memory and what they hold during one phase of the kernel. Regions of one phase do
/// not overlap; those of different phases may.
struct MemoryRegion {
  std::string phase;  ///< "loop"
  std::string owner;  ///< "warp 0", or "block"
  std::string name;   ///< "stage 2"
  int offset = 0;
  int bytes = 0;
};

/// What `cubit explain` prints: everything the generator decided, with its reason.
struct PlanReport {
  std::string family;  ///< "sm80_gqa_decode"
  std::vector<Decision> decisions;
  std::vector<Tile> tiles;                     ///< with every shared-memory access of the kernel
  std::vector<codegen::ConflictProof> proofs;  ///< one per access of the tiles, in order
  std::vector<MemoryRegion> memory;            ///< dynamic shared memory, phase by phase, by ascending offset
  std::vector<std::string> fragments;          ///< names of the fragment maps it rests on
  std::vector<Rejection> rejections;
  std::string spills_allowed_because;  ///< empty: the kernel must not spill
};

/// Adds a tile, and the proof of each of its accesses.
void add_tile(PlanReport& report, Tile tile);

/// A launch as pure data: where it goes is the runtime's business. `launch` below takes it there.
struct Launch {
  runtime::LaunchShape shape;
  std::size_t parameter_bytes = 0;
  alignas(runtime::EncodedTensorMap) std::array<std::byte, 1024> parameters;  ///< the kernel's one argument struct
  MapParameters maps;                                                         ///< members of it
  bool empty = false;                                                         ///< nothing to do (batch 0)
  unsigned overlap_shared_memory = 0;  ///< dynamic, of a launch that overlaps; 0: as of any launch

  /// Sets overlap_shared_memory for the shape's blocks, of which at most `blocks_per_sm` share a multiprocessor. Blocks
  /// of a launch that overlaps go where the kernel before ends first; with so much each, no multiprocessor gets more
  /// than its even share of them.
  void spread_blocks(int blocks_per_sm, const runtime::DeviceFacts& device);
  /// Of a launch that overlaps, whose kernel has `fixed` bytes of static shared memory, as a user's device code may.
  unsigned dynamic_shared_memory_of_overlap(unsigned fixed) const;
};

/// Encodes the launch's tensor maps for `device` into its parameters. Throws as Device::encode does.
void encode_maps(const runtime::Kernel& kernel, runtime::Device& device, Launch& made);

/// Launches what has its maps encoded. Allocates nothing. Throws as Kernel::launch does.
void launch(runtime::Kernel& kernel, runtime::Device& device, const Launch& made, bool overlap, runtime::Stream stream);

inline constexpr std::size_t kMostRepeatableBytes = 512;

struct ArgumentTable;  // ops/argument_table.hpp

/// An operator with its descriptor and architecture fixed. Immutable, thread-safe.
class Specialisation {
 public:
  virtual ~Specialisation() = default;
  virtual const codegen::KernelSource& source() const = 0;
  virtual const PlanReport& report() const = 0;

  /// `arguments` points to the operator's public argument struct (its first member is its size in bytes).
  /// Throws Failure(invalid_argument) for what the struct's documentation rules out.
  virtual std::size_t workspace_bytes(const void* arguments, const runtime::DeviceFacts& device) const = 0;
  virtual Launch encode(const void* arguments, void* workspace, std::size_t workspace_bytes,
                        const runtime::DeviceFacts& device) const = 0;
  /// sizeof the public argument struct: a multiple of 8, at most kMostRepeatableBytes.
  virtual std::size_t argument_bytes() const = 0;
  /// argument_bytes() if a launch that comes again, byte for byte, need not be encoded again: encode() must then depend
  /// on nothing but its parameters, and must cost more than a look-up. 0: every launch is encoded.
  virtual std::size_t repeatable_bytes() const { return 0; }
};

/// How one field of a descriptor reads; for `--help`, `cubit explain` and generated lists of descriptors.
struct FieldHelp {
  std::string name;
  std::string accepts;   ///< "64, 128"
  std::string standard;  ///< the default's text
  std::string meaning;
};

class Operator {
 public:
  virtual ~Operator() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;
  virtual std::vector<FieldHelp> fields() const = 0;
  /// Every tensor and number of a launch.
  virtual const ArgumentTable& arguments() const = 0;
  virtual std::string suggest_help() const { return ""; }  ///< what `suggest` chooses, and by which sizes

  /// `text` is the whole descriptor, "name:field=value,…"; all throw Failure(invalid_argument) or (unsupported).
  virtual std::string canonical(std::string_view text) const = 0;
  /// The canonical text for launches of these sizes on `device`, by its architecture and multiprocessors: fields that
  /// decide how fast a kernel is, and not what it computes, as they should be fastest. Throws for sizes that
  /// suggest_help() does not name.
  virtual std::string suggest(std::string_view text, const Numbers& sizes, const runtime::DeviceFacts& device) const;
  virtual std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                           const codegen::Architecture& architecture) const = 0;
};

/// The one table of operators (ops/registry.cpp).
std::span<const Operator* const> operators();

/// The operator that `text` names before its colon. Throws Failure(invalid_argument) listing what there is.
const Operator& find_operator(std::string_view text);

}  // namespace cubit::ops
