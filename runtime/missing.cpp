// Builds the commands that compile what is missing: one command per architecture and kind of code.
#include "runtime/missing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace cubit::runtime {
namespace {

/// A user's own source is cached by the program that provides it. The same holds for a descriptor that names code of
/// the user by name and hash ("tanh@0123456789abcdef"), because a command would need the file of that code.
bool tool_can_compile(const MissingKernel& kernel) {
  return !kernel.is_callers_own && kernel.descriptor.find('@') == std::string::npos;
}

/// A word for a shell.
std::string quoted(const std::string& word) {
  std::string inner;
  for (const char c : word) inner += c == '\'' ? "'\\''" : std::string(1, c);
  return fmt::format("'{}'", inner);
}

/// Says where `cubit compile` puts the kernels. A bundle that is not signed yet is one file for all targets.
std::string options_for(const MissingPlace& place, std::size_t targets, std::size_t target) {
  if (place.loads_only_signed)
    return targets == 1 ? " --bundle new.cubit" : fmt::format(" --bundle new{}.cubit", target);
  return place.cache_dir.empty() ? std::string() : " --cache-dir " + quoted(place.cache_dir);
}

std::string commands_for(const std::set<MissingKernel>& missing, const MissingPlace& place) {
  std::map<std::pair<std::string, codegen::Code>, std::set<std::string>> descriptors_by_target;
  for (const MissingKernel& kernel : missing) {
    if (tool_can_compile(kernel))
      descriptors_by_target[{kernel.target, kernel.code}].insert(kernel.set.empty() ? kernel.descriptor : kernel.set);
  }
  std::string commands;
  std::size_t written = 0;
  for (const auto& [target, descriptors] : descriptors_by_target) {
    commands += commands.empty() ? "cubit compile" : " && cubit compile";
    for (const std::string& descriptor : descriptors) commands += " " + quoted(descriptor);
    commands += " --arch " + target.first;
    if (target.second == codegen::Code::ptx) commands += " --ptx";
    commands += options_for(place, descriptors_by_target.size(), ++written);
  }
  return commands;
}

}  // namespace

Failure not_cached(std::span<const MissingKernel> given_kernels, const MissingPlace& place) {
  const MissingKernel& first = given_kernels.front();
  const std::set<MissingKernel> missing(given_kernels.begin(), given_kernels.end());  // several devices need one kernel
  const bool is_one = missing.size() == 1;
  const char* device = first.code == codegen::Code::ptx ? "cpu:" : "";
  std::string given = fmt::format("{} for {}{}", first.descriptor, device, first.target);
  if (!is_one) {
    given += fmt::format(" and {} more {}", missing.size() - 1, missing.size() == 2 ? "kernel" : "kernels");
  }
  const std::string_view them = is_one ? "it" : "them";
  std::string how;
  const std::string commands = commands_for(missing, place);
  if (!commands.empty()) how = fmt::format("compile {} beforehand ({})", them, commands);
  const std::string_view kernels = is_one ? "kernel" : "kernels";
  if (place.loads_only_signed) {
    return {
        Status::not_cached, std::move(given),
        fmt::format("no bundle that a given public key signed holds the {}, and this engine may not compile", kernels),
        fmt::format("{}sign the bundle (cubit bundle sign), or set allow_local_compile",
                    how.empty() ? "" : how + " into a new bundle, ")};
  }
  if (!std::all_of(missing.begin(), missing.end(), tool_can_compile)) {
    how += fmt::format("{}get {} once from an engine that may compile and has the same cache folder",
                       how.empty() ? "" : ", or ", them);
  }
  return {Status::not_cached, std::move(given),
          fmt::format("no cache holds the {}, and this engine may not compile", kernels),
          how + ", or allow compilation"};
}

}  // namespace cubit::runtime
