// The device templates of this folder as text inside the library (generated at build time by cmake/embed.cmake).
#pragma once

#include <string_view>

#include "codegen/kernel_source.hpp"

namespace cubit::templates {

/// Every *.cuh and *.h file of templates/, sorted by name. Built once, on first use.
const codegen::HeaderLibrary& embedded();

/// The file named `name`; throws Failure(internal) if it is not there.
const codegen::Header& find(std::string_view name);

}  // namespace cubit::templates
