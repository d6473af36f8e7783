#include "check/tensor.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace cubit::check {

std::int64_t Tensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::size_t Tensor::bytes() const { return static_cast<std::size_t>(elements()) * type_bytes(type); }

int type_bytes(std::string_view type) {
  if (type == "U8" || type == "I8" || type == "BOOL" || type == "F8_E4M3" || type == "F8_E5M2") return 1;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  throw Failure(Status::invalid_argument, fmt::format("tensor type {}", type), "is not known",
                "accepted: U8, I8, BOOL, F8_E4M3, F8_E5M2, F16, BF16, I16, U16, F32, I32, U32, F64, I64, U64");
}

}  // namespace cubit::check
