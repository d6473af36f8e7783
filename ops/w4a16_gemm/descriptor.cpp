// The descriptor: which values each field takes, and the rules between fields.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/gemm/w4a16_gemm_lanes.h"

namespace cubit::ops::w4a16_gemm {
namespace {

std::vector<Field<W4a16Gemm>> make_fields() {
  using Descriptor = W4a16Gemm;
  return {
      word_field<Descriptor, W4Format>(
          {"format", "gptq, gptq_v2, awq, symmetric", "gptq", "how the checkpoint stores weights and zeros"},
          &Descriptor::format,
          {{"gptq", W4Format::gptq},
           {"gptq_v2", W4Format::gptq_v2},
           {"awq", W4Format::awq},
           {"symmetric", W4Format::symmetric}}),
      number_field<Descriptor>({"bits", "4, 8", "4", "of a weight and of a zero; 8 in formats other than awq"},
                               &Descriptor::bits, {4, 8}),
      word_field<Descriptor, int>({"group_size", "32, 64, 128, all", "128", "input features that share a scale"},
                                  &Descriptor::group_size, {{"32", 32}, {"64", 64}, {"128", 128}, {"all", 0}}),
      word_field<Descriptor, Element>({"element", "fp16, bf16", "fp16", "type of activations and output"},
                                      &Descriptor::element, {{"fp16", Element::fp16}, {"bf16", Element::bf16}}),
      number_field<Descriptor>(
          {"tile_m", "8, 16, 32, 64", "16", "rows of activations that a block computes; any number of rows is right"},
          &Descriptor::tile_m, {kTileRows.begin(), kTileRows.end()}),
      number_field<Descriptor>(
          {"tile_n", "256, 224, 160, 128, 96, 64, 32", "256",
           "columns of the weights that a block computes; fewer than 256 go with tile_m=8 and 16: its warps share k, "
           "and blocks only where these are few. Fastest is, mostly, what makes nearly one block for each "
           "multiprocessor: ask cubit suggest"},
          &Descriptor::tile_n, {kTileColumns.begin(), kTileColumns.end()}),
      flag_or_number_field<Descriptor>("activation_order",
                                       "whether g_idx names the group of each input feature; several times slower",
                                       &Descriptor::activation_order),
      word_field<Descriptor, GemmFunction>(
          {"function", "none, relu, silu, gelu, gelu_tanh, silu_gate", "none",
           "applied to the product and its bias; silu_gate: silu of the first half of the columns times the second"},
          &Descriptor::function,
          {{"none", GemmFunction::none},
           {"relu", GemmFunction::relu},
           {"silu", GemmFunction::silu},
           {"gelu", GemmFunction::gelu},
           {"gelu_tanh", GemmFunction::gelu_tanh},
           {"silu_gate", GemmFunction::silu_gate}}),
      flag_or_number_field<Descriptor>("bias", "whether a bias is added before the function", &Descriptor::bias),
      flag_or_number_field<Descriptor>("residual", "whether a tensor is added after it", &Descriptor::residual),
      number_field<Descriptor>(
          {"alignment", "16, 4", "16", "bytes that qweight and its rows are a multiple of (awq only)"},
          &Descriptor::alignment, {16, 4}),
      flag_or_number_field<Descriptor>(
          "batch_invariant",
          "whether a row's bits must not depend on the other rows: k is added up in an order "
          "that follows from n and k alone",
          &Descriptor::batch_invariant),
      flag_or_number_field<Descriptor>(
          "atomic_splits",
          "whether launches may ask for split-K whose blocks add their sums by atomics, in no order: bits then differ "
          "from run to run",
          &Descriptor::atomic_splits),
      word_field<Descriptor, std::string>(
          {"family", "auto, sm75, sm80, sm90", "auto",
           "kernel family; auto is the one that was measured to be faster, see cubit explain"},
          &Descriptor::family, {{"auto", "auto"}, {"sm75", "sm75"}, {"sm80", "sm80"}, {"sm90", "sm90"}}),
  };
}

/// Blocks of fewer than 256 columns.
void check_few_columns(const W4a16Gemm& descriptor, std::string_view text) {
  const auto refuse = [&](const char* why, const char* accepted) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                  fmt::format("tile_n={}: {}", descriptor.tile_n, why), accepted);
  };
  if (descriptor.tile_m > 16)
    refuse("a block reads all activations of its rows, too many for so few columns", "ask for tile_m=8 or 16");
  if (descriptor.atomic_splits)
    refuse("sums of its blocks meet in shared memory first, for which there is no atomic kernel",
           "leave tile_n or atomic_splits out");
  if (descriptor.batch_invariant)
    refuse("into how many parts a block's warps divide k depends on the rows of a tile",
           "leave tile_n or batch_invariant out");
  if (descriptor.is_gated() && descriptor.tile_n == 32)
    refuse("a strip of 32 columns has no room for gates and what they are for", "ask for tile_n=64");
  if (descriptor.family == "sm75") refuse("families sm80 and sm90 alone have such blocks", "leave family out");
  const bool is_sm90_alone = is_of_sm90_alone(descriptor.tile_n);
  if (is_sm90_alone && descriptor.family == "sm80")
    refuse("family sm90 alone has such blocks", "ask for family=sm90, or leave family out");
  if (!is_sm90_alone && descriptor.family != "sm90") return;
  std::string why = why_not_boxes(descriptor);
  if (why.empty()) why = why_not_boxes_of_few_columns(descriptor);
  if (!why.empty())
    refuse(
        ("family sm90: " + why).c_str(),
        is_sm90_alone ? "ask for a smaller tile_n or tile_m, or tile_n=256, and leave family out" : "leave family out");
}

}  // namespace

