// The subcommands of cubit cache that look after the folder: prune, stats and doctor.
#pragma once

#include "tools/options/context.hpp"

namespace cubit::tools {

/// Adds the subcommands to `command`, the command cubit cache. `open` makes the engine of the folder.
void add_cache_care(CLI::App& command, Context& context, const std::function<Engine()>& open);

}  // namespace cubit::tools
