// The parts of a plan header that all kernel families of gqa_decode write. A family includes and aliases its own roles
// between them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel_source.hpp"
#include "codegen/plan_header.hpp"
#include "ops/gqa_decode/plan.hpp"

namespace cubit::ops::gqa_decode {

/// What a plan decides about the role that reads rows of keys or of values.
struct RowOptions {
  bool query_is_shared = false;    ///< keys only: query operands are in shared memory
  std::string begin_between = {};  ///< int4_rows only: a function for rows that begin between matrix rows of 16 bytes
  bool centres_nibbles = false;    ///< values in int4_rows only: see gqa_decode::centres_nibbles()
  bool recomputes_lanes = false;   ///< int4_rows only
};

/// The file of the role that reads rows of the format.
std::string_view format_header(const kv_cache::RowFormat& format);
/// The role that reads rows of keys or of values. `channels`: the name of a constant; `place`: the name of the function
/// that finds a row's bytes in the stage.
std::string format_type(const kv_cache::RowFormat& format, std::string_view channels, std::string_view place,
                        const RowOptions& options);

/// Includes the files of the roles Keys and Values.
void include_formats(codegen::PlanHeader& header, std::string_view of_keys, std::string_view of_values);
/// Includes the files of the cache, of query tokens and of element types.
void include_cache(codegen::PlanHeader& header, const GqaDecode& descriptor);
/// Includes the files of the roles for scores, tokens and sinks. Returns the user's code, which is not in the library;
/// the role that calls the user's code comes after it.
std::vector<codegen::Header> include_roles(codegen::PlanHeader& header, const GqaDecode& descriptor);

/// The constants of a block that families count in their own ways.
struct BlockShape {
  bool heads_are_m = false;  ///< query rows are the M of warpgroup MMAs; else tokens are the M
  int tiles_per_stage = 1;   ///< tiles of 16 tokens that a warp computes in one step
  int stage_bytes = 0;
};
void add_constants(codegen::PlanHeader& header, const CommonPlan& plan, const BlockShape& shape);
/// Aliases of the types of elements, cache and query tokens.
void alias_types(codegen::PlanHeader& header, const GqaDecode& descriptor, const codegen::Architecture& architecture);
/// Aliases of the roles for scores, tokens and sinks. They refer to the alias Keys, which comes before them.
void alias_roles(codegen::PlanHeader& header, const GqaDecode& descriptor);

/// What a family's kernel is, beyond its plan header.
struct SourceFacts {
  std::string_view kernel;  ///< the template: "kernels/attention/sm80_gqa_decode.cuh"
  int threads = 0;
  int cluster_blocks = 1;
};
codegen::KernelSource assemble(const codegen::PlanHeader& header, const CommonPlan& plan, const SourceFacts& facts,
                               const codegen::Architecture& architecture, std::span<const codegen::Header> users);

}  // namespace cubit::ops::gqa_decode
