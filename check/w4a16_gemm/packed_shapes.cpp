#include "check/w4a16_gemm/packed_shapes.hpp"

#include <fmt/format.h>

#include <cubit/w4_checkpoint.hpp>
#include <utility>

#include "check/w4a16_gemm/problem.hpp"

namespace cubit::check::w4a16_gemm {
namespace {

constexpr int kWordBits = 32;

/// Whether the words are those of k input features of `bits` bits, packed along n (awq) or along k.
bool is_packed(const PackedShapes& packed, bool by_n, int bits) {
  const std::vector<std::int64_t>& words = packed.qweight.shape;
  if (words.size() != 2 || words[0] == 0 || words[1] == 0) return false;
  const std::int64_t of_row = by_n ? packed.n : packed.k;
  if (of_row * bits % kWordBits != 0) return false;
  if (words[0] != (by_n ? packed.k : of_row * bits / kWordBits)) return false;
  if (words[1] != (by_n ? of_row * bits / kWordBits : packed.n)) return false;
  const Tensor* const zeros = packed.qzeros;
  return zeros == nullptr || (zeros->shape.size() == 2 && zeros->shape[1] * kWordBits == packed.n * bits);
}

[[noreturn]] void refuse_looks(const W4a16Gemm& descriptor, const PackedShapes& packed, const std::string& looks,
                               const std::string& remedy) {
  reject(shape_text(packed.qweight),
         fmt::format("with n = {} and k = {} it looks like {}, not {} of {} bits", packed.n, packed.k, looks,
                     text_of(descriptor.format), descriptor.bits),
         remedy);
}

/// The remedy for words packed along k where the descriptor asks for awq.
std::string remedy_of_packing(W4a16Gemm changed, bool has_zeros) {
  changed.format = has_zeros ? W4Format::gptq : W4Format::symmetric;
  const std::string formats = has_zeros ? "format=gptq or gptq_v2, as the packer did" : "format=symmetric";
  return remedy_of_change(changed, changed.bits == 4 ? formats : formats + ", and bits=8", "accepted: awq");
}

}  // namespace

void check_looks(const W4a16Gemm& descriptor, const PackedShapes& packed) {
  const bool by_n = descriptor.format == W4Format::awq;
  if (is_packed(packed, by_n, descriptor.bits)) return;
  for (const int bits : {4, 8}) {
    W4a16Gemm changed = descriptor;
    changed.bits = bits;
    if (is_packed(packed, false, bits)) {
      const std::string remedy =
          by_n ? remedy_of_packing(changed, packed.qzeros != nullptr)
               : remedy_of_change(changed, fmt::format("bits={}", bits), "accepted: 4 and 8 bits");
      refuse_looks(descriptor, packed, fmt::format("{}-bit weights packed along k", bits), remedy);
    }
    if (bits == 4 && is_packed(packed, true, bits)) {
      changed.format = W4Format::awq;
      refuse_looks(descriptor, packed, "awq", remedy_of_change(changed, "format=awq", "accepted: the layout of gptq"));
    }
  }
  for (const auto& [by, bits] : {std::pair{false, 3}, {false, 2}, {true, 8}, {true, 3}, {true, 2}}) {
    if (is_packed(packed, by, bits))
      refuse_looks(descriptor, packed, fmt::format("{}-bit weights{}", bits, by ? " of awq" : ""),
                   "accepted: 4 bits, or 8 bits that are not of awq");
  }
}

void check_group_size(const W4a16Gemm& descriptor, const PackedShapes& packed) {
  const std::int64_t groups = packed.scales.shape[0];
  const std::int64_t size = descriptor.group_size;
  if (descriptor.activation_order && groups > 0) return;  // g_idx may name any group of the layer
  if (groups == (size == 0 ? 1 : (packed.k + size - 1) / size)) return;
  const bool fits = is_packed(packed, descriptor.format == W4Format::awq, descriptor.bits);
  const std::string both = fits ? "the words and activations are" : "the activations are";
  const std::string remedy = "give all tensors for one k, and the group_size that the checkpoint's config states";
  if (size == 0) {
    reject(shape_text(packed.scales),
           fmt::format("{} has one group, but the scales have {}", descriptor.text(), groups), remedy);
  }
  reject(shape_text(packed.scales),
         fmt::format("{} {} of {} {} for k = {}, but {} for k = {}", groups, groups == 1 ? "group" : "groups", size,
                     groups == 1 ? "is" : "are", groups * size, both, packed.k),
         remedy);
}

}  // namespace cubit::check::w4a16_gemm
