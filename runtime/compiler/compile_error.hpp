// Turns a compiler log into an error text that quotes the source, because the compiled files exist in memory only.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "codegen/kernel_source.hpp"

namespace cubit::runtime {

/// Quotes the source for every place that an error line of `log` names ("name(line): error …"): the numbered lines from
/// two before to two after the place, from the template or the header of that name. Each place is quoted once. Returns
/// "" if the log names no place.
std::string source_excerpts(const codegen::KernelSource& source, std::string_view log);

/// Makes a Failure(compile_failed) with the descriptor, the target, the compiler, its log and the source excerpts.
/// `reason` is the compiler's own name of the error ("NVRTC_ERROR_COMPILATION").
Failure compile_failure(const codegen::KernelSource& source, std::string_view compiler, std::string_view reason,
                        std::string_view log);

}  // namespace cubit::runtime
