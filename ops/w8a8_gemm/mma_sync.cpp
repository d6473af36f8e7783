// Families sm75 and sm80: bytes in the kernel with mma.sync.
#include "ops/gemm/sm75/sm75.hpp"
#include "ops/gemm/sm80/sm80.hpp"

#include <fmt/format.h>

#include <utility>

#include "ops/gemm/accesses.hpp"
#include "ops/gemm/source.hpp"
#include "ops/w8a8_gemm/w8a8_gemm.hpp"
#include "templates/byte_gemm/lanes.h"

namespace cubit::ops::w8a8_gemm {
namespace {

using codegen::AccessKind;
using codegen::TileAccess;

constexpr int kProductsOfStep = gemm_lanes::kStepBytes / byte_lanes::kProductBytes;
constexpr int kSteps = byte_lanes::kStageK / gemm_lanes::kStepBytes;

codegen::TileByte byte_at(gemm_lanes::Place place) { return {place.row, place.byte}; }

TileAccess loads_of_weights(const W8a8Gemm& descriptor) {
  constexpr int kOperands = 2 * kProductsOfStep * kSteps;  // of a strip
  const int strips = descriptor.tile_n / gemm_lanes::kStripColumns;
  return {"ldmatrix.x4 of words", AccessKind::ldmatrix, 16, strips * kOperands,
          [=](int instance, int lane) -> gemm::MaybeByte {
            const int operand = instance % kOperands;
            return byte_at(byte_lanes::words(lane, instance / kOperands, operand % 2, operand / 4, operand / 2 % 2));
          }};
}

TileAccess loads_of_bytes(int tiles) {
  return {"ldmatrix.x4 of activations", AccessKind::ldmatrix, 16, kSteps * tiles,
          [=](int instance, int lane) -> gemm::MaybeByte {
            return byte_at(gemm_lanes::activations_by_n(lane, instance % tiles, instance / tiles));
          }};
}

/// Outputs of 16 bits alone have the usual epilogue.
std::optional<gemm::Role> epilogue_role(const W8a8Gemm& descriptor, const codegen::Architecture& architecture) {
  if (descriptor.output == W8Output::int32) return gemm::Role{"gemm/epilogue.cuh", "cubit::IntegerOutput"};
  if (!descriptor.has_byte_output() && !descriptor.has_second_output()) return std::nullopt;
  const char* const output = descriptor.has_byte_output() ? "ByteOutputs<" : "HalfAndByteOutputs<Element, ";
  return gemm::Role{"byte_gemm/epilogue.cuh",
                    fmt::format("cubit::GemmEpilogue<Element, {}, {}, {}, {}, cubit::OneBias, cubit::{}{}>>",
                                gemm::function_type(descriptor.function), descriptor.is_gated(), descriptor.bias,
                                descriptor.residual, output, byte_range_type(descriptor, architecture))};
}

/// Nobody has timed these kernels. The times are those of w4a16_gemm for weights of 8 bits, whose stages have as many
/// bytes of weights.
gemm::WideTimes times_of(int tile_m) {
  gemm::WideTimes times;
  times.second_tile = 72.0 / tile_m;
  times.stage = tile_m <= 8 ? 0.9 : tile_m == 16 ? 0.95 : tile_m == 32 ? 1.05 : 1.3;
  times.merge_slice = tile_m <= 8 ? 0.17 : tile_m == 16 ? 0.35 : 0.44;
  return times;
}

/// Whether tensor cores multiply e4m3. Elsewhere the compiler expands mma.sync of e4m3 into 16-bit products.
bool has_e4m3_products(const codegen::Architecture& architecture) {
  return architecture.has_mma({16, 8, byte_lanes::kProductBytes, codegen::MmaType::e4m3});
}

/// Where the compiler expands mma.sync of e4m3, products have 16 bits and lose nothing. A second set of sums would gain
/// nothing, and would spill.
bool promotes(const W8a8Gemm& descriptor, const codegen::Architecture& architecture) {
  return descriptor.promotes() && has_e4m3_products(architecture);
}

gemm::mma_sync::Weights weights_of(const W8a8Gemm& descriptor, const codegen::Architecture& architecture) {
  gemm::mma_sync::Weights weights;
  weights.stage_k = byte_lanes::kStageK;
  weights.words.rows = descriptor.tile_n;
  weights.words.row_bytes = byte_lanes::kStageK;
  weights.accesses.words = {loads_of_weights(descriptor)};
  weights.accesses.activations = {loads_of_bytes(descriptor.tile_m / 8)};
  weights.role = {"byte_gemm/weights.cuh", "cubit::ByteRows<word_stage>"};
  weights.activations = {"byte_gemm/activations.cuh", "cubit::ByteActivations<activation_stage>"};
  weights.product = {"gemm/mma_product.cuh", fmt::format("cubit::ByteMmaProduct<{}>", sum_type(descriptor))};
  weights.row_scaling = scaling_role(descriptor, promotes(descriptor, architecture));
  weights.epilogue = epilogue_role(descriptor, architecture);
  weights.times = times_of(descriptor.tile_m);
  weights.strip_registers = 16;                                                // the words of a step
  weights.strip_tile_registers = promotes(descriptor, architecture) ? 16 : 8;  // the sums, and those of a stage
  weights.more_registers = 40;       // addresses of copies; with fewer, gated tiles of 32 rows spilled at three blocks
  weights.fewest_stages = 2;         // a stage of 256 columns has 32 KB
  weights.holds_two_strips = false;  // family sm75 keeps 32 KB of the next stage in the registers of all threads
  return weights;
}

std::vector<Decision> operand_decisions_of_bytes(const W8a8Gemm& descriptor,
                                                 const codegen::Architecture& architecture) {
  const Decision sums = promotes(descriptor, architecture) == descriptor.promotes()
                            ? sum_decision(descriptor)
                            : Decision{"sums", "fp32, of 16-bit products",
                                       "the compiler expands mma.sync of e4m3, whose 16-bit products lose nothing"};
  const bool is_int8 = descriptor.element == W8Element::int8;
  return {
      {"operands", is_int8 ? "int8 as stored" : "e4m3 as stored",
       "ldmatrix gives each lane four neighbouring bytes of a row, as mma.sync of bytes needs them"},
      {"column order", "row 8 i + r of 32 rows of a stage is column 4 r + i",
       "a lane then has four neighbouring columns of the output and stores them together"},
      {"scales",
       descriptor.output == W8Output::int32 ? "none" : "in the epilogue, per row and per column of the output",
       is_int8 ? "sums are exact integers until then, so that split-K merges integers" : "no scale changes within k"},
      sums};
}

/// A family of the kernel with mma.sync, whose plans MakePlan makes.
template <auto MakePlan>
class MmaSyncBytes : public GemmFamily {
 public:
  gemm::BlockPlan block_plan(const W8a8Gemm& descriptor, const codegen::Architecture& architecture) const final {
    return make_plan(descriptor, architecture).block;
  }
  std::shared_ptr<const Specialisation> plan(const W8a8Gemm& descriptor, const codegen::Architecture& architecture,
                                             PlanReport report) const final {
    if (descriptor.element == W8Element::fp8_e4m3 && !has_e4m3_products(architecture))
      report.spills_allowed_because =
          "the compiler expands mma.sync of e4m3 on this architecture, and spills words of the 16-bit operands";
    return gemm::make_specialisation(kTranslation, descriptor, make_plan(descriptor, architecture),
                                     operand_decisions_of_bytes(descriptor, architecture), std::move(report),
                                     architecture);
  }

