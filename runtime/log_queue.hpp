// Collects log lines until no lock is held, because the embedding program's sink may call back into the engine.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/log.hpp"

namespace cubit::runtime {

/// A thread-safe queue of log lines in front of a sink. The queue remembers the last warnings and errors, so that they
/// are not lost without a sink.
class LogQueue {
 public:
  explicit LogQueue(LogSink sink) : sink_(std::move(sink)) {}
  static constexpr std::size_t kMostWarnings = 32;

  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  /// Stores a line. Thread-safe; does not call the sink.
  void keep(LogLevel level, std::string_view line);
  /// Passes all stored lines to the sink in order, including lines of other threads. Exceptions of the sink are
  /// dropped, so that a line that cannot be written does not fail a request.
  void emit() noexcept;

  /// The last warnings and errors, oldest first, at most kMostWarnings.
  std::vector<std::string> warnings() const;

  /// Calls emit() at the end of a scope, even if an exception leaves the scope.
  class Emission {
   public:
    explicit Emission(LogQueue& queue) : queue_(queue) {}
    Emission(const Emission&) = delete;
    Emission& operator=(const Emission&) = delete;
    ~Emission() {
      if (early_.joinable()) early_.join();
      queue_.emit();
    }

    /// Emits the lines so far on another thread, while this thread goes on. The sink may then wait for what this thread
    /// makes. Without memory for a thread, the lines stay in the queue.
    void emit_early() noexcept;

   private:
    LogQueue& queue_;
    std::thread early_;
  };

 private:
  LogSink sink_;
  mutable std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> lines_;
  std::deque<std::string> warnings_;
};

}  // namespace cubit::runtime
