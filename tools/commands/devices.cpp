// cubit devices: lists the devices that cubit can run on.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cubit devices
  cubit devices --json

Exit code: 0, even if there is no device; the reason is printed. In the JSON, "devices" lists only GPUs.)";

std::string gpu_table(const std::vector<nlohmann::json>& list) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& device : list) {
    const auto text = [&](const char* name) { return device.at(name).get<std::string>(); };
    rows.push_back({text("name"), text("description"), text("architecture"),
                    fmt::format("{}", device.at("multiprocessors").get<int>()),
                    format_bytes(device.at("memory_bytes").get<double>()),
                    format_bytes(device.at("l2_bytes").get<double>()),
                    fmt::format("{}", device.at("driver_version").get<int>())});
  }
  return format_table({{"device"},
                       {"description"},
                       {"arch"},
                       {"multiprocessors", true},
                       {"memory", true},
                       {"L2", true},
                       {"driver", true}},
                      rows);
}

int list_devices(bool as_json) {
  const auto json = nlohmann::ordered_json::parse(devices());
  if (as_json) {
    print_json(json);
    return kExitGood;
  }
  const Devices found = find_devices();
  if (found.list.empty()) {
    fmt::print("no GPU: {}\n", found.trouble);
  } else {
    fmt::print("{}", gpu_table(found.list));
    if (!found.trouble.empty()) fmt::print("not usable: {}\n", found.trouble);
  }
  const auto no_cpu = json.at("cpu").at("trouble").get<std::string>();
  if (no_cpu.empty()) {
    fmt::print("cpu: executes any architecture's PTX on this machine's processor (--device cpu --arch sm_90a)\n");
  } else {
    fmt::print("no CPU device: {}\n", no_cpu);
  }
  return kExitGood;
}

}  // namespace

void add_devices(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("devices", "Lists the devices that cubit can run on, or says why there are none.");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->footer(kExamples);
  command->final_callback([json, &context] { context.action = [json] { return list_devices(*json); }; });
}

}  // namespace cubit::tools
