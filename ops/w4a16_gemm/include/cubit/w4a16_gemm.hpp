// The descriptor of the operator w4a16_gemm as a C++ value, and its text.
#pragma once

#include <cubit/w4a16_gemm.h>
#include <cubit/element.hpp>
#include <cubit/gemm_function.hpp>

#include <compare>
#include <string>

namespace cubit {

/// How a checkpoint stores weights of k input and n output features, and their zeros. With 8 bits (not awq) bytes take
/// the place of nibbles: qweight is int32 [k / 4, n], and byte j of word (i, n) is k = 4i + j. A symmetric zero of 8
/// bits is 128. Dense weights are not quantised.
enum class W4Format {
  gptq,     ///< qweight int32 [k / 8, n]: nibble j of word (i, n) is k = 8i + j; a zero is stored less one
  gptq_v2,  ///< qweight as gptq; a zero is stored as it is
  awq,      ///< qweight int32 [k, n / 8]: nibble j of word (k, i) is n = 8i + order[j], order = 0, 2, 4, 6, 1, 3, 5, 7
  symmetric,  ///< qweight as gptq; every zero is 8, and none is stored
  dense,      ///< weight fp16 or bf16 [n, k], of the type of the activations; w4a16_gemm alone has it
};

/// Multiplies activations by 4-bit, 8-bit or dense weights as a checkpoint stores them. Without tile_m or without
/// tile_n the descriptor names a set of kernels, and each launch takes the member that is fastest for its sizes.
/// Text form: w4a16_gemm:format=awq,group_size=64   (fields at their default are left out)
struct W4a16Gemm {
  W4Format format = W4Format::gptq;
  int bits = 4;  ///< bits of a weight and of a zero: 4, or 8 (not for awq); no field for dense
  /// Input features that share a scale and a zero: 16, 32, 64, 128, or 0 for all of k ("all"). The last group of a k
  /// that is no multiple of the group size is shorter. Families sm75 and sm80 alone have 16. No field for dense.
  int group_size = 128;
  /// Type of activations, dense weights, bias, residual and output. A group's activations times q - zero are summed in
  /// fp32 before the sum is scaled. The sum may be infinite although the product is finite if the magnitude of bf16
  /// activations times group size times 2^bits exceeds 3.4e38.
  Element element = Element::fp16;
  /// Rows that a block computes: 8, 16, 32 or, with 4 bits, 64, and on sm_90a 80, 128, 144, 192 and 256; every value
  /// serves any m. 0 ("auto"): those of a set.
  int tile_m = 0;
  /// Columns of the weights that a block computes: 256, or with a tile_m of at most 16 also 64 and 32, and on sm_90a
  /// 224, 160, 128 and 96. 0 ("auto"): those of a set.
  int tile_n = 0;
  /// g_idx names the group of each k. Not for awq and dense, and not if one group has all of k. Every weight is
  /// dequantised before its product: scale · (q - zero) is rounded once to a number of type `element`. With fp16 the
  /// magnitude of scale · (q - zero) must therefore not exceed 65504, otherwise outputs are infinite or NaN. Scales up
  /// to 4094 (bits=8: 255) are safe. Where weights need not be rounded, convert a checkpoint by
  /// --sort-activation-order.
  bool activation_order = false;
  GemmFunction function = GemmFunction::none;
  bool bias = false;
  bool residual = false;
  /// Layers of a checkpoint that a launch multiplies by the same activations: 1, 2 or 3. Each layer has its own
  /// tensors, and an output row has the columns of all layers side by side. With function silu_gate 2 layers are the
  /// gate and the up-projection, and 3 are refused. With activation_order the layers share one g_idx, as quantisers
  /// give layers of the same input. Only families sm75 and sm80 have 2 and 3; not for dense.
  int layers = 1;
  int alignment = 16;  ///< awq only: bytes that divide qweight's address and its rows of n / 2 bytes: 16 or 4
  /// A row's bits do not depend on the other rows or on their number: the order in which k is added up follows from n
  /// and k alone. Not with CUBIT_W4A16_STREAM_K.
  bool batch_invariant = false;
  /// Launches may ask for CUBIT_W4A16_SPLIT_K_ATOMIC, whose bits differ from run to run. Other launches give the same
  /// bits as without this field. Only with tile_n=256, and not with batch_invariant.
  bool atomic_splits = false;
  std::string family = "auto";  ///< kernel family, such as "sm80"; "auto": the one that was measured to be faster

  auto operator<=>(const W4a16Gemm&) const = default;

  bool is_set() const { return tile_m == 0 || tile_n == 0; }
  bool is_gated() const { return function == GemmFunction::silu_gate; }
  bool is_dense() const { return format == W4Format::dense; }

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    constexpr const char* kFormats[] = {"gptq", "gptq_v2", "awq", "symmetric", "dense"};
    constexpr const char* kFunctions[] = {"none", "relu", "silu", "gelu", "gelu_tanh", "silu_gate"};
    std::string fields;
    const auto add = [&](const char* name, const std::string& value) {
      fields += (fields.empty() ? ":" : ",") + std::string(name) + "=" + value;
    };
    const W4a16Gemm standard;
    if (format != standard.format) add("format", kFormats[static_cast<int>(format)]);
    if (bits != standard.bits) add("bits", std::to_string(bits));
    if (group_size != standard.group_size) add("group_size", group_size == 0 ? "all" : std::to_string(group_size));
    if (element != standard.element) add("element", "bf16");
    if (tile_m != standard.tile_m) add("tile_m", std::to_string(tile_m));
    if (tile_n != standard.tile_n) add("tile_n", std::to_string(tile_n));
    if (activation_order) add("activation_order", "true");
    if (function != standard.function) add("function", kFunctions[static_cast<int>(function)]);
    if (bias) add("bias", "true");
    if (residual) add("residual", "true");
    if (layers != standard.layers) add("layers", std::to_string(layers));
    if (alignment != standard.alignment) add("alignment", std::to_string(alignment));
    if (batch_invariant) add("batch_invariant", "true");
    if (atomic_splits) add("atomic_splits", "true");
    if (family != standard.family) add("family", family);
    return "w4a16_gemm" + fields;
  }
};

}  // namespace cubit
