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

namespace cubit::tools {

inline constexpr std::size_t kLargestHeader = 100'000'000;  ///< bytes; the limit of the format's own reader
inline constexpr std::size_t kLargestRank = 8;              ///< what cubit_tensor holds

class SafetensorsReader;

/// A tensor whose bytes live elsewhere.
struct TensorView {
  std::string name;
  std::string type;  ///< "BF16"; one that cubit::type_bytes knows
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

/// The length and the header, padded with spaces so that the data starts at a multiple of 8; the tensors' bytes follow
/// in the given order.
std::string safetensors_header(std::span<const TensorView> tensors);

/// A file's tensors in memory, in the order of their bytes. Not mapped: a file that somebody cuts short later would end
/// the program.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);  ///< throws BadInput
  /// Of the tensors only those whose names are `wanted`, which is asked for each: nothing else is read but the header,
  /// nor need be of a type that is known.
  SafetensorsFile(const SafetensorsReader& file, const std::function<bool(const std::string&)>& wanted);
  const std::vector<TensorView>& tensors() const { return tensors_; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::vector<TensorView> tensors_;
};

}  // namespace cubit::tools
