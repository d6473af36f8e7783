// A compile error that a person can act on without having the files: they exist in memory only.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "codegen/kernel_source.hpp"

namespace cubit::runtime {

/// For every place that an error line of `log` names, "name(line): error …", the numbered source lines from two before
/// to two after it, from the template or the header of that name. Each place once; empty if the log names none.
std::string source_excerpts(const codegen::KernelSource& source, std::string_view log);

/// Failure(compile_failed) that holds the descriptor, the target, the compiler, its log and the excerpts.
/// `reason`: the compiler's own name for what went wrong ("NVRTC_ERROR_COMPILATION").
Failure compile_failure(const codegen::KernelSource& source, std::string_view compiler, std::string_view reason,
                        std::string_view log);

}  // namespace cubit::runtime
