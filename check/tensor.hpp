// The type of the tensors that problems take and hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::check {

/// A named tensor in host or device memory. Types are spelled as in safetensors: BF16, F16, F32, U8, I32 …
struct Tensor {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< in elements
  void* data = nullptr;

  std::int64_t elements() const;
  std::size_t bytes() const;  ///< size of a dense tensor of this shape and type
};

/// Bytes of one element. Throws Failure(invalid_argument) for an unknown type.
int type_bytes(std::string_view type);

}  // namespace cubit::check
