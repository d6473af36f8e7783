// A small case of w4a16_gemm with named tensors. The tensors are packed here by the formats' published rules, without
// any code of cubit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check/random.hpp"
#include "check/w4a16_gemm/problem.hpp"
#include "ops/element/element.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

/// The namespace lies in cubit::ops because the case uses many names of cubit::ops.
namespace cubit::ops::packed_gemm {

inline constexpr int kK = 64;
inline constexpr int kN = 24;
inline constexpr int kGroup = 32;
inline constexpr int kM = 3;

/// Quantised weights as numbers, unpacked.
struct Plain {
  int q[kK][kN];
  int zero[kK / kGroup][kN];  ///< 1 … 15, and 1 … 255 with 8 bits
  std::uint16_t scale[kK / kGroup][kN];

  explicit Plain(std::uint64_t seed, int bits = 4) {
    check::Random random(seed);
    const unsigned numbers = 1u << bits;
    for (auto& row : q)
      for (int& value : row) value = static_cast<int>(random.bits() % numbers);
    for (auto& row : zero)
      for (int& value : row) value = 1 + static_cast<int>(random.bits() % (numbers - 1));
    for (auto& row : scale)
      for (auto& value : row) value = from_float(Element::fp16, static_cast<float>(random.uniform()));
  }
  double weight(const W4a16Gemm& descriptor, int k, int n) const {
    const int middle = descriptor.bits == 8 ? 128 : 8;
    const int z = descriptor.format == W4Format::symmetric ? middle : zero[k / kGroup][n];
    return (q[k][n] - z) * to_double(Element::fp16, scale[k / kGroup][n]);
  }
};

/// The published layouts. GPTQ packs 8 k's of one column into a word. AutoAWQ packs 8 columns of one k, in an order of
/// its own.
struct Packed {
  std::vector<std::uint32_t> qweight;
  std::vector<std::uint32_t> qzeros;

  Packed(const Plain& plain, const W4a16Gemm& descriptor) {
    descriptor.bits == 8 ? pack_bytes(plain, descriptor.format) : pack_nibbles(plain, descriptor.format);
  }

 private:
  void pack_nibbles(const Plain& plain, W4Format format) {
    static constexpr int kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    if (format == W4Format::awq) {
      qweight.resize(kK * kN / 8);
      for (int k = 0; k < kK; ++k)
        for (int i = 0; i < kN / 8; ++i)
          for (int j = 0; j < 8; ++j) qweight[k * (kN / 8) + i] |= unsigned(plain.q[k][8 * i + kOrder[j]]) << (4 * j);
    } else {
      qweight.resize(kK / 8 * kN);
      for (int i = 0; i < kK / 8; ++i)
        for (int n = 0; n < kN; ++n)
          for (int j = 0; j < 8; ++j) qweight[i * kN + n] |= unsigned(plain.q[8 * i + j][n]) << (4 * j);
    }
    if (format == W4Format::symmetric) return;
    qzeros.resize(kK / kGroup * kN / 8);
    for (int g = 0; g < kK / kGroup; ++g)
      for (int i = 0; i < kN / 8; ++i)
        for (int j = 0; j < 8; ++j) {
          const int column = 8 * i + (format == W4Format::awq ? kOrder[j] : j);
          const int stored = plain.zero[g][column] - (format == W4Format::gptq ? 1 : 0);
          qzeros[g * (kN / 8) + i] |= unsigned(stored) << (4 * j);
        }
  }

  /// GPTQ with 8 bits packs 4 k's of one column into a word, and the zeros of 4 columns.
  void pack_bytes(const Plain& plain, W4Format format) {
    for (int i = 0; i < kK / 4; ++i)
      for (int n = 0; n < kN; ++n)
        qweight.push_back(word(plain.q[4 * i][n], plain.q[4 * i + 1][n], plain.q[4 * i + 2][n], plain.q[4 * i + 3][n]));
    if (format == W4Format::symmetric) return;
    const int less = format == W4Format::gptq ? 1 : 0;
    for (const auto& row : plain.zero)
      for (int n = 0; n < kN; n += 4)
        qzeros.push_back(word(row[n] - less, row[n + 1] - less, row[n + 2] - less, row[n + 3] - less));
  }
  static std::uint32_t word(int a, int b, int c, int d) {
    return unsigned(a) | unsigned(b) << 8 | unsigned(c) << 16 | unsigned(d) << 24;
  }
};

/// A case with named tensors.
struct Case {
  explicit Case(const W4a16Gemm& descriptor)
      : plain(7, descriptor.bits), packed(plain, descriptor), text(descriptor.text()) {
    check::Random random(3);
    for (std::uint16_t& x : activations) x = from_float(descriptor.element, static_cast<float>(random.normal()));
    const bool by_n = descriptor.format == W4Format::awq;
    const int in_word = descriptor.bits == 8 ? 4 : 8;
    tensors = {{"qweight", "I32", {by_n ? kK : kK / in_word, by_n ? kN / 8 : kN}, {}, packed.qweight.data()},
               {"scales", "F16", {kK / kGroup, kN}, {}, plain.scale},
               {"activations", descriptor.element == Element::fp16 ? "F16" : "BF16", {kM, kK}, {}, activations.data()}};
    if (!packed.qzeros.empty())
      tensors.push_back({"qzeros", "I32", {kK / kGroup, kN / in_word}, {}, packed.qzeros.data()});
  }
  /// Gives a tensor of `words` another shape, with zeros for words that it lacks.
  static void reshape(check::Tensor& tensor, std::vector<std::uint32_t>& words, std::vector<std::int64_t> shape) {
    words.resize(static_cast<std::size_t>(shape[0] * shape[1]));
    tensor.shape = std::move(shape);
    tensor.data = words.data();
  }
  std::unique_ptr<check::Problem> problem() const { return check::find_problems(text).problem(text, tensors, numbers); }

  Plain plain;
  Packed packed;
  std::vector<std::uint16_t> activations = std::vector<std::uint16_t>(kM * kK);
  std::vector<check::Tensor> tensors;
  Numbers numbers;
  std::string text;
};

}  // namespace cubit::ops::packed_gemm
