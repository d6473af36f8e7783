// Library code never prints: it hands lines to a sink that the embedder owns.
#pragma once

#include <functional>
#include <string_view>

namespace cubit::runtime {

enum class LogLevel : int { debug = 0, info = 1, warning = 2, error = 3 };

/// Called from any thread, never while a lock of cubit's is held and never inside a request that others wait for: it
/// may call back. An empty function drops every line; an engine drops what it throws.
using LogSink = std::function<void(LogLevel, std::string_view)>;

}  // namespace cubit::runtime