 private:
  static auto make_plan(const W8a8Gemm& descriptor, const codegen::Architecture& architecture) {
    return MakePlan(describe(descriptor), weights_of(descriptor, architecture), architecture);
  }
};

class Sm75Bytes final : public MmaSyncBytes<gemm::sm75::make_plan> {
 public:
  std::string_view name() const override { return "sm75"; }
  std::string_view accepted() const override { return "sm_75 and later, with element=int8"; }
  bool is_modelled(const codegen::Architecture&) const override { return false; }

  std::optional<BrokenRule> why_not_descriptor(const W8a8Gemm& descriptor) const override {
    if (descriptor.element == W8Element::int8) return gemm::sm75::why_no_tile({descriptor.tile_m, descriptor.tile_n});
    return BrokenRule{"it multiplies int8 alone, as the tensor cores of sm_75 do",
                      "ask for element=int8, or leave family out"};
  }
  std::optional<std::string> why_not(const W8a8Gemm& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (auto broken = why_not_descriptor(descriptor)) return std::move(broken->rule);
    return gemm::sm75::why_not(architecture);
  }
};

class Sm80Bytes final : public MmaSyncBytes<gemm::sm80::make_plan> {
 public:
  std::string_view name() const override { return "sm80"; }
  std::string_view accepted() const override { return "sm_80 and later; element=fp8_e4m3 on sm_89 and later"; }
  /// Nobody has timed the tiles on an architecture without wgmma.
  bool is_modelled(const codegen::Architecture& architecture) const override { return architecture.wgmma; }

  std::optional<BrokenRule> why_not_descriptor(const W8a8Gemm& descriptor) const override {
    return gemm::why_too_many_rows(descriptor.tile_m);
  }
  std::optional<std::string> why_not(const W8a8Gemm& descriptor,
                                     const codegen::Architecture& architecture) const override {
    if (auto broken = why_not_descriptor(descriptor)) return std::move(broken->rule);
    if (descriptor.element == W8Element::int8) return gemm::sm80::why_not(8, codegen::MmaType::int8, architecture);
    // The conversion came with the instruction. From sm_90 to sm_110 ptxas expands the instruction.
    if (!architecture.fp8_conversion) return "element=fp8_e4m3 needs mma.sync of e4m3, which sm_89 brought";
    return std::nullopt;
  }
};

}  // namespace

const GemmFamily& sm75_family() {
  static const Sm75Bytes kFamily;
  return kFamily;
}

const GemmFamily& sm80_family() {
  static const Sm80Bytes kFamily;
  return kFamily;
}

}  // namespace cubit::ops::w8a8_gemm
