// The choice among kernels of one GEMM that differ in their tiles alone, by sizes and the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/gemm/plan.hpp"
#include "ops/operator.hpp"

namespace cubit::ops::gemm {

/// The choice by the performance model of model.hpp. Among kernels that nobody has timed: the smallest tile of rows
/// that holds all rows, else the largest.
class TileChoice {
 public:
  /// `kernels`: at least one, by ascending tile_m, then tile_n. `is_timed`: somebody has timed the kernels.
  TileChoice(std::vector<BlockPlan> kernels, bool is_timed) : kernels_(std::move(kernels)), is_timed_(is_timed) {}

  /// The index of a kernel that serves the launch. If none does, the index of the kernel whose refusal is the most
  /// general. 0 rows are as 1. Reads no pointer.
  std::size_t choose(Problem sizes, const runtime::DeviceFacts& device) const;
  /// The workspace of a launch. It serves every launch with fewer rows too, whichever kernel that takes.
  std::size_t workspace_bytes(const Problem& problem, const runtime::DeviceFacts& device) const;
  /// See MemberChoice::served.
  std::vector<ServedSizes> served() const;
  /// What a choice depends on besides the device.
  static ChoiceKey key(const Problem& problem);

 private:
  std::int64_t rows_of_largest_tile(const Problem& sizes, const runtime::DeviceFacts& device) const;
  std::int64_t last_split_rows(const Problem& sizes, const runtime::DeviceFacts& device) const;
  double cost(const BlockPlan& block, const Problem& sizes, const runtime::DeviceFacts& device) const;

  std::vector<BlockPlan> kernels_;
  bool is_timed_;
};

}  // namespace cubit::ops::gemm
