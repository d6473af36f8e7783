// The descriptor: the values of each field, and the rules between fields.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "ops/gemm/fields.hpp"
#include "ops/w8a8_gemm/w8a8_gemm.hpp"

namespace cubit::ops::w8a8_gemm {
namespace {

constexpr std::array kTileRows = {8, 16, 32, 64, 128, 192, 256};
constexpr std::array kTileColumns = {256};

std::vector<Field<W8a8Gemm>> make_fields() {
  using Descriptor = W8a8Gemm;
  return {
      word_field<Descriptor, W8Element>({"element", "int8, fp8_e4m3", "int8", "type of activations and weights"},
                                        &Descriptor::element,
                                        {{"int8", W8Element::int8}, {"fp8_e4m3", W8Element::fp8_e4m3}}),
      word_field<Descriptor, W8Output>({"output", "fp16, bf16, int32, int8, fp8_e4m3", "fp16",
                                        "type of the output; int32: the sums of element=int8, without scales; int8, "
                                        "fp8_e4m3: quantised by one given scale"},
                                       &Descriptor::output,
                                       {{"fp16", W8Output::fp16},
                                        {"bf16", W8Output::bf16},
                                        {"int32", W8Output::int32},
                                        {"int8", W8Output::int8},
                                        {"fp8_e4m3", W8Output::fp8_e4m3}}),
      word_field<Descriptor, SecondOutput>(
          {"second_output", "none, int8, fp8_e4m3", "none",
           "bytes that one given scale makes of each output of 16 bits, for the next "
           "layer"},
          &Descriptor::second_output,
          {{"none", SecondOutput::none}, {"int8", SecondOutput::int8}, {"fp8_e4m3", SecondOutput::fp8_e4m3}}),
      word_field<Descriptor, Fp8Accumulation>(
          {"accumulate", "fast, promoted", "fast",
           "how products of e4m3 are added up: all in tensor cores, which keep about 13 bits below the largest addend, "
           "or 128 values along k at a time, whose sums are added in fp32"},
          &Descriptor::accumulate, {{"fast", Fp8Accumulation::fast}, {"promoted", Fp8Accumulation::promoted}}),
      word_field<Descriptor, TokenScale>(
          {"activation_scale", "token, tensor", "token", "a scale for each row of activations, or one scale"},
          &Descriptor::activation_scale, {{"token", TokenScale::token}, {"tensor", TokenScale::tensor}}),
      word_field<Descriptor, ChannelScale>(
          {"weight_scale", "channel, tensor", "channel", "a scale for each row of weights, or one scale"},
          &Descriptor::weight_scale, {{"channel", ChannelScale::channel}, {"tensor", ChannelScale::tensor}}),
      flag_field<Descriptor>("zero_points", "whether activations of int8 have zero points, as many as scales",
                             &Descriptor::zero_points),
      gemm::tile_m_field(&Descriptor::tile_m, kTileRows),
      gemm::function_field(&Descriptor::function),
      gemm::bias_field(&Descriptor::bias),
      gemm::residual_field(&Descriptor::residual),
      word_field<Descriptor, Element>(
          {"addend", "fp16, bf16", "fp16", "type of bias and residual beside an 8-bit output"}, &Descriptor::addend,
          {{"fp16", Element::fp16}, {"bf16", Element::bf16}}),
      gemm::atomic_splits_field(&Descriptor::atomic_splits),
      family_field<Descriptor>(families()),
  };
}

[[noreturn]] void refuse_w8a8(std::string_view text, std::string rule, std::string remedy) {
  throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text), std::move(rule), std::move(remedy));
}

/// Integer outputs are sums: no other field changes them.
void check_integer_output(const W8a8Gemm& descriptor, std::string_view text) {
  if (descriptor.element != W8Element::int8)
    refuse_w8a8(text, "output=int32 needs the integer sums of element=int8", "ask for output=fp16 or output=bf16");
  const W8a8Gemm standard;
  const auto refuse_field = [&](const char* field, bool is_standard) {
    if (is_standard && !gives_field(text, field)) return;
    refuse_w8a8(text, fmt::format("the field {} does not apply to output=int32, which is the sums", field),
                fmt::format("leave {} out, or ask for another output", field));
  };
  refuse_field("activation_scale", descriptor.activation_scale == standard.activation_scale);
  refuse_field("weight_scale", descriptor.weight_scale == standard.weight_scale);
  refuse_field("zero_points", !descriptor.zero_points);
  refuse_field("function", descriptor.function == standard.function);
  refuse_field("bias", !descriptor.bias);
  refuse_field("residual", !descriptor.residual);
}

