// A kernel that copies one box of a tensor, and a model of it that goes byte by byte.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cpu/encoded_map.hpp"
#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {

using runtime::EncodedTensorMap;
using runtime::TensorMap;
using runtime::TensorSwizzle;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kBuffer = 16384;  // shared memory of a block

/// The kernel's parameters.
struct CopyArguments {
  EncodedTensorMap map;
  std::uint8_t* output = nullptr;
  std::uint32_t bytes = 0;   ///< to expect
  std::uint32_t offset = 0;  ///< of the box in the buffer
  std::array<std::int32_t, 5> first{};
};

/// A map, the memory of its tensor, and the place of a box in both.
struct Copy {
  TensorMap map;
  std::shared_ptr<std::byte> memory;
  std::uint64_t bytes = 0;  ///< of the tensor, from its first element to its last
  CopyArguments arguments;

  std::uint8_t* data() const { return reinterpret_cast<std::uint8_t*>(memory.get()); }
  Bytes tensor() const { return {data(), data() + bytes}; }
  /// Takes memory for the tensor, and makes the arguments but for the place of the box.
  void allocate();
};

/// Parts of a kernel's body, which finds in %d0 the map's generic address, %d1 the output, %r0 the buffer of 16384
/// bytes, %r1 the bytes to expect, %r3 the box in the buffer, %r5 the mbarrier, which is [bar], %c0 … where the box
/// begins, %p0 the first thread. Word i of the buffer is i · 0x9e3779b1.
extern const std::string kExpect;
extern const std::string kWait;
extern const std::string kDump;  ///< block b's buffer goes to output + 16384 · b
std::string load_of(int rank);
std::string store_of(int rank);

using Program = std::unique_ptr<const runtime::cpu::Program>;
Program load_copy(const std::string& body);

/// Runs, under the checker or not, and returns the blocks' buffers, as far as the kernel dumps them.
Bytes run_copy(const runtime::cpu::Program& program, const Copy& copy, unsigned blocks = 1, bool check = true);
/// The text of the Failure that loading or running ends in; empty if it ends well.
std::string failure_of_copy(const std::string& body, const Copy& copy);

/// The model: the buffer as it is at first, and after the copy; the tensor after a copy to it.
Bytes filled_buffer();
Bytes loaded_buffer(const Copy& copy);
Bytes stored_tensor(const Copy& copy);
/// Whether in a dimension other than the first none of the box is in the tensor: what the checker reports.
bool is_beside(const Copy& copy);

}  // namespace cubit::tests
