// Sets of kernels: the members that a descriptor without tile_m or tile_n has, and the choice among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/w4a16_gemm/families.hpp"

namespace cubit::ops::w4a16_gemm {

/// The kernels that the descriptor names on the architecture, by ascending tile_m, then tile_n: the descriptor itself
/// if it gives both tiles. Throws Failure(unsupported) if the architecture serves no member. Pure.
std::vector<W4a16Gemm> members(const W4a16Gemm& descriptor, const codegen::Architecture& architecture);

/// The rule that leaves the set without a member on every architecture, or nothing. Pure.
std::optional<BrokenRule> why_no_members(const W4a16Gemm& set);

/// The choice among the members of one set, by the performance model of model.hpp. For members that nobody has timed:
/// the smallest tile of rows that holds all rows, else the largest.
class GemmChoice final : public MemberChoice {
 public:
  /// A choice among members().
  GemmChoice(const W4a16Gemm& set, const codegen::Architecture& architecture)
      : GemmChoice(set, members(set, architecture), architecture) {}
  /// A choice among other kernels of the set, which the architecture serves: for studies of how good members() are.
  GemmChoice(const W4a16Gemm& set, const std::vector<W4a16Gemm>& kernels, const codegen::Architecture& architecture);

  std::size_t choose(const void* public_arguments, const runtime::DeviceFacts& device) const override;
  std::size_t workspace_bytes(const void* public_arguments, const runtime::DeviceFacts& device) const override;
  ChoiceKey key(const void* public_arguments) const override;
  std::vector<ServedSizes> served() const override;

  /// The same for sizes and schedules alone: no pointer is read.
  std::size_t choose_by_sizes(gemm::Problem sizes, const runtime::DeviceFacts& device) const;
  const W4a16Gemm& member(std::size_t index) const { return members_[index].kernel; }
  std::size_t member_count() const { return members_.size(); }

 private:
  struct Member {
    W4a16Gemm kernel;
    BlockPlan block;
  };

  std::int64_t rows_of_largest_tile(const gemm::Problem& sizes, const runtime::DeviceFacts& device) const;
  std::int64_t last_split_rows(const gemm::Problem& sizes, const runtime::DeviceFacts& device) const;
  double cost(const BlockPlan& block, const gemm::Problem& sizes, const runtime::DeviceFacts& device) const;

  gemm::GemmDescriptor set_;
  std::vector<Member> members_;
  bool is_timed_;  ///< somebody has timed the members
};

}  // namespace cubit::ops::w4a16_gemm
