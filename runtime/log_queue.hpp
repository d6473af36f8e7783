// Lines wait here until no lock is held: an embedder's sink may call back into the engine that gives it a line.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/log.hpp"

namespace cubit::runtime {

class LogQueue {
 public:
  explicit LogQueue(LogSink sink) : sink_(std::move(sink)) {}
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  /// Keeps a line; thread-safe, calls nobody.
  void keep(LogLevel level, std::string_view line);
  /// Gives every line kept so far to the sink, in order; those of other threads too. What the sink throws is dropped: a
  /// line that cannot be written fails no request.
  void emit() noexcept;

  /// Emits at the end of a scope, whichever way it is left.
  class Emission {
   public:
    explicit Emission(LogQueue& queue) : queue_(queue) {}
    Emission(const Emission&) = delete;
    Emission& operator=(const Emission&) = delete;
    ~Emission() { queue_.emit(); }

   private:
    LogQueue& queue_;
  };

 private:
  LogSink sink_;
  std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

}  // namespace cubit::runtime
