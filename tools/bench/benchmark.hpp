// How long a kernel takes, and how long a plain read or copy of the same bytes takes in the same run.
#pragma once

#include <cubit/cubit.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "tools/bench/amounts.hpp"
#include "tools/kernels/device_case.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {

struct Timing {
  double microseconds = 0;  ///< per launch: the median of the replays
  int copies = 0;           ///< of the inputs, in rotation
  int launches = 0;         ///< in the graph
  int replays = 0;
  bool past_l2 = false;  ///< the copies together are at least four times the L2 cache
};

/// Measurements on one device in one run: each beside the floor of its bytes.
class Benchmark {
 public:
  /// `facts` as Device::describe gives them. All three outlive the object. `overlap`: of the measured kernel's
  /// launches; the floor's never do.
  Benchmark(const Device& device, const nlohmann::json& facts, const Engine& engine, bool overlap)
      : device_(device),
        facts_(facts),
        engine_(engine),
        overlap_(overlap),
        arena_(device, arena_bytes(facts.at("l2_bytes"), facts.at("memory_bytes"))) {}

  /// One measurement, as `cubit bench --json` prints it. `descriptor` is canonical.
  nlohmann::ordered_json measure(const std::string& descriptor, const Problem& problem, const Kernel& kernel);

 private:
  struct Floor {
    double microseconds = 0;
    std::string descriptor;
  };
  /// CUDA-graph replays of about 800 us, each copy equally often. `overlap`: each launch begins while the one before
  /// ends, see cubit_launch.
  Timing time_kernel(const Problem& problem, const Kernel& kernel, bool overlap);
  const Floor& floor(const FloorKind& kind);

  const Device& device_;
  const nlohmann::json& facts_;
  const Engine& engine_;
  bool overlap_;
  DeviceArena arena_;
  /// By kernel and bytes: kernels that move the same share a floor.
  std::map<std::pair<std::string_view, std::size_t>, Floor> floors_;
};

/// As measure gives it, for people.
std::string benchmark_text(const nlohmann::ordered_json& json);

}  // namespace cubit::tools
