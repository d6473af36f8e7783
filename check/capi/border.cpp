#include "check/capi/border.hpp"

#include <exception>
#include <new>

#include "base/error.hpp"
#include "base/lifetime.hpp"

namespace cubit::check {
namespace {

/// The text that the thread's last call returned a pointer to.
struct ThreadText {
  std::string text;
};

cubit_status record(Status status, const char* what, const char* why, const char* remedy) {
  cubit_set_last_error(static_cast<cubit_status>(status), what, why, remedy);
  return cubit_last_error()->status;
}

}  // namespace

cubit_status record_current_exception() noexcept {
  constexpr const char* kBug = "this is a bug of cubit's, please report it";
  try {
    throw;
  } catch (const Failure& failure) {
    return record(failure.status(), failure.given().c_str(), failure.rule().c_str(), failure.remedy().c_str());
  } catch (const std::bad_alloc&) {
    return record(Status::internal, "host memory", "an allocation failed", "free memory and try again");
  } catch (const std::exception& error) {
    return record(Status::internal, "cubit", error.what(), kBug);
  } catch (...) {
    return record(Status::internal, "cubit", "an unknown exception", kBug);
  }
}

void require(const void* pointer, const char* parameter) {
  if (pointer == nullptr) throw Failure(Status::invalid_argument, parameter, "NULL was given", "pass a valid pointer");
}

const char* thread_text(std::string text) {
  auto& owner = in_place_of_this_thread<ThreadText>().text;
  owner = std::move(text);
  return owner.c_str();
}

}  // namespace cubit::check
