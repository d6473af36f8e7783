// Stores each thread's last error and last string result, and returns the library's version.
#include <cubit/cubit.h>
#include <fmt/format.h>

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "base/printable.hpp"
#include "capi/border.hpp"

namespace cubit::capi {
namespace {

/// Text that the caller's names may be part of: without escape characters, and cut beyond `limit` bytes.
std::string safe_text(const std::string& text, std::size_t limit, Lines lines = Lines::one) {
  std::string safe = printable(std::string_view(text).substr(0, escaping::whole_characters(text, limit)), lines);
  if (text.size() > limit) safe += fmt::format("… ({} bytes)", text.size());
  return safe;
}

/// The failure as a message shows it. Only the log of a compiler has several lines and any length.
Failure shown(const Failure& failure) {
  constexpr std::size_t kMostGiven = 240;
  constexpr std::size_t kMostRule = 600;
  const bool has_log = failure.status() == Status::compile_failed;
  return {
      failure.status(), safe_text(failure.given(), kMostGiven),
      has_log ? safe_text(failure.rule(), failure.rule().size(), Lines::many) : safe_text(failure.rule(), kMostRule),
      safe_text(failure.remedy(), kMostRule, has_log ? Lines::many : Lines::one)};
}

struct LastError {
  std::string message;
  std::string what;
  std::string why;
  std::string remedy;
  cubit_error view{CUBIT_OK, "", "", "", ""};

  void set(const Failure& raw) {
    view = {CUBIT_INTERNAL, "an error whose text needs more memory than there is", "", "", ""};
    const Failure failure = shown(raw);
    message = failure.what();
    what = failure.given();
    why = failure.rule();
    remedy = failure.remedy();
    view = {static_cast<cubit_status>(failure.status()), message.c_str(), what.c_str(), why.c_str(), remedy.c_str()};
  }
  void set_out_of_memory() noexcept {
    view = {CUBIT_INTERNAL, "host memory: an allocation failed; free memory and try again", "host memory",
            "an allocation failed", "free memory and try again"};
  }
};

LastError& last_error() { return in_place_of_this_thread<LastError>(); }

/// The text that the thread's last string result points to.
struct ThreadText {
  std::string text;
};

void record() {
  try {
    throw;
  } catch (const Failure& failure) {
    last_error().set(failure);
  } catch (const std::bad_alloc&) {
    last_error().set_out_of_memory();
  } catch (const std::exception& error) {
    last_error().set({Status::internal, "cubit", error.what(), "this is a bug in cubit; please report it"});
  } catch (...) {
    last_error().set({Status::internal, "cubit", "an unknown exception", "this is a bug in cubit; please report it"});
  }
}

}  // namespace

cubit_status record_current_exception() noexcept {
  try {
    record();
  } catch (...) {  // there is no memory for the text
    last_error().set_out_of_memory();
  }
  return last_error().view.status;
}

void refuse_null(const char* parameter) {
  throw Failure(Status::invalid_argument, parameter, "NULL was given", "pass a valid pointer");
}

void refuse_size(const char* name, std::size_t size, std::size_t known) {
  throw Failure(Status::invalid_argument, fmt::format("{}.size = {}", name, size),
                fmt::format("this version of cubit knows {} bytes of the struct", known),
                fmt::format("set size to sizeof({}) and build with headers no newer than the library", name));
}

const char* thread_text(std::string text) {
  auto& owner = in_place_of_this_thread<ThreadText>().text;
  owner = std::move(text);
  return owner.c_str();
}

/// Names and logs may contain bytes that are not UTF-8. JSON cannot hold such bytes, so they are replaced.
const char* thread_text(const Json& json) {
  return thread_text(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace cubit::capi

using namespace cubit;
using namespace cubit::capi;

const cubit_error* cubit_last_error(void) { return &last_error().view; }

void cubit_set_last_error(cubit_status status, const char* what, const char* why, const char* remedy) {
  const auto text = [](const char* given) { return given == nullptr ? "" : given; };
  static_cast<void>(guarded([&] { throw Failure(static_cast<Status>(status), text(what), text(why), text(remedy)); }));
}

int cubit_version(void) { return CUBIT_VERSION_MAJOR * 10000 + CUBIT_VERSION_MINOR * 100 + CUBIT_VERSION_PATCH; }
