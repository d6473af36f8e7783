// What the plans of all kernel families of gqa_decode have in common, and the planning steps that families share.
//
// Words: a query row is one query head of one query token. A tile is 16 tokens of a KV head, by 8 query rows. A stage
// is what the pipeline copies to shared memory at once.
#pragma once

#include <cubit/gqa_decode.hpp>

#include "codegen/architecture.hpp"
#include "codegen/tile_layout.hpp"
#include "ops/argument_table.hpp"
#include "ops/kv_cache/row_format.hpp"
#include "ops/operator.hpp"

namespace cubit::ops::gqa_decode {

/// The part of a plan that every family has. A plan holds everything that is decided before a batch is known.
struct CommonPlan {
  GqaDecode descriptor;
  PointerChecks pointers;   ///< of the descriptor
  int head_groups = 1;      ///< blocks that share the query rows of a KV head; each of them reads the cache
  int heads_per_block = 1;  ///< query rows of a head group; the last group may have fewer
  int heads_per_warp = 1;   ///< query rows of a warp
  int warps = 4;            ///< warps that compute
  int stages = 0;           ///< pipeline depth; 0: no depth fits the architecture
  int blocks_per_sm = 0;
  int copy_bytes = 0;             ///< bytes of one thread's vector copy
  bool recomputes_lanes = false;  ///< a lane's addresses are computed at each use, not kept in registers
  int counted_registers = 0;      ///< registers per thread that the main loop keeps live
  codegen::TileLayout stage;      ///< the rows of keys in a stage, or of keys and values: see the family's plan
  int shared_memory = 0;          ///< bytes per block
  PlanReport report;

  int heads() const { return descriptor.heads_per_kv * descriptor.query_tokens; }  ///< query rows of a KV head
  int head_tiles() const { return (heads_per_warp + 7) / 8; }                      ///< tiles of 8 query rows per warp
  kv_cache::CacheFormats formats() const { return kv_cache::formats_of(descriptor); }
};

/// Bytes that an SM should have in flight: about three times latency times bandwidth of the fastest device measured,
/// because warps start and finish their tiles unevenly. (An H200 reads 4.7 TB/s with 132 SMs at about 0.8 us of
/// latency, which is 28 KB for each SM.)
inline constexpr int kBytesInFlight = 96 * 1024;

/// Sets what follows from the descriptor and the architecture alone. Every family's plan begins with this call.
void begin_plan(CommonPlan& plan, const GqaDecode& descriptor, const codegen::Architecture& architecture,
                PlanReport report);

/// Registers that the main loop keeps live, counted over the loop's arrays. A plan chooses blocks per SM so that each
/// thread is allowed at least this many registers. The compiler may use all registers that it is then allowed.
/// `copies`: copies of a thread whose source offsets stay in registers.
int count_registers(const GqaDecode& descriptor, int head_tiles, int copies);

/// The most tiles of 8 query rows, up to `most`, for which a thread needs at most so many registers; at least 1.
int count_head_tiles(const GqaDecode& descriptor, int most, int registers);

/// Divides the query rows of a KV head evenly among as few blocks as possible. A block has `query_groups` groups of
/// warps, and a warp computes up to `tiles_per_warp` tiles of 8 query rows.
void divide_heads(CommonPlan& plan, int tiles_per_warp, int query_groups);

/// The widest vector copy that the caller's alignment and the formats' rows allow.
int choose_copy_bytes(const GqaDecode& descriptor);

/// Whether rows of keys or of values are int4_rows of 8 groups, which take the most registers.
bool has_eight_packed_groups(const kv_cache::CacheFormats& formats);

/// Throws Failure(internal) for a plan without stages.
void require_stages(const CommonPlan& plan, const codegen::Architecture& architecture);

}  // namespace cubit::ops::gqa_decode
