// A kernel that copies one box of a tensor, and a model of the copy that works byte by byte.
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
  std::uint32_t bytes = 0;   ///< bytes to expect
  std::uint32_t offset = 0;  ///< offset of the box in the buffer
  std::array<std::int32_t, 5> first{};
};

/// A map, the memory of its tensor, and the position of a box in the tensor and in the buffer.
struct Copy {
  TensorMap map;
  std::shared_ptr<std::byte> memory;
  std::uint64_t bytes = 0;  ///< bytes of the tensor, from the first element to the last
  CopyArguments arguments;

  std::uint8_t* data() const { return reinterpret_cast<std::uint8_t*>(memory.get()); }
  Bytes tensor() const { return {data(), data() + bytes}; }
  /// Allocates memory for the tensor, and makes the arguments except the position of the box.
  void allocate();
};

/// Parts of a kernel's body. Registers: %d0 is the map's generic address, %d1 the output, %r0 the buffer of 16384
/// bytes, %r1 the bytes to expect, %r3 the box in the buffer, %r5 the mbarrier, which is [bar], %c0 … the position of
/// the box, and %p0 the first thread. Word i of the buffer is i · 0x9e3779b1.
extern const std::string kExpect;
extern const std::string kWait;
extern const std::string kDump;  ///< block b's buffer goes to output + 16384 · b
std::string load_of(int rank);
std::string store_of(int rank);

using Program = std::unique_ptr<const runtime::cpu::Program>;
Program load_copy(const std::string& body);

/// Runs the kernel, with or without the checker, and returns the blocks' buffers as far as the kernel dumps them.
Bytes run_copy(const runtime::cpu::Program& program, const Copy& copy, unsigned blocks = 1, bool check = true);
/// Returns the text of the Failure that loading or running throws, or "".
std::string failure_of_copy(const std::string& body, const Copy& copy);

/// The model: the initial buffer, the buffer after the copy, and the tensor after a copy to it.
Bytes filled_buffer();
Bytes loaded_buffer(const Copy& copy);
Bytes stored_tensor(const Copy& copy);
/// True if the box lies completely outside the tensor in a dimension other than the first, which the checker reports.
bool is_beside(const Copy& copy);

}  // namespace cubit::tests
