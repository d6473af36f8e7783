// Tensors by name, as problems hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::check {

/// A tensor by name, in host or device memory. Types are spelled as safetensors spells them: BF16, F16, F32, U8, I32 …
struct Tensor {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< in elements
  void* data = nullptr;

  std::int64_t elements() const;
  std::size_t bytes() const;  ///< of a dense tensor of this shape
};

/// Bytes of one element. Throws Failure(invalid_argument) for a type that is not known.
int type_bytes(std::string_view type);

}  // namespace cubit::check
