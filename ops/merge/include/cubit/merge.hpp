// The descriptor of the operator merge as a C++ value, and its text.
#pragma once

#include <cubit/merge.h>

#include <compare>
#include <string>

namespace cubit {

/// Type of the rows that are merged, or of the result.
enum class MergeElement { bf16, fp16, fp32 };

inline const char* text_of(MergeElement element) {
  constexpr const char* kNames[] = {"bf16", "fp16", "fp32"};
  return kNames[static_cast<int>(element)];
}

/// Merges partial results of attention by their log-sum-exp.
/// Text form: merge:head_dim=64,input=fp32   (fields at their default are left out)
struct Merge {
  int head_dim = 128;                        ///< channels per head: a multiple of 8 from 8 to 512
  MergeElement input = MergeElement::bf16;   ///< type of the partial outputs
  MergeElement output = MergeElement::bf16;  ///< type of the result

  auto operator<=>(const Merge&) const = default;

  /// The canonical text, which Engine::get takes.
  std::string text() const {
    std::string fields;
    const auto add = [&](const char* name, const std::string& value) {
      fields += (fields.empty() ? ":" : ",") + std::string(name) + "=" + value;
    };
    const Merge standard;
    if (head_dim != standard.head_dim) add("head_dim", std::to_string(head_dim));
    if (input != standard.input) add("input", text_of(input));
    if (output != standard.output) add("output", text_of(output));
    return "merge" + fields;
  }
};

}  // namespace cubit
