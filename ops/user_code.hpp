// Device code that users hand over: named, hashed, and found again by both.
#pragma once

#include <string>
#include <string_view>

#include "codegen/kernel_source.hpp"

namespace cubit::ops {

/// Whether `text` reads as "name@hash": an identifier and 16 lower-case hexadecimal digits.
bool is_user_code_name(std::string_view text);

/// Keeps a header for as long as the process lives, and gives the "name@hash" that finds it: the same text under the
/// same name gives the same, so it may be added again, by any thread. `function`: what it has to define. Throws
/// Failure(invalid_argument) for a name that is no identifier of up to 64 characters, and a text that is empty, longer
/// than 64 KiB, or without the function's name.
std::string add_user_code(std::string_view name, std::string_view text, std::string_view function);

/// The header that "name@hash" stands for; its own name is "user/<name>.cuh". Throws Failure(invalid_argument) where
/// nobody has added it.
codegen::Header find_user_code(std::string_view name_and_hash);

}  // namespace cubit::ops
