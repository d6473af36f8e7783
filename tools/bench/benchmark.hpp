// Measures the time of a kernel, and in the same run the time of a plain read or copy of the same bytes (the floor).
#pragma once

#include <cubit/check.hpp>
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
  int copies = 0;           ///< copies of the inputs, used in rotation
  int launches = 0;         ///< launches in the graph
  int replays = 0;
  bool past_l2 = false;   ///< the copies together are at least four times the L2 cache
  nlohmann::json kernel;  ///< description of the kernel, or of the member of a set that the launches took
};

/// Measurements on one device in one run. Each measurement comes with the floor of its bytes.
class Benchmark {
 public:
  /// `facts`: the JSON of Device::describe. `device`, `facts` and `engine` outlive the object. `overlap` applies to the
  /// launches of the measured kernel; the launches of the floor never overlap.
  Benchmark(const Device& device, const nlohmann::json& facts, const Engine& engine, bool overlap)
      : device_(device),
        facts_(facts),
        engine_(engine),
        overlap_(overlap),
        arena_(device, arena_bytes(facts.at("l2_bytes"), facts.at("memory_bytes"))) {}

  /// Measures one case. Returns an entry of `cubit bench --json`. `descriptor` is canonical.
  nlohmann::ordered_json measure(const std::string& descriptor, const Problem& problem, const Kernel& kernel);

 private:
  struct Floor {
    double microseconds = 0;
    std::string descriptor;
  };
  /// Replays CUDA graphs of about 800 us that visit each copy equally often. With `overlap`, a launch begins while the
  /// launch before it ends; see cubit_launch.
  Timing time_kernel(const Problem& problem, const Kernel& kernel, bool overlap);
  const Floor& floor(const FloorKind& kind);

  const Device& device_;
  const nlohmann::json& facts_;
  const Engine& engine_;
  bool overlap_;
  DeviceArena arena_;
  /// Floors by kernel and bytes: cases that move the same number of bytes share a floor.
  std::map<std::pair<std::string_view, std::size_t>, Floor> floors_;
};

/// The text of an entry of measure().
std::string benchmark_text(const nlohmann::ordered_json& json);

}  // namespace cubit::tools
