// Family sm90_persistent: bytes in the persistent kernel with TMA and wgmma. TMA copies, bulk copies and wgmma access
// shared memory too, but not lane by lane, so that they are no accesses of a layout.
#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/gemm/accesses.hpp"
#include "ops/gemm/boxes.hpp"
#include "ops/w8a8_gemm/w8a8_gemm.hpp"
#include "templates/byte_gemm/lanes.h"

namespace cubit::ops::w8a8_gemm {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using persistent_lanes::kConsumerWarps;
using Plan = gemm::sm90_persistent::Plan;

/// Rows of the largest tile of accumulate=promoted, which needs registers for the sums of a stage, too.
constexpr int kMostPromotedRows = 128;

template <bool IsGated, int OutputBytes>
TileAccess stores_of_outputs(int blocks) {
  using Features = persistent_lanes::FeaturesInOrder<IsGated>;
  constexpr int kRuns = Features::kRuns;
  return {"stores of outputs", AccessKind::store, 2 * OutputBytes, kRuns * blocks * kConsumerWarps,
          [](int instance, int lane) -> gemm::MaybeByte {
            const int run = instance / kConsumerWarps;
            const persistent_lanes::Place at = persistent_lanes::stored_outputs<Features, IsGated, OutputBytes>(
                lane, instance % kConsumerWarps, run / kRuns, run % kRuns);
            return codegen::TileByte{at.row, at.byte};
          }};
}

TileAccess stores_of_outputs(const W8a8Gemm& descriptor) {
  const int blocks = gemm::sm90_persistent::store_rows(describe(descriptor)) / 8;
  const bool is_gated = descriptor.is_gated();
  if (descriptor.has_byte_output())
    return is_gated ? stores_of_outputs<true, 1>(blocks) : stores_of_outputs<false, 1>(blocks);
  if (descriptor.output == W8Output::int32) return stores_of_outputs<false, 4>(blocks);
  return is_gated ? stores_of_outputs<true, 2>(blocks) : stores_of_outputs<false, 2>(blocks);
}

gemm::Role output_role(const W8a8Gemm& descriptor, const codegen::Architecture& architecture) {
  constexpr const char* kHeader = "byte_gemm/packed_outputs.cuh";
  if (descriptor.output == W8Output::int32) return {"gemm/staged_epilogue.cuh", "cubit::PackedIntegers"};
  if (descriptor.has_byte_output())
    return {kHeader, fmt::format("cubit::PackedBytes<{}>", byte_range_type(descriptor, architecture))};
  if (descriptor.has_second_output())
    return {kHeader,
            fmt::format("cubit::PackedHalvesAndBytes<Element, {}>", byte_range_type(descriptor, architecture))};
  return gemm::sm90_persistent::Weights().output;
}

/// Times of an H200. With many rows the tensor cores bind at the clock that the power limit allows, and with few rows
/// the copies of weights and activations.
gemm::PersistentTimes times_of(double rows) {
  return {.slab = std::max(0.3, 0.0025 * rows),
          .full_slab = std::max(0.535 + 0.0004 * rows, 0.0028125 * rows),
          .epilogue = 0.4 + 0.0065 * rows,
          .exchange = 1.5 + 0.005 * rows + (rows > 192 ? 3.6 : 0),
          .handover = 5.2,
          .partial = 0.004 * rows};
}

gemm::sm90_persistent::Weights persistent_weights(const W8a8Gemm& descriptor,
                                                  const codegen::Architecture& architecture) {
  constexpr const char* kProducts = "gemm/warpgroup_product.cuh";
  gemm::sm90_persistent::Weights weights;
  weights.stage_k = byte_lanes::kStageK;
  weights.words = gemm::box_layout(persistent_lanes::kBlockFeatures, byte_lanes::kStageK, byte_lanes::kStageK);
  weights.staging = {stores_of_outputs(descriptor)};
  weights.role = {"byte_gemm/shared_bytes.cuh",
                  fmt::format("cubit::SharedBytes<{}, {}>", descriptor.is_gated(), descriptor.promotes())};
  weights.activations = {"gemm/shared_activations.cuh",
                         fmt::format("cubit::SharedActivations<kTokens, {}>", byte_lanes::kStageK)};
  weights.product = {kProducts, descriptor.promotes()
                                    ? "cubit::PromotedProduct<kTokens>"
                                    : fmt::format("cubit::ByteWarpgroupProduct<{}, kTokens>", sum_type(descriptor))};
  weights.row_scaling = scaling_role(descriptor, descriptor.promotes());
  weights.output = output_role(descriptor, architecture);
  weights.times = times_of(descriptor.tile_m);
  weights.fragments = {"wgmma.m64n8 D, 32-bit"};
  weights.in_shared_memory = true;
  return weights;
}

std::vector<Decision> operand_decisions(const W8a8Gemm& descriptor) {
  const bool is_int8 = descriptor.element == W8Element::int8;
  return {
      {"operands", is_int8 ? "int8 as stored" : "e4m3 as stored",
       descriptor.is_gated() ? "a box interleaves 8 gate columns with their 8 up-projection columns, so that a lane "
                               "has a gate and its up-projection"
                             : "wgmma reads the rows of weights as the copy leaves them"},
      {"scales",
       descriptor.output == W8Output::int32 ? "none" : "in the epilogue, per row and per column of the output",
       is_int8 ? "sums are exact integers until then, so that clusters merge integers" : "no scale changes within k"},
      sum_decision(descriptor)};
}

class Sm90PersistentBytes final : public GemmFamily {
 public:
  std::string_view name() const override { return "sm90_persistent"; }
  std::string_view accepted() const override { return "sm_90a"; }

