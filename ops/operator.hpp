// The interface of an operator. The library, the command line, the benchmark and `explain` know operators only by it.
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

/// A region of a block's dynamic shared memory and its use during one phase of the kernel. Regions of one phase do not
/// overlap; regions of different phases may overlap.
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
  std::vector<std::string> fragments;          ///< names of the fragment maps that the kernel uses
  std::vector<Rejection> rejections;           ///< kernel families that were not chosen, with the reason
  std::string spills_allowed_because;          ///< empty: the kernel must not spill
};

/// Adds a tile and proves each of its accesses.
void add_tile(PlanReport& report, Tile tile);

/// A launch as pure data, without device and stream. The functions `launch` below make it on a device and a stream.
struct Launch {
  runtime::LaunchShape shape;
  std::size_t parameter_bytes = 0;
  alignas(runtime::EncodedTensorMap) std::array<std::byte, 1024> parameters;  ///< the kernel's one argument struct
  MapParameters maps;                                                         ///< tensor maps among the parameters
  bool empty = false;                                                         ///< nothing to do (batch 0)
  std::uint32_t member = 0;            ///< of a set: the index of the member whose kernel is launched
  unsigned overlap_shared_memory = 0;  ///< shared memory of a block, in bytes, in a launch that overlaps; 0: no change

  /// Sets overlap_shared_memory so that blocks spread evenly over the multiprocessors; at most `blocks_per_sm` blocks
  /// fit one multiprocessor. Without it, blocks of a launch that overlaps would crowd on the multiprocessors on which
  /// the previous kernel ends first. With so much shared memory per block, no multiprocessor holds more blocks than the
  /// average, rounded up.
  void spread_blocks(int blocks_per_sm, const runtime::DeviceFacts& device);
  /// Dynamic shared memory of a block in a launch that overlaps. `fixed`: the kernel's bytes of static shared memory,
  /// which a user's device code may declare.
  unsigned dynamic_shared_memory_of_overlap(unsigned fixed) const;
};

/// Encodes the launch's tensor maps for `device` into its parameters. Throws as Device::encode does.
void encode_maps(const runtime::Kernel& kernel, runtime::Device& device, Launch& made);

/// Launches `made`, whose tensor maps are encoded. Allocates nothing. Throws as Kernel::launch does.
void launch(runtime::Kernel& kernel, runtime::Device& device, const Launch& made, bool overlap, runtime::Stream stream);

/// Largest argument struct of launches that may be repeated, see Specialisation::repeatable_bytes().
inline constexpr std::size_t kMostRepeatableBytes = 512;

struct ArgumentTable;  // ops/argument_table.hpp

/// An operator with its descriptor and architecture fixed. Immutable, thread-safe.
class Specialisation {
 public:
  virtual ~Specialisation() = default;
  virtual const codegen::KernelSource& source() const = 0;
  virtual const PlanReport& report() const = 0;

  /// Workspace and launch for the operator's public argument struct, to which `arguments` points. Both throw
  /// Failure(invalid_argument) for arguments that the struct's documentation rules out.
  virtual std::size_t workspace_bytes(const void* arguments, const runtime::DeviceFacts& device) const = 0;
  virtual Launch encode(const void* arguments, void* workspace, std::size_t workspace_bytes,
                        const runtime::DeviceFacts& device) const = 0;
  /// sizeof the public argument struct: a multiple of 8, at most kMostRepeatableBytes.
  virtual std::size_t argument_bytes() const = 0;
  /// argument_bytes() if launches with equal arguments may reuse an encoded launch (RecentLaunches). encode() must then
  /// depend on nothing but its parameters, and must cost more than a table lookup. 0: every launch is encoded.
  virtual std::size_t repeatable_bytes() const { return 0; }
};

/// Everything in a launch's arguments that the choice of a member depends on, as numbers.
using ChoiceKey = std::array<std::uint64_t, 3>;

/// The launches of some sizes, and the arguments for which each member of a set is chosen.
struct ServedSizes {
  std::string sizes;                ///< "n=8192, k=8192"
  std::vector<std::string> served;  ///< one text per member: "m=1 to 8"; "" if the member is never chosen
};

/// The choice of a set's member for a launch. Immutable, thread-safe. `arguments` points to the operator's public
/// argument struct; a struct of an unknown size is refused as Specialisation::encode() refuses it.
class MemberChoice {
 public:
  virtual ~MemberChoice() = default;
  /// The index of the member that a launch takes. If no member serves the arguments, the index of a member whose
  /// encode() throws the reason. Depends on key(arguments) and the device alone.
  virtual std::size_t choose(const void* arguments, const runtime::DeviceFacts& device) const = 0;
  virtual ChoiceKey key(const void* arguments) const = 0;
  /// The workspace of a launch with these arguments. It serves every smaller launch too, whichever member that takes.
  virtual std::size_t workspace_bytes(const void* arguments, const runtime::DeviceFacts& device) const = 0;
  /// What `cubit explain` shows of the choice: a few usual sizes, on one usual device.
  virtual std::vector<ServedSizes> served() const = 0;
};

/// The help of one field of a descriptor, for `--help`, `cubit explain` and generated lists of descriptors.
struct FieldHelp {
  std::string name;
  std::string accepts;   ///< "64, 128"
  std::string standard;  ///< the default's text
  std::string meaning;
};

/// One operator, for example gqa_decode. Objects are stateless and thread-safe.
class Operator {
 public:
  virtual ~Operator() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;
  virtual std::vector<FieldHelp> fields() const = 0;
  /// Every tensor and number of a launch.
  virtual const ArgumentTable& arguments() const = 0;
  /// The fields that `suggest` chooses, and the sizes that it needs.
  virtual std::string suggest_help() const { return ""; }

  /// The canonical text of a descriptor. Here and below `text` is the whole descriptor, "name:field=value,…", and the
  /// function throws Failure(invalid_argument) or Failure(unsupported) if it cannot serve the descriptor.
  virtual std::string canonical(std::string_view text) const = 0;
  /// The canonical text with the fields that affect only speed set for launches of these sizes. The choice depends on
  /// the architecture and the number of multiprocessors of `device`. Throws for sizes that suggest_help() does not
  /// name.
  virtual std::string suggest(std::string_view text, const Numbers& sizes, const runtime::DeviceFacts& device) const;
  /// The canonical texts of the kernels that the descriptor names on the architecture, in a fixed order: usually the
  /// one canonical text. A descriptor that leaves some fields to cubit names a set, whose members spell these fields.
  virtual std::vector<std::string> members(std::string_view text, const codegen::Architecture& architecture) const;
  /// The choice among members(); null where members() is one text.
  virtual std::shared_ptr<const MemberChoice> choice(std::string_view text,
                                                     const codegen::Architecture& architecture) const;
  /// Requires that members() is one text; else throws Failure(invalid_argument).
  virtual std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                           const codegen::Architecture& architecture) const = 0;
};

/// The one table of operators (ops/registry.cpp).
std::span<const Operator* const> operators();

/// The operator that `text` names before its colon. Throws Failure(invalid_argument) that lists all operators.
const Operator& find_operator(std::string_view text);

}  // namespace cubit::ops
