#include "tools/bench/benchmark.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "cubit_commit.hpp"
#include "files/text/format.hpp"
#include "tools/options/problem_options.hpp"

namespace cubit::tools {
namespace {

constexpr int kReplays = 15;
constexpr int kWarmUps = 3;

std::size_t total_bytes(const std::vector<cubit_tensor>& tensors) {
  std::size_t bytes = 0;
  for (const cubit_tensor& tensor : tensors) bytes += tensor_bytes(tensor);
  return bytes;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// stream_read and stream_copy take whole 16-byte words.
std::size_t whole_words(std::size_t bytes) { return std::max<std::size_t>((bytes + 15) / 16, 1) * 16; }

}  // namespace

Timing Benchmark::time_kernel(const Problem& problem, const Kernel& kernel, bool overlap) {
  const std::size_t read = problem.bytes_read();
  const auto l2 = facts_.at("l2_bytes").get<std::size_t>();
  const std::size_t case_bytes = total_bytes(problem.inputs()) + total_bytes(problem.outputs());
  Timing timing;
  timing.copies = rotation(read, case_bytes, l2, facts_.at("memory_bytes").get<std::size_t>());
  timing.past_l2 = static_cast<std::size_t>(timing.copies) * read >= kPastL2 * l2;
  timing.replays = kReplays;

  const OwnedStream stream(device_);
  DeviceCase on_device(device_, problem, timing.copies, stream, &arena_);
  on_device.allocate_workspace(kernel);
  kernel.prepare(device_);
  timing.kernel = nlohmann::json::parse(on_device.taken(kernel).describe());
  device_.synchronise(stream);
  const auto record = [&](int launches) {
    return device_.capture(stream, [&] {
      for (int i = 0; i < launches; ++i) on_device.launch(kernel, i % timing.copies, overlap);
    });
  };
  Graph graph = record(timing.copies);
  double round = 0;  // microseconds
  for (int i = 0; i < kWarmUps; ++i) round = device_.replay(graph, stream) * 1000;
  const int rounds = rounds_of_graph(round);
  timing.launches = timing.copies * rounds;
  if (rounds > 1) graph = record(timing.launches);
  std::vector<double> milliseconds;
  for (int i = 0; i < kReplays; ++i) milliseconds.push_back(device_.replay(graph, stream));
  timing.microseconds = median(std::move(milliseconds)) * 1000 / timing.launches;
  return timing;
}

/// The fastest plain read or copy of three launch shapes: 2, 4 or 8 blocks per multiprocessor.
const Benchmark::Floor& Benchmark::floor(const FloorKind& kind) {
  const std::size_t whole = whole_words(kind.kernel == kCopies ? kind.bytes / 2 : kind.bytes);
  const auto known = floors_.find({kind.kernel, whole});
  if (known != floors_.end()) return known->second;
  Floor best{std::numeric_limits<double>::infinity(), {}};
  // All three kernels take the same case; only their code differs.
  const std::string kernel(kind.kernel);
  const Problem problem = Problem::random(kernel, {{"bytes", static_cast<double>(whole)}}, 1);
  for (const int blocks : {2, 4, 8}) {
    const std::string descriptor = canonical(fmt::format("{}:blocks_per_sm={}", kernel, blocks));
    const Timing timing = time_kernel(problem, engine_.get(descriptor, kernel_target(facts_)), false);
    if (timing.microseconds < best.microseconds) best = {timing.microseconds, descriptor};
  }
  return floors_.emplace(std::pair(kind.kernel, whole), best).first->second;
}

nlohmann::ordered_json Benchmark::measure(const std::string& descriptor, const Problem& problem, const Kernel& kernel) {
  const Timing timing = time_kernel(problem, kernel, overlap_);
  const FloorKind kind = floor_kind(problem.bytes_read(), problem.bytes_written());
  const Floor& best = floor(kind);
  return {{"descriptor", descriptor},
          {"member", timing.kernel.at("descriptor")},
          {"case", describe_tensors(problem.inputs())},
          {"device", facts_.at("description")},
          {"driver", facts_.at("driver_version")},
          {"compiler", timing.kernel.at("compiler")},
          {"cubit", fmt::format("{}.{}.{}", CUBIT_VERSION_MAJOR, CUBIT_VERSION_MINOR, CUBIT_VERSION_PATCH)},
          {"commit", kCommit},
          {"arch", timing.kernel.at("architecture")},
          {"microseconds", timing.microseconds},
          {"gigabytes_per_second", static_cast<double>(kind.bytes) / timing.microseconds / 1000},
          {"floor_microseconds", best.microseconds},
          {"floor_share", best.microseconds / timing.microseconds},
          {"floor_kernel", best.descriptor},
          {"bytes", kind.bytes},
          {"bytes_written", problem.bytes_written()},
          {"operations", problem.operations()},
          {"tensor_operations_per_second", facts_.at("tensor_operations_per_second")},
          {"overlap", overlap_},
          {"replays", timing.replays},
          {"launches", timing.launches},
          {"copies", timing.copies},
          {"past_l2", timing.past_l2},
          {"arena_bytes", arena_.bytes()}};
}

std::string benchmark_text(const nlohmann::ordered_json& json) {
  const auto number = [&](const char* name) { return json.at(name).get<double>(); };
  const auto text = [&](const char* name) { return json.at(name).get<std::string>(); };
  std::string lines = format_table(
      {{"kernel"}, {"us", true}, {"GB/s", true}, {"share of the floor", true}},
      {{json.value("member", text("descriptor")), fmt::format("{:.1f}", number("microseconds")),
        fmt::format("{:.0f}", number("gigabytes_per_second")), fmt::format("{:.1f}%", 100 * number("floor_share"))},
       {text("floor_kernel"), fmt::format("{:.1f}", number("floor_microseconds")),
        fmt::format("{:.0f}", number("bytes") / number("floor_microseconds") / 1000), "100.0%"}});
  lines +=
      fmt::format("{} moved per launch; median of {} replays of {} launches over {} copies of the inputs; {}, {}\n",
                  format_bytes(number("bytes")), json.at("replays").get<int>(), json.at("launches").get<int>(),
                  json.at("copies").get<int>(), text("device"), text("arch"));
  if (json.at("overlap").get<bool>())
    lines += "Launches of the kernel may overlap, if the kernel supports it; launches of the floor do not overlap.\n";
  if (!json.at("past_l2").get<bool>())
    lines += "The copies do not exceed four times the L2 cache: some reads may hit the cache.\n";
  return lines;
}

}  // namespace cubit::tools
