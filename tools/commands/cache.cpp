// cubit cache: lists, verifies, prunes and clears the folder of compiled kernels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>

#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "files/text/quote.hpp"
#include "tools/commands/cache_care.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cubit cache list
  cubit cache list --cache-dir ship/ --json
  cubit cache verify
      checks every entry and deletes damaged entries; exit code 1 if an entry was damaged
  cubit cache clear --cache-dir /tmp/try
  cubit cache prune --max-bytes 2G --max-days 30
      deletes what was not used for a month, then what was used longest ago
  cubit cache doctor
      checks folders, bundles, trust, locks, entries and free space, and deletes what dead processes left

Exit code: 0 success; 1 verify found a damaged entry, clear could not delete one, or doctor found trouble; 2 the
folder cannot be used.)";

/// An engine that does not log problems of its folder, because these commands report such problems themselves, once.
Engine open_cache(Context& context) {
  context.require_existing_cache_dir();
  return context.cache_reader(context.verbose ? context.console.log(true) : LogFunction{});
}

/// The JSON of the entries. Throws BadInput if the folder cannot be read.
nlohmann::ordered_json listing(const Engine& engine) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(engine.cache_list());
  const auto folder = json.at("folder").get<std::string>();
  if (folder.empty()) throw BadInput("no cache folder", "there is nothing to look at", "give one with --cache-dir");
  if (!json.at("readable").get<bool>()) {
    throw BadInput(folder, json.at("trouble").get<std::string>(), "give another folder with --cache-dir");
  }
  return json;
}

/// A number of an entry; "" for a damaged entry without the number.
std::string number(const nlohmann::ordered_json& entry, const char* name) {
  const auto value = entry.find(name);
  return value != entry.end() && value->is_number() ? value->dump() : "";
}

std::string text(const nlohmann::ordered_json& entry, const char* name) {
  const auto value = entry.find(name);
  return value != entry.end() && value->is_string() ? value->get<std::string>() : "";
}

std::string entry_table(const nlohmann::ordered_json& entries) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& entry : entries) {
    rows.push_back({text(entry, "id").substr(0, 16), shortened(text(entry, "descriptor")), text(entry, "architecture"),
                    text(entry, "compiler"), number(entry, "registers"), number(entry, "spill_bytes"),
                    number(entry, "bytes"), shortened(text(entry, "damage"))});
  }
  return format_table({{"id"},
                       {"descriptor"},
                       {"arch"},
                       {"compiler"},
                       {"registers", true},
                       {"spill bytes", true},
                       {"bytes", true},
                       {"damage"}},
                      rows);
}

void print_listing(const nlohmann::ordered_json& json) {
  const auto& entries = json.at("entries");
  double bytes = 0;
  for (const auto& entry : entries) bytes += entry.at("bytes").get<double>();
  if (!entries.empty()) fmt::print("{}", entry_table(entries));
  fmt::print("{}: {} {}, {}\n", printable(text(json, "folder")), entries.size(),
             entries.size() == 1 ? "entry" : "entries", format_bytes(bytes));
  if (!text(json, "trouble").empty()) fmt::print("{}\n", printable(text(json, "trouble")));
}

int list_cache(bool json, Context& context) {
  const auto entries = listing(open_cache(context));
  if (json) {
    print_json(entries);
  } else {
    print_listing(entries);
  }
  return kExitGood;
}

/// "2 of 5 entries are not good: 1 deleted, 1 could not be deleted or read and stays"
std::string damage_summary(const nlohmann::ordered_json& entries, std::size_t total) {
  const auto removed = std::count_if(entries.begin(), entries.end(),
                                     [](const auto& entry) { return entry.at("removed").template get<bool>(); });
  const auto left = static_cast<std::ptrdiff_t>(entries.size()) - removed;
  std::string summary = fmt::format("{} of {} entries are not good: {} deleted", entries.size(), total, removed);
  if (left != 0) summary += fmt::format(", {} could not be deleted or read and {}", left, left == 1 ? "stays" : "stay");
  return summary;
}

int verify_cache(bool json, Context& context) {
  const Engine engine = open_cache(context);
  const std::size_t total = listing(engine).at("entries").size();
  const auto damaged = nlohmann::ordered_json::parse(engine.cache_verify());
  const std::size_t count = damaged.at("entries").size();
  if (json) {
    print_json(damaged);
  } else if (count == 0) {
    fmt::print("{}: all {} entries are good\n", text(damaged, "folder"), total);
  } else {
    fmt::print("{}{}: {}\n", entry_table(damaged.at("entries")), text(damaged, "folder"),
               damage_summary(damaged.at("entries"), total));
  }
  return count == 0 ? kExitGood : kExitWorkFailed;
}

int clear_cache(bool json, Context& context) {
  const Engine engine = open_cache(context);
  const std::string folder = text(listing(engine), "folder");
  const std::size_t removed = engine.cache_clear();
  const std::size_t left = listing(engine).at("entries").size();
  if (json) {
    print_json({{"folder", folder}, {"removed", removed}, {"left", left}});
  } else {
    fmt::print("{}: {} {} removed", folder, removed, removed == 1 ? "entry" : "entries");
    fmt::print("{}\n", left == 0 ? "" : fmt::format(", {} could not be and {}", left, left == 1 ? "stays" : "stay"));
  }
  return left == 0 ? kExitGood : kExitWorkFailed;
}

}  // namespace

void add_cache(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("cache", "Lists, verifies, prunes or clears the folder of compiled kernels.");
  command->require_subcommand(1);
  command->footer(kExamples);
  using Action = int (*)(bool, Context&);
  const auto add = [&](const char* name, const char* help, Action action) {
    CLI::App* subcommand = command->add_subcommand(name, help);
    auto json = std::make_shared<bool>(false);
    subcommand->add_flag("--json", *json, "Print JSON");
    subcommand->final_callback([=, &context] { context.action = [=, &context] { return action(*json, context); }; });
  };
  add("list", "Lists every entry: id, descriptor, architecture, compiler, registers, spills, bytes, damage.",
      &list_cache);
  add("verify", "Checks every entry and deletes damaged entries; exit code 1 if an entry was damaged.", &verify_cache);
  add("clear", "Deletes every entry.", &clear_cache);
  add_cache_care(*command, context, [&context] { return open_cache(context); });
}

}  // namespace cubit::tools
