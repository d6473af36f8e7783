// How long a kernel takes, and how long a plain read or copy of the same bytes takes in the same run.
#pragma once

#include <cubit/cubit.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "tools/context.hpp"

namespace cubit::tools {

struct Timing {
  double microseconds = 0;  ///< per launch: the median of the replays
  int copies = 0;           ///< of the inputs, in rotation
  int launches = 0;         ///< in the graph
  int replays = 0;
  bool past_l2 = false;  ///< the copies together are at least four times the L2 cache
};

/// Copies of a case of `bytes` so that by the time one is read again the L2 cache has forgotten it: together 16 times
/// its size, within a quarter of the device's memory (`case_bytes` each) and at most 64.
int rotation(std::size_t bytes, std::size_t case_bytes, std::size_t l2_bytes, std::size_t memory_bytes);

/// CUDA-graph replays of at least 48 launches. `overlap`: each begins while the one before ends, see cubit_launch.
Timing time_kernel(const Device& device, const nlohmann::json& facts, const Problem& problem, const Kernel& kernel,
                   bool overlap);

/// What a kernel's floor is: a plain read of what it must read, or, where it must write at least a fifth as much, a
/// plain copy that moves as many bytes as it reads and writes together.
struct FloorKind {
  std::string_view kernel;  ///< "stream_read" or "stream_copy"
  std::size_t bytes = 0;    ///< that it moves
};
FloorKind floor_kind(std::size_t bytes_read, std::size_t bytes_written);

/// Measurements on one device in one run: each beside the floor of its bytes.
class Benchmark {
 public:
  /// `facts` as Device::describe gives them. All three outlive the object. `overlap`: of the measured kernel's
  /// launches; the floor's never do.
  Benchmark(const Device& device, const nlohmann::json& facts, const Engine& engine, bool overlap)
      : device_(device), facts_(facts), engine_(engine), overlap_(overlap) {}

  /// One measurement, as `cubit bench --json` prints it. `descriptor` is canonical.
  nlohmann::ordered_json measure(const std::string& descriptor, const Problem& problem, const Kernel& kernel);

 private:
  struct Floor {
    double microseconds = 0;
    std::string descriptor;
  };
  const Floor& floor(const FloorKind& kind);

  const Device& device_;
  const nlohmann::json& facts_;
  const Engine& engine_;
  bool overlap_;
  /// By kernel and bytes: kernels that move the same share a floor.
  std::map<std::pair<std::string_view, std::size_t>, Floor> floors_;
};

/// As measure gives it, for people.
std::string benchmark_text(const nlohmann::ordered_json& json);

}  // namespace cubit::tools
