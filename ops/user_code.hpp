// Device code of users, registered under a name and found again by name and hash.
#pragma once

#include <string>
#include <string_view>

#include "codegen/kernel_source.hpp"

namespace cubit::ops {

/// Whether `text` reads as "name@hash": an identifier and 16 lower-case hexadecimal digits.
bool is_user_code_name(std::string_view text);

/// Keeps a header until the process ends and returns the "name@hash" that finds it. The same name and text give the
/// same result, so that any thread may add them again. `function`: the function that the header must define. Throws
/// Failure(invalid_argument) if the name is not an identifier of up to 64 characters, or if the text is empty, longer
/// than 64 KiB, or without the function's name.
std::string add_user_code(std::string_view name, std::string_view text, std::string_view function);

/// The header that "name@hash" stands for; the header's file name is "user/<name>.cuh". Throws
/// Failure(invalid_argument) if the header was not added.
codegen::Header find_user_code(std::string_view name_and_hash);

}  // namespace cubit::ops
