// cubit explain: shows the generator's decisions with their reasons, and the proof of every shared-memory access.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "files/output_folder.hpp"
#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tools/kernels/counters.hpp"
#include "tools/kernels/device_case.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/context.hpp"
#include "tools/pictures/plan_pictures.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kHelp =
    R"(Shows a kernel's plan: each decision with its reason, the bank-conflict proof of each shared-memory access, and the
reason why each other kernel family was not chosen. If there is a compiler, the command also shows registers and spills.
Of a set of kernels the command shows the members and the launches that take each of them.)";

constexpr const char* kExamples = R"(
Examples:
  cubit explain gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 --arch sm_80
  cubit explain gqa_decode:heads_per_kv=8 --arch sm_90a --source
      also prints the plan header that the template is compiled with
  cubit explain gqa_decode:heads_per_kv=8 --arch sm_90a --measure
      also runs a small case on the CPU device, and compares the counted bank conflicts with the plan's proof
  cubit explain gqa_decode:kv=int4_rows,groups=4 --arch sm_90a --svg pictures
      also draws fragments, tiles with the words that each access touches, and the shared-memory map
  cubit explain convert_layout --arch sm_80 --svg pictures
      draws the layouts of int8 matrices as address maps
  cubit explain w4a16_gemm:format=awq --arch sm_90a
      lists the members of a set; explain a member by its text
  cubit explain gqa_decode --arch sm_86 --json)";

struct ExplainOptions {
  std::string descriptor;
  std::optional<std::string> architecture;
  std::optional<std::string> svg;
  bool json = false;
  bool source = false;
  bool measure = false;
};

/// Whether the JSON of cubit_explain describes a set of kernels.
bool is_set(const nlohmann::ordered_json& plan) { return plan.contains("members"); }

std::string choose_architecture(const ExplainOptions& options) {
  if (!options.architecture) {
    const Devices devices = find_devices();
    if (!devices.list.empty()) return devices.list.front().at("architecture");
    throw BadInput("no --arch", "without a GPU, explain must be told the architecture", "for instance --arch sm_90a");
  }
  const auto names = parse_architectures(*options.architecture);
  if (names.size() != 1)
    throw BadInput("--arch " + *options.architecture, "explain takes one architecture", "give one, as --arch sm_90a");
  return names.front();
}

/// Adds "resources", or "resources_unavailable" with the reason. The resources of a set are its members'.
void add_resources(nlohmann::ordered_json& plan, const ExplainOptions& options, const std::string& architecture,
                   Context& context) {
  try {
    const Kernel kernel = context.engine().get(options.descriptor, architecture);
    for (std::size_t i = 0; is_set(plan) && i < kernel.member_count(); ++i)
      plan["members"][i]["resources"] = nlohmann::ordered_json::parse(kernel.member(i).describe());
    if (!is_set(plan)) plan["resources"] = nlohmann::ordered_json::parse(kernel.describe());
  } catch (const Error& error) {
    if (error.code() != CUBIT_COMPILER_UNAVAILABLE && error.code() != CUBIT_NOT_CACHED) throw;
    plan["resources_unavailable"] = error.what();
  }
}

/// Runs made-up data of the operator's default sizes on the CPU device of the architecture. If the launch does not
/// reach all accesses of the plan, a second launch asks for two splits, because sequences of many heads, or k's of many
/// tiles, are not split by default.
class Measured {
 public:
  Measured(const ExplainOptions& options, const std::string& architecture, Context& context)
      : descriptor_(options.descriptor),
        device_("cpu:" + architecture),
        kernel_(context.engine().get(descriptor_, "cpu:" + architecture)) {}

  nlohmann::ordered_json compare(const nlohmann::ordered_json& plan) const {
    nlohmann::ordered_json launches = count({});
    nlohmann::ordered_json rows = compare_with_plan(plan, launches);
    const auto is_reached = [](const auto& row) { return row.at("counted_requests") > 0; };
    if (std::all_of(rows.begin(), rows.end(), is_reached)) return rows;
    const Problem::Numbers two_splits[] = {{{"splits", 2}}, {{"decomposition", 2}, {"splits", 2}}};
    for (const Problem::Numbers& numbers : two_splits) {
      try {
        for (auto& launch : count(numbers)) launches.push_back(std::move(launch));
        break;
      } catch (const Error& error) {
        if (error.code() != CUBIT_INVALID_ARGUMENT) throw;  // the operator has no such numbers
      }
    }
    return compare_with_plan(plan, launches);
  }

 private:
  nlohmann::ordered_json count(const Problem::Numbers& numbers) const {
    const Problem problem = Problem::random(descriptor_, numbers, 1);
    const OwnedStream stream(device_);
    DeviceCase on_device(device_, problem, 1, stream);
    on_device.allocate_workspace(kernel_);
    device_.watch(CUBIT_WATCH_COUNTERS);
    on_device.launch(kernel_, 0);
    return nlohmann::ordered_json::parse(device_.counters());
  }

