// Log levels and the log sink. Library code never prints; it passes lines to a sink that the embedding program owns.
#pragma once

#include <functional>
#include <string_view>

namespace cubit::runtime {

enum class LogLevel : int { debug = 0, info = 1, warning = 2, error = 3 };

/// Receives log lines on any thread. cubit calls the sink without holding a lock and never inside a request that other
/// threads wait for, so the sink may call cubit. An empty sink drops all lines. An engine drops exceptions of the sink.
using LogSink = std::function<void(LogLevel, std::string_view)>;

}  // namespace cubit::runtime
