// The descriptor of the operator w8a8_gemm as a C++ value, and its text.
#pragma once

#include <cubit/w8a8_gemm.h>
#include <cubit/element.hpp>
#include <cubit/gemm_function.hpp>

#include <compare>
#include <string>

namespace cubit {

/// Type of activations and weights.
enum class W8Element {
  int8,
  fp8_e4m3,  ///< sm_89 and later
};

/// Type of the output.
enum class W8Output {
  fp16,
  bf16,
  int32,     ///< the sums of int8, without scales
  int8,      ///< quantised by one given scale
  fp8_e4m3,  ///< quantised by one given scale
};

/// Type of the bytes that a launch stores in addition to an output of 16 bits.
enum class SecondOutput { none, int8, fp8_e4m3 };

/// How products of e4m3 are added up. An addition in the tensor cores keeps about 13 bits below the largest addend.
enum class Fp8Accumulation {
  fast,      ///< the tensor cores add up all of k
  promoted,  ///< the tensor cores add up 128 values along k at a time, and fp32 additions add up these sums
};

/// Elements of the activations that share a scale.
enum class TokenScale { token, tensor };
/// Elements of the weights that share a scale.
enum class ChannelScale { channel, tensor };

/// Multiplies 8-bit activations by 8-bit weights. Without tile_m the descriptor names a set of kernels, and each launch
/// takes the kernel of the set that is fastest for its sizes.
/// Text form: w8a8_gemm:output=int8,bias=true   (fields at their default are left out)
struct W8a8Gemm {
  W8Element element = W8Element::int8;
  W8Output output = W8Output::fp16;
  SecondOutput second_output = SecondOutput::none;     ///< only with an output of 16 bits
  Fp8Accumulation accumulate = Fp8Accumulation::fast;  ///< only for element=fp8_e4m3; sums of int8 are exact
  TokenScale activation_scale = TokenScale::token;
  ChannelScale weight_scale = ChannelScale::channel;
  bool zero_points = false;  ///< activations of int8 have zero points, as many as there are scales
  /// Rows that a block computes: 8, 16, 32 or 64, and on sm_90a also 128, 192 and 256. Every value serves any m. 0
  /// ("auto"): the descriptor names a set.
  int tile_m = 0;
  int tile_n = 256;  ///< columns that a block computes: always 256, so the text has no such field
  GemmFunction function = GemmFunction::none;
  bool bias = false;
  bool residual = false;
  Element addend = Element::fp16;  ///< type of bias and residual with an 8-bit output; with a 16-bit output, its type
  bool atomic_splits = false;      ///< launches may ask for CUBIT_W8A8_SPLIT_K_ATOMIC; not in family sm90_persistent
  std::string family = "auto";     ///< kernel family, such as "sm80"

  auto operator<=>(const W8a8Gemm&) const = default;

  bool is_set() const { return tile_m == 0; }
  bool is_gated() const { return function == GemmFunction::silu_gate; }
  bool promotes() const { return accumulate == Fp8Accumulation::promoted; }
  bool has_second_output() const { return second_output != SecondOutput::none; }
  bool has_byte_output() const { return output == W8Output::int8 || output == W8Output::fp8_e4m3; }

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    constexpr const char* kOutputs[] = {"fp16", "bf16", "int32", "int8", "fp8_e4m3"};
    constexpr const char* kFunctions[] = {"none", "relu", "silu", "gelu", "gelu_tanh", "silu_gate"};
    std::string fields;
    const auto add = [&](const char* name, const std::string& value) {
      fields += (fields.empty() ? ":" : ",") + std::string(name) + "=" + value;
    };
    const W8a8Gemm standard;
    if (element != standard.element) add("element", "fp8_e4m3");
    if (output != standard.output) add("output", kOutputs[static_cast<int>(output)]);
    if (has_second_output()) add("second_output", second_output == SecondOutput::int8 ? "int8" : "fp8_e4m3");
    if (promotes()) add("accumulate", "promoted");
    if (activation_scale != standard.activation_scale) add("activation_scale", "tensor");
    if (weight_scale != standard.weight_scale) add("weight_scale", "tensor");
    if (zero_points) add("zero_points", "true");
    if (tile_m != standard.tile_m) add("tile_m", std::to_string(tile_m));
    if (function != standard.function) add("function", kFunctions[static_cast<int>(function)]);
    if (bias) add("bias", "true");
    if (residual) add("residual", "true");
    if (addend != standard.addend) add("addend", "bf16");
    if (atomic_splits) add("atomic_splits", "true");
    if (family != standard.family) add("family", family);
    return "w8a8_gemm" + fields;
  }
};

}  // namespace cubit
