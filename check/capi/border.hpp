// The border between C++ and C in libcubit_check: exceptions become a status and the thread's last error of libcubit.
#pragma once

#include <cubit/cubit.h>

#include <nlohmann/json.hpp>
#include <string>

namespace cubit::check {

using Json = nlohmann::ordered_json;

/// Makes the exception in flight this thread's last error. Never throws.
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

/// `parameter` names what must not be NULL: "cubit_problem_create: descriptor". Throws Failure(invalid_argument).
void require(const void* pointer, const char* parameter);

/// Owned by libcubit_check until this thread's next string result of libcubit_check.
const char* thread_text(std::string text);

}  // namespace cubit::check