void check_fields(const W8a8Gemm& descriptor, std::string_view text) {
  if (descriptor.element == W8Element::int8 && (descriptor.promotes() || gives_field(text, "accumulate")))
    refuse_w8a8(text, "the field accumulate does not apply to element=int8, whose sums are exact",
                "leave accumulate out, or ask for element=fp8_e4m3");
  if (descriptor.element != W8Element::int8 && (descriptor.zero_points || gives_field(text, "zero_points")))
    refuse_w8a8(text, "the field zero_points does not apply to element=fp8_e4m3, whose activations have none",
                "leave zero_points out, or ask for element=int8");
  if (descriptor.output == W8Output::int32) check_integer_output(descriptor, text);
  const bool has_halves = descriptor.output == W8Output::fp16 || descriptor.output == W8Output::bf16;
  if (!has_halves && (descriptor.has_second_output() || gives_field(text, "second_output")))
    refuse_w8a8(text, "the field second_output applies to an output of 16 bits, which it quantises",
                "leave second_output out, or ask for output=fp16 or output=bf16");
  const bool has_addend = descriptor.has_byte_output() && (descriptor.bias || descriptor.residual);
  if (!has_addend && (descriptor.addend != W8a8Gemm{}.addend || gives_field(text, "addend")))
    refuse_w8a8(text, "the field addend applies to bias and residual beside an output of 8 bits",
                "leave addend out, or ask for bias=true or residual=true and output=int8 or output=fp8_e4m3");
}

void check_rules(const W8a8Gemm& descriptor, std::string_view text) {
  check_fields(descriptor, text);
  if (descriptor.is_set()) {
    if (auto broken = gemm::why_no_members(kSetPolicy, descriptor))
      refuse_w8a8(text, std::move(broken->rule), std::move(broken->remedy));
    return;
  }
  if (auto broken = why_not_named_family(families(), descriptor))
    refuse_w8a8(text, fmt::format("family={}: {}", descriptor.family, broken->rule), broken->remedy);
  if (const std::optional<std::string> rules = why_unserved(families(), descriptor))
    refuse_w8a8(text, fmt::format("tile_m={}: no kernel family serves it ({})", descriptor.tile_m, *rules),
                "ask for tile_m=8, 16, 32 or 64, which compute any number of rows");
}

bool is_served(const W8a8Gemm& descriptor) {
  try {
    check_rules(descriptor, descriptor.text());
    return true;
  } catch (const Failure&) {
    return false;
  }
}

/// On architectures with wgmma; elsewhere see Sm80Bytes::is_modelled().
bool is_timed(const W8a8Gemm&) { return true; }
std::span<const gemm::Tile> timed_tiles(const W8a8Gemm&, const codegen::Architecture&) { return {}; }

}  // namespace

const gemm::SetPolicy<W8a8Gemm> kSetPolicy = {.families = families,
                                              .check_rules = check_rules,
                                              .is_served = is_served,
                                              .tile_rows = kTileRows,
                                              .tile_columns = kTileColumns,
                                              .most_narrow_rows = 0,
                                              .is_timed = is_timed,
                                              .timed_tiles = timed_tiles,
                                              .untimed_tiles = {}};

const std::vector<Field<W8a8Gemm>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

W8a8Gemm parse(std::string_view text) {
  W8a8Gemm descriptor = parse_fields(text, fields());
  check_rules(descriptor, text);
  return descriptor;
}

Element addend_type(const W8a8Gemm& descriptor) {
  if (descriptor.has_byte_output()) return descriptor.addend;
  return descriptor.output == W8Output::bf16 ? Element::bf16 : Element::fp16;
}

int output_bytes(const W8a8Gemm& descriptor) {
  if (descriptor.has_byte_output()) return 1;
  return descriptor.output == W8Output::int32 ? 4 : 2;
}

int output_columns(const W8a8Gemm& descriptor, int n) { return descriptor.is_gated() ? n / 2 : n; }

}  // namespace cubit::ops::w8a8_gemm
