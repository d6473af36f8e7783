#include "ops/numbers.hpp"

#include <cubit/cubit.h>
#include <fmt/format.h>

#include <cmath>
#include <span>

#include "base/error.hpp"

namespace cubit::ops {
namespace {

void require_pointer_to(const void* pointer, const char* parameter) {
  if (pointer == nullptr) throw Failure(Status::invalid_argument, parameter, "NULL was given", "pass a valid pointer");
}

}  // namespace

Numbers numbers_of(const cubit_number* numbers, std::size_t count, const char* parameter) {
  if (count != 0) require_pointer_to(numbers, parameter);
  Numbers result;
  for (const cubit_number& number : std::span(numbers, count)) {
    require_pointer_to(number.name, "cubit_number: name");
    if (!result.emplace(number.name, number.value).second) {
      throw Failure(Status::invalid_argument, fmt::format("\"{}\"", number.name), "this name is given twice",
                    "give each name once");
    }
  }
  return result;
}

std::int64_t whole_number(std::string_view name, double value, double least, double most) {
  if (value >= least && value <= most && value == std::floor(value)) return static_cast<std::int64_t>(value);
  throw Failure(Status::invalid_argument, fmt::format("{} = {}", name, value), "it is not a number that is accepted",
                fmt::format("accepted: whole numbers from {:.0f} to {:.0f}", least, most));
}

}  // namespace cubit::ops
