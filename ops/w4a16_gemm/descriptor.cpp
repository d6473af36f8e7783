// The descriptor: the values of each field, and the rules between fields.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "ops/gemm/families.hpp"
#include "ops/gemm/fields.hpp"
#include "ops/w4a16_gemm/families.hpp"
#include "ops/w4a16_gemm/members.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

std::vector<Field<W4a16Gemm>> make_fields() {
  using Descriptor = W4a16Gemm;
  return {
      word_field<Descriptor, W4Format>({"format", "gptq, gptq_v2, awq, symmetric, dense", "gptq",
                                        "how the checkpoint stores weights and zeros; dense: 16-bit weights that "
                                        "nobody quantised, which have neither "
                                        "bits nor group_size nor activation_order"},
                                       &Descriptor::format,
                                       {{"gptq", W4Format::gptq},
                                        {"gptq_v2", W4Format::gptq_v2},
                                        {"awq", W4Format::awq},
                                        {"symmetric", W4Format::symmetric},
                                        {"dense", W4Format::dense}}),
      number_field<Descriptor>({"bits", "4, 8", "4", "of a weight and of a zero; 8 in formats other than awq"},
                               &Descriptor::bits, {4, 8}),
      word_field<Descriptor, int>({"group_size", "16, 32, 64, 128, all", "128", "input features that share a scale"},
                                  &Descriptor::group_size,
                                  {{"16", 16}, {"32", 32}, {"64", 64}, {"128", 128}, {"all", 0}}),
      word_field<Descriptor, Element>(
          {"element", "fp16, bf16", "fp16", "type of activations, dense weights and output"}, &Descriptor::element,
          {{"fp16", Element::fp16}, {"bf16", Element::bf16}}),
      gemm::tile_m_field(&Descriptor::tile_m, kTileRows),
      gemm::tile_n_field(&Descriptor::tile_n, kTileColumns),
      flag_or_number_field<Descriptor>(
          "activation_order", "whether g_idx names the group of each input feature; 1.4 to 2.1 times slower on sm_90a",
          &Descriptor::activation_order),
      gemm::function_field(&Descriptor::function),
      gemm::bias_field(&Descriptor::bias),
      gemm::residual_field(&Descriptor::residual),
      number_field<Descriptor>({"layers", "1, 2, 3", "1",
                                "layers of a checkpoint that share the activations: each has tensors of its own, and "
                                "an output row has the columns of all; 2 with silu_gate: gate and up-projection"},
                               &Descriptor::layers, {1, 2, 3}),
      number_field<Descriptor>(
          {"alignment", "16, 4", "16", "bytes that qweight and its rows are a multiple of (awq only)"},
          &Descriptor::alignment, {16, 4}),
      gemm::batch_invariant_field(&Descriptor::batch_invariant),
      gemm::atomic_splits_field(&Descriptor::atomic_splits),
      family_field<Descriptor>(families()),
  };
}

[[noreturn]] void refuse(std::string_view text, std::string rule, std::string remedy) {
  throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text), std::move(rule), std::move(remedy));
}

/// Refuses the fields of packed weights, whatever values they have.
void check_dense(const W4a16Gemm& descriptor, std::string_view text) {
  const W4a16Gemm standard;
  const auto refuse_field = [&](const char* field, bool is_standard, const char* why) {
    if (is_standard && (text.empty() || !gives_field(text, field))) return;
    refuse(text, fmt::format("the field {} applies to packed weights only, and {}", field, why),
           fmt::format("leave {} out, or ask for format=gptq, gptq_v2, awq or symmetric", field));
  };
  refuse_field("bits", descriptor.bits == standard.bits, "format=dense has the 16 bits of element");
  refuse_field("group_size", descriptor.group_size == standard.group_size, "format=dense has no groups");
  refuse_field("activation_order", !descriptor.activation_order, "format=dense has no groups that g_idx could name");
}

