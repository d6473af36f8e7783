// The operator's kernel families, and what they have in common.
#include <fmt/format.h>

#include <array>

#include "ops/w8a8_gemm/w8a8_gemm.hpp"

namespace cubit::ops::w8a8_gemm {

std::string_view sum_type(const W8a8Gemm& descriptor) {
  return descriptor.element == W8Element::int8 ? "int" : "float";
}

gemm::Role scaling_role(const W8a8Gemm& descriptor, bool promotes) {
  constexpr const char* kHeader = "byte_gemm/scaling.cuh";
  if (descriptor.output == W8Output::int32) return {"gemm/scaling.cuh", "cubit::IntegerSums"};
  const bool has_tokens = descriptor.activation_scale == TokenScale::token;
  const bool has_channels = descriptor.weight_scale == ChannelScale::channel;
  if (promotes) return {kHeader, fmt::format("cubit::PromotedSums<{}, {}>", has_tokens, has_channels)};
  const std::string zeros = descriptor.zero_points ? fmt::format(", cubit::ZeroPoints<{}>", has_tokens) : "";
  return {kHeader,
          fmt::format("cubit::ScaledSums<{}, {}, {}{}>", sum_type(descriptor), has_tokens, has_channels, zeros)};
}

std::string byte_range_type(const W8a8Gemm& descriptor, const codegen::Architecture& architecture) {
  if (descriptor.output == W8Output::int8) return "cubit::AllSignedBytes";
  if (descriptor.second_output == SecondOutput::int8) return "cubit::CodeRange<cubit::Int8Code>";
  return fmt::format("cubit::CodeRange<cubit::Fp8Code<4, {}>>", architecture.fp8_conversion);
}

Decision sum_decision(const W8a8Gemm& descriptor) {
  if (descriptor.element == W8Element::int8)
    return {"sums", "32-bit integers", "they are exact, whatever the order of the additions"};
  if (descriptor.promotes())
    return {"sums", "fp32, of 128 values along k at a time in the tensor cores",
            "the tensor cores keep about 13 bits below the largest addend, and fp32 additions keep all bits"};
  return {"sums", "fp32, in the tensor cores",
          "additions cost no instructions, but keep about 13 bits below the largest addend; accumulate=promoted keeps "
          "more"};
}

const FamilyList<GemmFamily>& families() {
  static const std::array kAll = {&sm80_family(), &sm90_persistent_family(), &sm75_family()};
  static const FamilyList<GemmFamily> kList = {
      "w8a8_gemm", "sm_75 and later; element=fp8_e4m3 on sm_89 and later; tile_m=128 to 256 on sm_90a", kAll};
  return kList;
}

}  // namespace cubit::ops::w8a8_gemm