const std::vector<Field<W4a16Gemm>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

W4a16Gemm parse(std::string_view text) {
  const W4a16Gemm descriptor = parse_fields(text, fields());
  for (const auto& [name, value] : split_fields(text)) {
    if (name == "alignment" && descriptor.format != W4Format::awq) {
      throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                    "the field alignment applies to format=awq only", "leave alignment out or ask for format=awq");
    }
  }
  check_rules(descriptor, text);
  return descriptor;
}

void check_rules(const W4a16Gemm& descriptor, std::string_view text) {
  if (descriptor.activation_order && (descriptor.format == W4Format::awq || descriptor.group_size == 0)) {
    throw Failure(
        Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
        "activation_order=true needs groups that are not all of k, in a format other than awq, which has none",
        "leave activation_order out, or ask for format=gptq, gptq_v2 or symmetric and group_size=32, 64 or 128");
  }
  if (descriptor.bits == 8 && descriptor.format == W4Format::awq) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text), "format=awq has weights of 4 bits",
                  "leave bits out, or ask for format=gptq, gptq_v2 or symmetric");
  }
  if (descriptor.bits == 8 && descriptor.tile_m > 32) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                  "two stages of 64 rows and of weights of 8 bits do not fit the shared memory of every architecture",
                  "ask for tile_m=8, 16 or 32, which compute any number of rows");
  }
  if (descriptor.atomic_splits && descriptor.batch_invariant) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                  "batch_invariant=true wants sums in one order, and atomic_splits=true lets them be added in any",
                  "leave one of the two out");
  }
  if (descriptor.tile_n < 256) check_few_columns(descriptor, text);
  if (descriptor.family == "sm75") {
    const std::string why = why_not_all_fp16(descriptor);
    if (!why.empty()) {
      throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text), "family=sm75: " + why,
                    "ask for element=fp16, or leave family out");
    }
  }
  const std::string why = descriptor.family == "sm90" ? why_not_boxes(descriptor) : "";
  if (!why.empty()) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text), "family=sm90: " + why,
                  "ask for family=sm80, or leave family out");
  }
}

std::string why_not_boxes(const W4a16Gemm& descriptor) {
  if (descriptor.activation_order) return "with activation_order=true neighbours along k share no group";
  if (descriptor.batch_invariant) return "batch_invariant=true wants the same order of k in every tile";
  if (descriptor.bits != 4) return "there is no kernel of weights of 8 bits yet";
  if (descriptor.alignment != 16) return "tensor maps want rows that are multiples of 16 bytes, not alignment=4";
  return "";
}

std::string why_not_boxes_of_few_columns(const W4a16Gemm& descriptor) {
  if (descriptor.format == W4Format::awq && descriptor.tile_n == 32)
    return "a row of 32 columns of awq is 16 bytes, half of what the second-level cache gives at once";
  const int strips = descriptor.tile_n / 32;
  if (descriptor.is_gated() && strips > 1 && strips % 2 != 0)
    return fmt::format("half of {} columns is no number of strips of 32", descriptor.tile_n);
  // In others ptxas finds some registers too few.
  const bool fits_16_rows = descriptor.element == Element::fp16 && stores_zeros(descriptor) &&
                            descriptor.format != W4Format::awq &&
                            (descriptor.group_size == 128 || descriptor.group_size == 0);
  if (descriptor.tile_n == 224 && descriptor.tile_m == 16 && !fits_16_rows)
    return "16 rows of 224 columns fit a warp's registers in fp16 of gptq and gptq_v2 with group_size=128 or all only";
  // A group's scales of 32 columns are 64 bytes, and a box begins at a multiple of 128.
  if (descriptor.tile_n == 64 && descriptor.is_gated()) return "32 gates, and what they are for, are too few for boxes";
  return "";
}

std::string why_not_all_fp16(const W4a16Gemm& descriptor) {
  return descriptor.element == Element::fp16 ? "" : "it multiplies fp16 alone, as the tensor cores of sm_75 do";
}

bool is_of_sm90_alone(int tile_n) { return tile_n > 64 && tile_n < gemm_lanes::kBlockColumns; }

bool stages_factors(const W4a16Gemm& descriptor) { return descriptor.group_size != 0 && !descriptor.activation_order; }

bool stores_zeros(const W4a16Gemm& descriptor) { return descriptor.format != W4Format::symmetric; }

int zero_offset(const W4a16Gemm& descriptor) {
  if (descriptor.format == W4Format::symmetric) return 1 << (descriptor.bits - 1);
  return descriptor.format == W4Format::gptq ? 1 : 0;
}

int word_weights(const W4a16Gemm& descriptor) { return 32 / descriptor.bits; }

int groups_of(const W4a16Gemm& descriptor, int k) { return descriptor.group_size == 0 ? 1 : k / descriptor.group_size; }

int output_columns(const W4a16Gemm& descriptor, int n) { return descriptor.is_gated() ? n / 2 : n; }

}  // namespace cubit::ops::w4a16_gemm
