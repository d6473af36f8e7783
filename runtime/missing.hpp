// The error of an engine that may not compile, for one missing kernel or many.
#pragma once

#include <compare>
#include <span>
#include <string>

#include "base/error.hpp"
#include "codegen/kernel_source.hpp"

namespace cubit::runtime {

/// A kernel that no store holds.
struct MissingKernel {
  std::string descriptor;
  std::string target;  ///< "sm_90a"
  codegen::Code code = codegen::Code::cubin;
  bool is_callers_own = false;  ///< the user's own source, which has no descriptor
  std::string set{};            ///< the descriptor of the set that was asked for; "": the kernel itself

  auto operator<=>(const MissingKernel&) const = default;
};

/// Where the commands put the kernels.
struct MissingPlace {
  bool loads_only_signed = false;  ///< the engine was given public keys
  std::string cache_dir{};         ///< the folder for --cache-dir; "": the one that the environment names
};

/// The Failure(not_cached) that names all of `given_kernels`, which is not empty, in commands to paste into a shell.
Failure not_cached(std::span<const MissingKernel> given_kernels, const MissingPlace& place = {});

}  // namespace cubit::runtime
