// The border between C++ and C: turns exceptions into a status and this thread's last error, refuses NULL and unknown
// struct sizes, and owns returned texts.
#pragma once

#include <cubit/cubit.h>

#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

namespace cubit::capi {

using Json = nlohmann::ordered_json;

/// Stores the exception in flight as this thread's last error. Never throws, even if no memory is left.
cubit_status record_current_exception() noexcept;

/// Runs the body of one C function and returns its status.
template <class Body>
cubit_status guarded(Body&& body) noexcept {
  try {
    body();
    return CUBIT_OK;
  } catch (...) {
    return record_current_exception();
  }
}

[[noreturn]] void refuse_null(const char* parameter);
[[noreturn]] void refuse_size(const char* name, std::size_t size, std::size_t known);

/// Throws Failure(invalid_argument) if `pointer` is NULL. `parameter` names the pointer: "cubit_engine_get:
/// descriptor".
inline void require(const void* pointer, const char* parameter) {
  if (pointer == nullptr) [[unlikely]] {
    refuse_null(parameter);
  }
}

/// Checks the `size` member of a caller's struct. A shorter struct of an older caller is accepted. A longer struct is
/// refused, because it may contain members that this library does not understand. Struct sizes differ by whole
/// multiples of the struct's alignment, so no member is cut.
template <class Struct>
void check_size(const Struct& given, const char* name) {
  if (given.size == sizeof(Struct)) [[likely]] {
    return;
  }
  if (given.size <= sizeof(std::size_t) || given.size > sizeof(Struct) || given.size % alignof(Struct) != 0) {
    refuse_size(name, given.size, sizeof(Struct));
  }
}

/// Copies the caller's struct. Members that an older caller does not know become zero.
template <class Struct>
Struct versioned(const Struct& given, const char* name) {
  check_size(given, name);
  Struct whole{};
  std::memcpy(&whole, &given, given.size);
  return whole;
}

/// Stores a string result. The library owns the text until this thread's next string result.
const char* thread_text(std::string text);
const char* thread_text(const Json& json);

}  // namespace cubit::capi