  std::string descriptor_;
  Device device_;
  Kernel kernel_;
};

/// Adds "measured", or "measured_unavailable" with the reason.
void add_measured(nlohmann::ordered_json& plan, const ExplainOptions& options, const std::string& architecture,
                  Context& context) {
  try {
    plan["measured"] = Measured(options, architecture, context).compare(plan);
  } catch (const Error& error) {
    const bool is_missing = error.code() == CUBIT_COMPILER_UNAVAILABLE || error.code() == CUBIT_NOT_CACHED ||
                            error.code() == CUBIT_DRIVER_UNAVAILABLE;
    if (!is_missing) throw;
    plan["measured_unavailable"] = error.what();
  }
}

std::string cell(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A table of `list`, an array of objects; a column's title is its JSON name.
std::string list_table(const nlohmann::ordered_json& list, const std::vector<Column>& columns) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& entry : list) {
    std::vector<std::string> row;
    for (const Column& column : columns) row.push_back(cell(entry.at(column.title)));
    rows.push_back(std::move(row));
  }
  return format_table(columns, rows);
}

void print_resources(const nlohmann::ordered_json& plan) {
  fmt::print("\nResources\n");
  if (plan.contains("resources_unavailable")) {
    fmt::print("not known: {}\n", cell(plan.at("resources_unavailable")));
    return;
  }
  const auto& kernel = plan.at("resources");
  fmt::print(
      "registers {}, spills {} bytes, stack {} bytes, shared memory {} static + {} dynamic, threads {}, "
      "cubin {} bytes\ncompiler {}\n",
      cell(kernel.at("registers")), cell(kernel.at("spill_bytes")), cell(kernel.at("stack_bytes")),
      cell(kernel.at("static_shared_memory")), cell(kernel.at("dynamic_shared_memory")), cell(kernel.at("threads")),
      cell(kernel.at("cubin_bytes")), cell(kernel.at("compiler")));
  const std::string excuse = cell(plan.at("spills_allowed_because"));
  if (!excuse.empty()) fmt::print("spills are allowed: {}\n", excuse);
}

void print_plan(const nlohmann::ordered_json& plan, bool source) {
  fmt::print("{} for {}: {}, {} threads, {} bytes of dynamic shared memory, key {}\n\nDecisions\n{}",
             cell(plan.at("descriptor")), cell(plan.at("architecture")), cell(plan.at("family")),
             cell(plan.at("threads")), cell(plan.at("dynamic_shared_memory")), cell(plan.at("request_key")),
             list_table(plan.at("decisions"), {{"name"}, {"value"}, {"why"}}));
  fmt::print("\nShared-memory accesses, by enumeration of all lanes and phases (degree 1: no bank conflict)\n{}",
             list_table(plan.at("proofs"), {{"access"}, {"degree", true}, {"wavefronts", true}, {"ideal", true}}));
  if (plan.contains("measured")) {
    fmt::print("\nThe same accesses, counted on the CPU device for a whole launch\n{}",
               list_table(plan.at("measured"), {{"access"},
                                                {"wavefronts", true},
                                                {"ideal", true},
                                                {"counted_requests", true},
                                                {"counted_wavefronts", true},
                                                {"counted_ideal", true},
                                                {"agrees"}}));
  }
  if (plan.contains("measured_unavailable"))
    fmt::print("\nNot counted on the CPU device: {}\n", cell(plan.at("measured_unavailable")));
  std::vector<std::string> fragments;
  for (const auto& fragment : plan.at("fragments")) fragments.push_back(cell(fragment));
  if (!fragments.empty()) fmt::print("\nFragments\n{}\n", fmt::join(fragments, ", "));
  fmt::print("\nNot chosen\n");
  for (const auto& rejection : plan.at("rejections")) {
    fmt::print("{}: {}\n", cell(rejection.at("family")), cell(rejection.at("why")));
  }
  if (plan.at("rejections").empty()) fmt::print("there is no other family\n");
  print_resources(plan);
  if (source) fmt::print("\nplan.cuh for {}\n{}", cell(plan.at("template")), cell(plan.at("plan_header")));
}

/// "w4a16_gemm:format=awq,tile_m=8,tile_n=64": a row for each member, and a column for each of a few usual sizes.
std::string members_table(const nlohmann::ordered_json& plan) {
  std::vector<Column> columns = {{"member"}, {"family"}, {"registers", true}, {"spills", true}};
  for (const auto& serves : plan.at("members").front().at("serves")) columns.push_back({cell(serves.at("sizes"))});
  std::vector<std::vector<std::string>> rows;
  for (const auto& member : plan.at("members")) {
    const auto resource = [&](const char* name) {
      return member.contains("resources") ? cell(member.at("resources").at(name)) : "";
    };
    std::vector<std::string> row = {cell(member.at("descriptor")), cell(member.at("family")), resource("registers"),
                                    resource("spill_bytes")};
    for (const auto& serves : member.at("serves")) row.push_back(cell(serves.at("launches")));
    rows.push_back(std::move(row));
  }
  return format_table(columns, rows);
}

