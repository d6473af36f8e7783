// The descriptor of the operator w4_quantize as a C++ value, and its text.
#pragma once

#include <cubit/w4_quantize.h>
#include <cubit/element.hpp>
#include <cubit/w4a16_gemm.hpp>

#include <compare>
#include <string>

namespace cubit {

/// The range of weights that the four bits of a group cover.
enum class W4Scheme {
  asymmetric,  ///< from the group's smallest to its largest weight, always including 0; the zero point is fitted
  symmetric,   ///< as far below 0 as above; the zero point is 8
};

/// Rounds the weights of a linear layer to nearest, to 4 bits per weight, as a checkpoint stores them.
/// Text form: w4_quantize:format=awq,group_size=64   (fields at their default are left out)
struct W4Quantize {
  W4Format format = W4Format::gptq;
  /// Input features that share a scale and a zero: 16, 32, 64, 128, or 0 for all of k ("all"). The last group of a k
  /// that is no multiple of the group size is shorter.
  int group_size = 128;
  W4Scheme scheme = W4Scheme::asymmetric;  ///< not a field for format=symmetric, whose scheme is always symmetric
  Element input = Element::fp16;           ///< type of the weights

  auto operator<=>(const W4Quantize&) const = default;

  bool stores_zeros() const { return format != W4Format::symmetric; }
  bool fits_zeros() const { return stores_zeros() && scheme == W4Scheme::asymmetric; }
  /// The difference between a zero point and its stored value: gptq stores zero - 1.
  int zero_offset() const { return format == W4Format::gptq ? 1 : 0; }

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    constexpr const char* kFormats[] = {"gptq", "gptq_v2", "awq", "symmetric", "dense"};
    std::string fields;
    const auto add = [&](const char* name, const std::string& value) {
      fields += (fields.empty() ? ":" : ",") + std::string(name) + "=" + value;
    };
    const W4Quantize standard;
    if (format != standard.format) add("format", kFormats[static_cast<int>(format)]);
    if (group_size != standard.group_size) add("group_size", group_size == 0 ? "all" : std::to_string(group_size));
    if (scheme != standard.scheme) add("scheme", "symmetric");
    if (input != standard.input) add("input", "bf16");
    return "w4_quantize" + fields;
  }
};

}  // namespace cubit
