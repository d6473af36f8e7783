// Implements the identity of a case and lists the cases of all files.
#include "tests/conformance/cases.hpp"

namespace cubit::conformance {

std::uint64_t hash(const std::byte* data, std::size_t bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes; ++i) {
    seed ^= static_cast<std::uint64_t>(data[i]);
    seed *= 0x100000001b3;
  }
  return seed;
}

std::uint64_t Case::identity() const {
  std::uint64_t value = hash(reinterpret_cast<const std::byte*>(kernel.data()), kernel.size());
  const std::uint64_t launch[] = {threads, blocks, output_bytes};
  value = hash(reinterpret_cast<const std::byte*>(launch), sizeof launch, value);
  return hash(input.data(), input.size(), value);
}

}  // namespace cubit::conformance
