// Turns the failures of the library's parts into the public exception.
#pragma once

#include <cubit/cubit.hpp>

#include "base/error.hpp"
#include "files/text/error.hpp"

namespace cubit::calibrate {

/// Calls `work` and rethrows its failures as cubit::Error.
template <class Work>
decltype(auto) at_surface(Work&& work) {
  try {
    return work();
  } catch (const Failure& failure) {
    throw Error({static_cast<cubit_status>(failure.status()), failure.what(), failure.given().c_str(),
                 failure.rule().c_str(), failure.remedy().c_str()});
  } catch (const tools::CommandError& error) {
    const bool is_bad_input = error.exit_code() == tools::kExitBadInput;
    throw Error({is_bad_input ? CUBIT_INVALID_ARGUMENT : CUBIT_IO_ERROR, error.what(), error.what(), "", ""});
  }
}

[[noreturn]] inline void refuse(const std::string& given, const std::string& rule, const std::string& remedy) {
  throw Failure(Status::invalid_argument, given, rule, remedy);
}

}  // namespace cubit::calibrate
