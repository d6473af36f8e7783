// Decodes wgmma matrix descriptors, checks them, and computes the address of a chunk.
#include "runtime/cpu/helpers/matrix_descriptor.hpp"

#include <fmt/format.h>

namespace cubit::runtime::cpu {
namespace {

constexpr std::uint64_t kSwizzles[] = {kSwizzleChunk, 128, 64, 32};  // by bits 62 and 63
constexpr std::uint64_t kRows = 8;                                   // rows of the repeating pattern
constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << 18) - 1;

std::uint64_t field(std::uint64_t bits, int first, int count) {
  return bits >> first & ((std::uint64_t{1} << count) - 1);
}

}  // namespace

MatrixDescriptor decode_descriptor(std::uint64_t bits) {
  const std::uint64_t gaps =
      field(bits, 14, 2) << 14 | field(bits, 30, 2) << 30 | field(bits, 46, 3) << 46 | field(bits, 52, 10) << 52;
  return {.start = field(bits, 0, 14) << 4,
          .leading = field(bits, 16, 14) << 4,
          .stride = field(bits, 32, 14) << 4,
          .base_offset = static_cast<unsigned>(field(bits, 49, 3)),
          .swizzle = kSwizzles[field(bits, 62, 2)],
          .unknown_bits = gaps};
}

std::string broken_rule(const MatrixDescriptor& descriptor) {
  if (descriptor.unknown_bits != 0)
    return fmt::format("the matrix descriptor has bits {:#x}, which belong to no field of a descriptor",
                       descriptor.unknown_bits);
  if (descriptor.base_offset != 0) {
    return fmt::format(
        "the matrix descriptor has base offset {}; the CPU device executes 0, of tiles that begin at a multiple of {} "
        "bytes",
        descriptor.base_offset, kRows * descriptor.swizzle);
  }
  return "";
}

std::uint64_t chunk_address(const DescribedMatrix& matrix, int i, int k) {
  const MatrixDescriptor& descriptor = matrix.descriptor;
  const std::uint64_t swizzle = descriptor.swizzle;
  const bool is_plain = swizzle == kSwizzleChunk;
  const auto row = static_cast<std::uint64_t>(i);
  const auto depth = static_cast<std::uint64_t>(k);
  std::uint64_t offset = 0;
  if (!matrix.is_mn_major) {
    const auto chunk = static_cast<std::uint64_t>(k / matrix.chunk_elements());
    offset = row % 8 * swizzle + row / 8 * descriptor.stride + chunk * (is_plain ? descriptor.leading : kSwizzleChunk);
  } else if (is_plain) {
    offset = row / 8 * descriptor.stride + depth % 8 * 16 + depth / 8 * descriptor.leading;
  } else {
    const std::uint64_t chunks = swizzle / kSwizzleChunk;
    offset = row / 8 % chunks * 16 + row / 8 / chunks * descriptor.leading + depth % 8 * swizzle +
             depth / 8 * descriptor.stride;
  }
  return swizzled_address((descriptor.start + offset) & kAddressMask, swizzle);
}

}  // namespace cubit::runtime::cpu
