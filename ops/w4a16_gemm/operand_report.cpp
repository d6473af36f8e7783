// What `explain` says about the operands that a kernel makes of a weight format.
#include "ops/w4a16_gemm/operand_report.hpp"

#include <fmt/format.h>

#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "ops/w4a16_gemm/weights.hpp"

namespace cubit::ops::w4a16_gemm {
namespace {

Decision byte_operand_decision(Element element) {
  if (element == Element::fp16) {
    return {"operands", "fp16, byte less zero",
            "written into the low byte of 1024 the byte is added to 1024; one packed addition removes 1024 and the "
            "zero exactly"};
  }
  return {"operands", "bf16, byte less zero",
          "a bf16 has too few bits for a power of two plus a byte, so the float 2^23 takes the byte; less 2^23 and the "
          "zero the result is a whole number up to 256, which bf16 represents exactly"};
}

Decision nibble_operand_decision(Element element) {
  if (element == Element::fp16) {
    return {"operands", "fp16, nibble less zero",
            "or-ed into the bits of 1024 the nibble is added to 1024; one packed addition removes 1024 and the zero "
            "exactly, and every second shift becomes a multiplication by 1/16 in the same instruction"};
  }
  return {"operands", "bf16, nibble less zero",
          "or-ed into the bits of 128 the nibble is added to 128; one packed addition removes 128 and the zero "
          "exactly"};
}

Decision operand_decision(const W4a16Gemm& descriptor) {
  if (descriptor.activation_order) {
    return {
        "operands", fmt::format("{}, dequantised", descriptor.element == Element::fp16 ? "fp16" : "bf16"),
        "neighbouring k's share neither scale nor zero, so neither can be applied at the end of a group; (q - zero) "
        "is exact, and its product with the scale is rounded once"};
  }
  return descriptor.bits == 8 ? byte_operand_decision(descriptor.element) : nibble_operand_decision(descriptor.element);
}

Decision ordered_factors(bool has_table) {
  if (has_table) {
    return {
        "scales and zeros", "in a table in shared memory, with those of all groups",
        "a weight needs the scale and the zero of its own group, which are more bytes than its word has; launches of "
        "more groups than the table has room for read global memory"};
  }
  return {"scales and zeros", "read by every lane from global memory",
          "a row for each k would be five times the bytes of its words; the rows of a few groups stay in the caches"};
}

Decision zero_decision(const W4a16Gemm& descriptor) {
  if (descriptor.activation_order) {
    return ordered_factors(is_narrow(descriptor));
  }
  return {"zeros", fmt::format("{}{}", stores_zeros(descriptor) ? "stored + " : "", zero_offset(descriptor)),
          "subtracted in the operand: at most two packed instructions per pair of weights, where sums of activations "
          "would cost every warp a product with ones"};
}

Decision word_order_decision(const W4a16Gemm& descriptor) {
  if (has_words_by_n(descriptor)) {
    return {"word order", "ldmatrix.trans puts two k's of four columns side by side",
            "a nibble of each half is then a pair along k; neighbouring columns are put in order once, at the end"};
  }
  if (descriptor.bits == 8) {
    return {"word order", "as stored: two words of a column are 8 neighbouring k's",
            "a byte permutation puts two bytes into a pair, in any order"};
  }
  return {"word order", "activations are loaded in pairs (j, j + 4)",
          "so a word of 8 k's becomes an operand after two instructions per pair"};
}

Decision wide_word_order(const W4a16Gemm& descriptor) {
  if (has_words_by_n(descriptor)) return word_order_decision(descriptor);
  if (reorders_activations(descriptor)) {
    return {"word order",
            "all blocks together put activations in pairs (j, j + 4) once per launch, in the workspace; a block itself "
            "does so for its first stages",
            "so a word of 8 k's becomes an operand after two instructions per pair; with so many rows the order would "
            "cost more if every block made it for all stages"};
  }
  return {"word order", "three producer warps put activations in pairs (j, j + 4)",
          "so a word of 8 k's becomes an operand after two instructions per pair; the producers are stages ahead, so "
          "that no consumer waits for the order"};
}

Decision dense_operands(const W4a16Gemm& descriptor) {
  return {"operands", fmt::format("{} as stored", descriptor.element == Element::fp16 ? "fp16" : "bf16"),
          descriptor.is_gated() ? "a box interleaves 8 gate columns with their 8 up-projection columns, so that a lane "
                                  "has a gate and its up-projection"
                                : "wgmma reads the rows of weights as the copy leaves them"};
}

Decision persistent_operands(const W4a16Gemm& descriptor) {
  const bool is_fp16 = descriptor.element == Element::fp16;
  return {
      "operands", fmt::format("{}, nibble less zero", is_fp16 ? "fp16" : "bf16"),
      fmt::format("or-ed into the bits of {0} the nibble is added to {0}; one packed instruction removes {0} and the "
                  "zero exactly",
                  is_fp16 ? 1024 : 128)};
}

Decision persistent_scales(const W4a16Gemm& descriptor) {
  if (descriptor.group_size == 0) return {"scales", "applied to the sums", "a column has one scale"};
  return {"scales", "sums are in units of the current group's scale",
          "where the next group begins, sums are multiplied by the old scale divided by the new one, so that no weight "
          "is rounded and groups need no accumulators of their own"};
}

Decision persistent_factors() {
  return {
      "scales and zeros", "in a table in shared memory, with those of all groups",
      "a weight needs the scale and the zero of its own group; the table has the block's columns, and consumer warps "
      "fill it when a tile begins"};
}

Decision persistent_zeros(const W4a16Gemm& descriptor) {
  return {"zeros", fmt::format("{}{}", stores_zeros(descriptor) ? "stored + " : "", zero_offset(descriptor)),
          "read with the scales by the lanes that need them, at least one stage ahead"};
}

Decision persistent_word_order(const W4a16Gemm& descriptor) {
  if (has_words_by_n(descriptor)) {
    return {"word order", "ldmatrix.trans puts two k's of four columns side by side",
            "a nibble of each half is then a pair along k; lanes exchange outputs, so that each stores neighbouring "
            "columns"};
  }
  return {"word order", "activations in natural order; a lane has one byte of each word",
          "a byte is a pair along k, as the A operand needs it, so that nobody reorders activations"};
}

}  // namespace

std::vector<Decision> operand_decisions(const W4a16Gemm& descriptor) {
  return {operand_decision(descriptor), zero_decision(descriptor), word_order_decision(descriptor)};
}

std::vector<Decision> wide_operand_decisions(const W4a16Gemm& descriptor) {
  return {operand_decision(descriptor), zero_decision(descriptor), wide_word_order(descriptor)};
}

std::vector<Decision> persistent_operand_decisions(const W4a16Gemm& descriptor) {
  if (descriptor.is_dense()) return {dense_operands(descriptor)};
  if (descriptor.activation_order)
    return {operand_decision(descriptor), persistent_factors(), persistent_word_order(descriptor)};
  return {persistent_operands(descriptor), persistent_scales(descriptor), persistent_zeros(descriptor),
          persistent_word_order(descriptor)};
}

}  // namespace cubit::ops::w4a16_gemm
