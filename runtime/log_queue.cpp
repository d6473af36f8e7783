// Implements LogQueue. The mutex protects the list only and is never held while the sink runs.
#include "runtime/log_queue.hpp"

namespace cubit::runtime {

void LogQueue::keep(LogLevel level, std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (level >= LogLevel::warning) {
    if (warnings_.size() == kMostWarnings) warnings_.pop_front();
    warnings_.emplace_back(line);
  }
  if (sink_) lines_.emplace_back(level, line);
}

std::vector<std::string> LogQueue::warnings() const {
  const std::lock_guard lock(mutex_);
  return {warnings_.begin(), warnings_.end()};
}

void LogQueue::Emission::emit_early() noexcept {
  if (early_.joinable()) return;
  try {
    early_ = std::thread([this] { queue_.emit(); });
  } catch (...) {  // no memory, or too many threads
  }
}

void LogQueue::emit() noexcept {
  std::vector<std::pair<LogLevel, std::string>> lines;
  {
    const std::lock_guard lock(mutex_);
    lines.swap(lines_);
  }
  for (const auto& [level, line] : lines) {
    try {
      sink_(level, line);
    } catch (...) {  // exceptions of the sink are dropped
    }
  }
}

}  // namespace cubit::runtime