  std::optional<BrokenRule> why_not_descriptor(const W8a8Gemm& descriptor) const override {
    if (descriptor.tile_m < 16) return BrokenRule{"its tiles have 16 to 256 rows", "leave tile_m or family out"};
    if (descriptor.promotes() && descriptor.tile_m > kMostPromotedRows)
      return BrokenRule{
          fmt::format(
              "accumulate=promoted needs registers for the sums of a stage, which tiles of at most {} rows have",
              kMostPromotedRows),
          "ask for tile_m=128, or leave tile_m out"};
    if (descriptor.atomic_splits)
      return BrokenRule{"the two blocks of a cluster add up their sums themselves, without atomics",
                        "leave atomic_splits out"};
    return std::nullopt;
  }
  std::optional<std::string> why_not(const W8a8Gemm& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (!architecture.wgmma) return "it needs wgmma, which sm_90a alone has";
    if (auto broken = why_not_descriptor(descriptor)) return std::move(broken->rule);
    return std::nullopt;
  }
  FamilyPreference preference(const W8a8Gemm&, const codegen::Architecture&) const override {
    return {.is_preferred = true};
  }
  gemm::BlockPlan block_plan(const W8a8Gemm& descriptor, const codegen::Architecture& architecture) const override {
    return make_plan(descriptor, architecture).block;
  }
  std::shared_ptr<const Specialisation> plan(const W8a8Gemm& descriptor, const codegen::Architecture& architecture,
                                             PlanReport report) const override {
    return gemm::make_specialisation(kTranslation, descriptor, make_plan(descriptor, architecture),
                                     operand_decisions(descriptor), std::move(report), architecture);
  }

 private:
  static Plan make_plan(const W8a8Gemm& descriptor, const codegen::Architecture& architecture) {
    return gemm::sm90_persistent::make_plan(describe(descriptor), persistent_weights(descriptor, architecture),
                                            architecture);
  }
};

}  // namespace

const GemmFamily& sm90_persistent_family() {
  static const Sm90PersistentBytes kFamily;
  return kFamily;
}

}  // namespace cubit::ops::w8a8_gemm
