// cubit suggest: prints the fastest descriptor for launches of known sizes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "files/text/error.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kHelp =
    R"(Completes a descriptor for launches of known sizes. Some fields affect only the speed of a kernel and not its
result; suggest chooses these fields by a model of measurements on an H200, and prints the descriptor. cubit operators
lists the fields that suggest chooses, and the sizes that it needs.)";

constexpr const char* kExamples = R"(
Examples:
  cubit suggest w4a16_gemm --sizes m=16,n=8192,k=8192
      for this machine's device
  cubit suggest w4a16_gemm:format=awq --sizes m=1,n=5120,k=13824 --arch sm_90a --multiprocessors 132
  cubit suggest w4a16_gemm --sizes m=1,n=3584,k=18944 --arch sm_90a --multiprocessors 132 --memory-bandwidth 3352
  cubit suggest gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,cache=paged --sizes page_size=1 --arch sm_90a --multiprocessors 132
  cubit bench $(cubit suggest w4a16_gemm --sizes m=16,n=5120,k=5120) --random m=16,n=5120,k=5120)";

struct SuggestOptions {
  std::string descriptor;
  std::optional<std::string> sizes;
  std::optional<std::string> architecture;
  std::optional<int> multiprocessors;
  std::optional<double> memory_gigabytes_per_second;
};

constexpr double kMostGigabytesPerSecond = 1e6;

struct Target {
  std::string architecture;
  int multiprocessors = 0;
  std::int64_t memory_bytes_per_second = 0;
};

Target choose_target(const SuggestOptions& options) {
  if (options.architecture.has_value() != options.multiprocessors.has_value()) {
    throw BadInput(options.architecture ? "--arch" : "--multiprocessors",
                   "an architecture and a number of multiprocessors go together",
                   "give --arch sm_90a --multiprocessors 132, or neither for this machine's device");
  }
  if (options.memory_gigabytes_per_second && !options.architecture) {
    throw BadInput("--memory-bandwidth", "the bandwidth belongs to a device that --arch and --multiprocessors describe",
                   "give all three, or none for this machine's device");
  }
  if (!options.architecture) {
    const Devices devices = find_devices();
    if (devices.list.empty()) {
      throw BadInput("no --arch", "without a GPU, suggest must be told the device",
                     "for instance --arch sm_90a --multiprocessors 132");
    }
    const auto& device = devices.list.front();
    return {device.at("architecture"), device.at("multiprocessors"), device.at("memory_bytes_per_second")};
  }
  const auto names = parse_architectures(*options.architecture);
  if (names.size() != 1)
    throw BadInput("--arch " + *options.architecture, "suggest takes one architecture", "give one, as --arch sm_90a");
  const double gigabytes = options.memory_gigabytes_per_second.value_or(0);
  if (!(gigabytes >= 0 && gigabytes <= kMostGigabytesPerSecond)) {
    throw BadInput(fmt::format("--memory-bandwidth {}", gigabytes), "the value is in GB/s",
                   "accepted: 0 (not known) to 1000000; an H100 has 3352");
  }
  return {names.front(), *options.multiprocessors, static_cast<std::int64_t>(1e9 * gigabytes)};
}

int print_suggestion(const SuggestOptions& options, const Context& context) {
  require_descriptor_length(options.descriptor, "");
  const Target target = choose_target(options);
  const Numbers sizes = options.sizes ? parse_numbers(*options.sizes, "--sizes") : Numbers{};
  fmt::print("{}\n", suggest(context.resolved(options.descriptor), sizes, target.architecture, target.multiprocessors,
                             target.memory_bytes_per_second));
  return kExitGood;
}

}  // namespace

void add_suggest(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("suggest", kHelp);
  auto options = std::make_shared<SuggestOptions>();
  command->add_option("DESCRIPTOR", options->descriptor, "operator:field=value,...")->required();
  command->add_option("--sizes", options->sizes, "Sizes of the launches: m=16,n=8192,k=8192");
  command->add_option("--arch", options->architecture, "The architecture (default: that of this machine's device)");
  command->add_option("--multiprocessors", options->multiprocessors,
                      "Number of multiprocessors of the device; cubit devices shows it");
  command->add_option(
      "--memory-bandwidth", options->memory_gigabytes_per_second,
      "Memory bandwidth in GB/s, from the memory's clock and width (default: not known; an H200 is assumed)");
  command->footer(kExamples);
  command->final_callback(
      [options, &context] { context.action = [options, &context] { return print_suggestion(*options, context); }; });
}

}  // namespace cubit::tools
