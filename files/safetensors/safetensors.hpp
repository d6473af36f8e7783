// The safetensors format: named tensors in one file, as people dump them from PyTorch.
//
//   8 bytes   little-endian length N of the header
//   N bytes   JSON {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, "__metadata__": {…}}
//   the rest  the tensors' bytes, dense and row-major; the offsets count from here and leave neither holes nor overlaps
//
// Files come from strangers: reading allocates nothing that the file's own length does not bound, and every rule that a
// file breaks is a BadInput that names the rule. Format: huggingface.co/docs/safetensors, "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "files/safetensors/header.hpp"

namespace cubit::tools {

inline constexpr std::size_t kLargestHeader = 100'000'000;  ///< bytes; the limit of the format's own reader
inline constexpr std::size_t kLargestRank = 8;              ///< the limit of cubit_tensor

class SafetensorsReader;

/// A tensor whose bytes somebody else owns.
struct TensorView {
  std::string name;
  std::string type;  ///< "BF16"; a type that cubit::type_bytes knows
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

/// The header of a file, with its length in front. The tensors' bytes follow in the given order. Spaces pad the header
/// so that the data starts at a multiple of 8.
std::string safetensors_header(std::span<const TensorView> tensors, const Metadata& metadata = {});

/// The tensors of a file, read into memory, in the order of their bytes. The file is not memory-mapped: if somebody
/// shortened a mapped file, the access would kill the program.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);  ///< throws BadInput
  /// Reads only the header and the tensors whose names `wanted` accepts. The other tensors may have unknown types.
  SafetensorsFile(const SafetensorsReader& file, const std::function<bool(const std::string&)>& wanted);
  const std::vector<TensorView>& tensors() const { return tensors_; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::vector<TensorView> tensors_;
};

}  // namespace cubit::tools
