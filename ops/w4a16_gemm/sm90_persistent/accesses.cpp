// The shared-memory accesses of the lanes. TMA copies, bulk copies and wgmma access shared memory too, but not lane by
// lane, so that they are no accesses of a layout.
#include "ops/w4a16_gemm/accesses.hpp"
#include "ops/w4a16_gemm/sm90_persistent/sm90_persistent.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops::w4a16_gemm::sm90_persistent {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;
using codegen::TileByte;
using persistent_lanes::kConsumerWarps;

TileByte byte_at(persistent_lanes::Place place) { return {place.row, place.byte}; }

template <bool IsGated>
TileAccess loads_by_k() {
  constexpr int kRows = 2 * persistent_lanes::kSteps;
  constexpr int kParts = IsGated ? 2 : 1;
  return {"loads of words", AccessKind::load, IsGated ? 4 : 8, kParts * kRows * kConsumerWarps,
          [](int instance, int lane) -> MaybeByte {
            const int row = instance / kConsumerWarps % kRows;
            return byte_at(persistent_lanes::FeaturesByK<IsGated>::word(
                lane, instance % kConsumerWarps, instance / kConsumerWarps / kRows, row / 2, row % 2));
          }};
}

template <bool IsGated>
TileAccess loads_by_n() {
  constexpr int kPairs = persistent_lanes::kSteps / 2;
  constexpr int kParts = IsGated ? 2 : 1;
  return {
      "ldmatrix.x4.trans of words", AccessKind::ldmatrix, 16, kParts * kPairs * kConsumerWarps,
      [](int instance, int lane) -> MaybeByte {
        return byte_at(persistent_lanes::FeaturesByN<IsGated>::words(
            lane, instance % kConsumerWarps, instance / kConsumerWarps / kPairs, instance / kConsumerWarps % kPairs));
      }};
}

template <class Features, bool IsGated>
TileAccess stores_of_outputs(int blocks) {
  constexpr int kStores = Features::kRuns;
  constexpr int kRunBytes = 2 * (IsGated ? 2 : 4) / kStores;
  return {"stores of outputs", AccessKind::store, kRunBytes, kStores * blocks * kConsumerWarps,
          [](int instance, int lane) -> MaybeByte {
            const int store = instance / kConsumerWarps;
            return byte_at(persistent_lanes::stored_outputs<Features, IsGated>(lane, instance % kConsumerWarps,
                                                                               store / kStores, store % kStores));
          }};
}

TileAccess of_sums(const char* name, AccessKind kind, int rows) {
  constexpr int kWarps = 4;  // of a warpgroup
  return {name, kind, 16, rows * kWarps, [](int instance, int lane) -> MaybeByte {
            return TileByte{instance / kWarps, 16 * (instance % kWarps * 32 + lane)};
          }};
}

}  // namespace

std::vector<TileAccess> word_accesses(const W4a16Gemm& descriptor) {
  if (descriptor.is_dense()) return {};
  if (has_words_by_n(descriptor)) return {descriptor.is_gated() ? loads_by_n<true>() : loads_by_n<false>()};
  return {descriptor.is_gated() ? loads_by_k<true>() : loads_by_k<false>()};
}

std::vector<TileAccess> staging_accesses(const Plan& plan) {
  using persistent_lanes::FeaturesByK;
  using persistent_lanes::FeaturesByN;
  using persistent_lanes::FeaturesInOrder;
  const int blocks = plan.store_rows / 8;
  const bool gated = plan.block.descriptor.is_gated();
  if (plan.block.descriptor.is_dense())
    return {gated ? stores_of_outputs<FeaturesInOrder<true>, true>(blocks)
                  : stores_of_outputs<FeaturesInOrder<false>, false>(blocks)};
  if (has_words_by_n(plan.block.descriptor))
    return {gated ? stores_of_outputs<FeaturesByN<true>, true>(blocks)
                  : stores_of_outputs<FeaturesByN<false>, false>(blocks)};
  return {gated ? stores_of_outputs<FeaturesByK<true>, true>(blocks)
                : stores_of_outputs<FeaturesByK<false>, false>(blocks)};
}

std::vector<TileAccess> exchange_accesses(const Plan& plan) {
  return {of_sums("stores of given sums", AccessKind::store, plan.exchange.rows),
          of_sums("loads of received sums", AccessKind::load, plan.exchange.rows)};
}

}  // namespace cubit::ops::w4a16_gemm::sm90_persistent
