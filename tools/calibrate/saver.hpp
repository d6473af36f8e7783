// Saves the statistics of a long run while the run continues.
#pragma once

#include <chrono>
#include <cubit/calibrate.hpp>
#include <string>
#include <utility>

namespace cubit::tools {

/// Saves a collector, but not more often than every few seconds. Does nothing if the path is empty.
class Saver {
 public:
  Saver(const calibrate::Collector& collector, std::string path) : collector_(collector), path_(std::move(path)) {}
  void file_added() {
    constexpr std::chrono::seconds kInterval{10};
    if (!path_.empty() && std::chrono::steady_clock::now() - saved_ > kInterval) save();
  }
  void save() {
    if (path_.empty()) return;
    collector_.save(path_);
    saved_ = std::chrono::steady_clock::now();
  }

 private:
  const calibrate::Collector& collector_;
  std::string path_;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
};

}  // namespace cubit::tools