/// The rules of all descriptors that no family can lift.
void check_fields(const W4a16Gemm& descriptor, std::string_view text) {
  if (descriptor.is_dense()) check_dense(descriptor, text);
  if (descriptor.activation_order && (descriptor.format == W4Format::awq || descriptor.group_size == 0))
    refuse(text, "activation_order=true needs groups that are not all of k, in a format other than awq, which has none",
           "leave activation_order out, or ask for format=gptq, gptq_v2 or symmetric and group_size=16, 32, 64 or 128");
  if (descriptor.bits == 8 && descriptor.format == W4Format::awq)
    refuse(text, "format=awq has weights of 4 bits", "leave bits out, or ask for format=gptq, gptq_v2 or symmetric");
  if (descriptor.bits == 8 && descriptor.tile_m > 32)
    refuse(text, "two stages of 64 rows and of weights of 8 bits do not fit the shared memory of every architecture",
           "ask for tile_m=8, 16 or 32, which compute any number of rows");
  if (descriptor.layers == 3 && descriptor.is_gated())
    refuse(text, "function=silu_gate has one layer of gates and one of up-projections, not a third one",
           "ask for layers=2, or for layers=1 if one layer has both");
  if (descriptor.layers > 1 && descriptor.is_dense())
    refuse(text, "there is no kernel of several layers of dense weights yet", "leave layers out");
  if (auto broken = gemm::why_no_order(descriptor)) refuse(text, std::move(broken->rule), std::move(broken->remedy));
}

/// Throws if no family serves the descriptor on any architecture, with the rule of each family.
void check_served(const W4a16Gemm& descriptor, std::string_view text) {
  const std::optional<std::string> rules = why_unserved(families(), descriptor);
  if (!rules) return;
  if (descriptor.is_dense())
    refuse(text, fmt::format("format=dense: no kernel family serves it ({})", *rules),
           "ask for tile_m=16 to 256, without tile_n, batch_invariant and atomic_splits");
  if (has_many_rows(descriptor))
    refuse(text, fmt::format("tile_m={}: no kernel family serves it ({})", descriptor.tile_m, *rules),
           "ask for tile_m=8, 16, 32 or 64, which compute any number of rows");
  refuse(text, fmt::format("tile_n={}: no kernel family serves it ({})", descriptor.tile_n, *rules),
         "ask for a smaller tile_n or tile_m, or tile_n=256");
}

}  // namespace

const std::vector<Field<W4a16Gemm>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

W4a16Gemm parse(std::string_view text) {
  W4a16Gemm descriptor = parse_fields(text, fields());
  if (gives_field(text, "alignment") && descriptor.format != W4Format::awq) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                  "the field alignment applies to format=awq only", "leave alignment out or ask for format=awq");
  }
  check_rules(descriptor, text);
  return descriptor;
}

void check_rules(const W4a16Gemm& descriptor, std::string_view text) {
  check_fields(descriptor, text);
  if (descriptor.is_set()) {
    if (auto broken = gemm::why_no_members(kSetPolicy, descriptor))
      refuse(text, std::move(broken->rule), std::move(broken->remedy));
    return;
  }
  if (auto broken = gemm::why_no_narrow_block(descriptor))
    refuse(text, std::move(broken->rule), std::move(broken->remedy));
  if (auto broken = why_not_named_family(families(), descriptor))
    refuse(text, fmt::format("family={}: {}", descriptor.family, broken->rule), broken->remedy);
  check_served(descriptor, text);
}

bool is_served(const W4a16Gemm& descriptor) {
  try {
    check_rules(descriptor, descriptor.text());
    return true;
  } catch (const Failure&) {
    return false;
  }
}

bool is_narrow(const W4a16Gemm& descriptor) {
  return descriptor.tile_n != 0 && descriptor.tile_n < gemm_lanes::kBlockColumns;
}

bool has_many_rows(const W4a16Gemm& descriptor) { return descriptor.tile_m > 64; }

bool has_words_by_n(const W4a16Gemm& descriptor) { return descriptor.format == W4Format::awq; }

bool stages_scales(const W4a16Gemm& descriptor) { return descriptor.group_size != 0 && !descriptor.activation_order; }

bool stores_zeros(const W4a16Gemm& descriptor) {
  return descriptor.format != W4Format::symmetric && !descriptor.is_dense();
}

int zero_offset(const W4a16Gemm& descriptor) {
  if (descriptor.format == W4Format::symmetric) return 1 << (descriptor.bits - 1);
  return descriptor.format == W4Format::gptq ? 1 : 0;
}

int word_weights(const W4a16Gemm& descriptor) { return 32 / descriptor.bits; }

int stage_groups(const W4a16Gemm& descriptor) {
  return descriptor.group_size == 0 ? 1 : gemm_lanes::kStageK / descriptor.group_size;
}

int groups_of(const W4a16Gemm& descriptor, int k) {
  const int size = descriptor.group_size;
  return size == 0 || descriptor.is_dense() ? 1 : (k + size - 1) / size;
}

int output_columns(const W4a16Gemm& descriptor, int n) { return descriptor.is_gated() ? n / 2 : n; }

}  // namespace cubit::ops::w4a16_gemm
