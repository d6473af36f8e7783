// The border between C++ and C: exceptions become a status and this thread's last error, NULL and unknown struct sizes
// are refused with a sentence, texts get an owner.
#pragma once

#include <cubit/cubit.h>

#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

namespace cubit::capi {

using Json = nlohmann::ordered_json;

/// Stores the exception in flight as this thread's last error. Never throws, whatever memory is left.
cubit_status record_current_exception() noexcept;

/// Runs the body of one C function.
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

/// `parameter` names what must not be NULL: "cubit_engine_get: descriptor".
inline void require(const void* pointer, const char* parameter) {
  if (pointer == nullptr) [[unlikely]] {
    refuse_null(parameter);
  }
}

/// Checks the `size` member of a caller's struct: an older caller's shorter struct is fine, a longer one may say what
/// this library does not understand. Members are whole multiples of the struct's alignment apart, so that none is cut.
template <class Struct>
void check_size(const Struct& given, const char* name) {
  if (given.size == sizeof(Struct)) [[likely]] {
    return;
  }
  if (given.size <= sizeof(std::size_t) || given.size > sizeof(Struct) || given.size % alignof(Struct) != 0) {
    refuse_size(name, given.size, sizeof(Struct));
  }
}

/// The caller's struct, with zero for the members that an older caller does not know.
template <class Struct>
Struct versioned(const Struct& given, const char* name) {
  check_size(given, name);
  Struct whole{};
  std::memcpy(&whole, &given, given.size);
  return whole;
}

/// Owned by the library until this thread's next string result.
const char* thread_text(std::string text);
const char* thread_text(const Json& json);

}  // namespace cubit::capi