void print_set(const nlohmann::ordered_json& set) {
  fmt::print(
      "{} for {} is a set of {} kernels. Each launch takes one member, by its sizes and the device.\n\n"
      "Members, and the launches that take them on 132 multiprocessors\n{}",
      cell(set.at("descriptor")), cell(set.at("architecture")), set.at("members").size(), members_table(set));
  if (set.contains("resources_unavailable"))
    fmt::print("\nResources\nnot known: {}\n", cell(set.at("resources_unavailable")));
  fmt::print("\nTo see a member's plan, explain the member by its text.\n");
}

/// The options that need one plan.
void require_one_kernel(const nlohmann::ordered_json& plan, const ExplainOptions& options) {
  const char* const option = options.measure  ? "--measure"
                             : options.svg    ? "--svg"
                             : options.source ? "--source"
                                              : nullptr;
  if (!is_set(plan) || option == nullptr) return;
  throw BadInput(fmt::format("{} of {}", option, cell(plan.at("descriptor"))),
                 "the descriptor names a set of kernels, and this option shows one plan",
                 fmt::format("name a member, for instance {}", cell(plan.at("members").front().at("descriptor"))));
}

/// Writes the pictures. The report goes to standard error, because standard output may be JSON.
void draw(const ExplainOptions& options, const std::string& architecture, Context& context) {
  const auto layouts = nlohmann::json::parse(explain_layouts(options.descriptor, architecture));
  const std::string descriptor = canonical(options.descriptor);
  auto pictures = plan_pictures(layouts, fmt::format("{} for {}", descriptor, architecture));
  if (descriptor.substr(0, descriptor.find(':')) == "convert_layout") pictures = layout_pictures();
  make_folder(*options.svg, "--svg");
  for (const Picture& picture : pictures) write_file(*options.svg, picture.file, picture.svg);
  context.console.say(pictures.empty() ? "nothing to draw: the plan has no fragments, tiles or dynamic shared memory"
                                       : fmt::format("{} pictures in {}", pictures.size(), *options.svg));
}

/// Throws WorkFailed if a measurement that was asked for is missing or contradicts the plan.
void require_plan_holds(const nlohmann::ordered_json& plan) {
  if (plan.contains("measured_unavailable")) throw WorkFailed("--measure", cell(plan.at("measured_unavailable")));
  if (!plan.contains("measured")) return;
  for (const auto& row : plan.at("measured")) {
    if (row.at("agrees").get<bool>()) continue;
    throw WorkFailed(
        cell(row.at("access")),
        fmt::format("the CPU device counted {} requests with {} wavefronts (ideal: {}); the plan proves {} wavefronts "
                    "(ideal: {})",
                    cell(row.at("counted_requests")), cell(row.at("counted_wavefronts")), cell(row.at("counted_ideal")),
                    cell(row.at("wavefronts")), cell(row.at("ideal"))));
  }
}

int explain_plan(const ExplainOptions& options, Context& context) {
  const std::string architecture = choose_architecture(options);
  auto plan = nlohmann::ordered_json::parse(explain(options.descriptor, architecture));
  require_one_kernel(plan, options);
  add_resources(plan, options, architecture, context);
  if (options.measure) add_measured(plan, options, architecture, context);
  if (options.svg) draw(options, architecture, context);
  if (options.json) {
    print_json(plan);
  } else {
    is_set(plan) ? print_set(plan) : print_plan(plan, options.source);
  }
  require_plan_holds(plan);
  return kExitGood;
}

}  // namespace

void add_explain(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("explain", kHelp);
  auto options = std::make_shared<ExplainOptions>();
  command->add_option("DESCRIPTOR", options->descriptor, "operator:field=value,...")->required();
  command->add_option("--arch", options->architecture, "The architecture (default: that of this machine's device)");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--measure", options->measure,
                    "Also count bank conflicts on the CPU device, and compare them with the plan");
  command->add_flag("--source", options->source, "Also print the plan header");
  command->add_option("--svg", options->svg, "Also write pictures of the plan into this folder");
  command->footer(kExamples);
  command->final_callback([options, &context] {
    context.action = [options, &context] {
      require_descriptor_length(options->descriptor, "");
      options->descriptor = context.resolved(options->descriptor);
      return explain_plan(*options, context);
    };
  });
}

}  // namespace cubit::tools
