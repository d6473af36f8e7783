#include "tools/commands/cache_care.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;

struct CareOptions {
  std::uint64_t max_bytes = 0;
  unsigned max_days = 0;
  bool json = false;
};

std::string counted(std::uint64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::uint64_t count_of(const Json& json, const char* name) { return json.at(name).get<std::uint64_t>(); }

/// "1 day", "3 hours" or "20 seconds": two digits are enough here.
std::string duration(std::uint64_t seconds) {
  constexpr std::uint64_t kHour = 3600;
  constexpr std::uint64_t kDay = 24 * kHour;
  if (seconds >= 2 * kDay) return fmt::format("{} days", seconds / kDay);
  if (seconds >= 2 * kHour) return fmt::format("{} hours", seconds / kHour);
  return counted(seconds, "second", "seconds");
}

/// Throws BadInput if the folder cannot be used.
Json checked(Json stats) {
  const auto folder = stats.at("folder").get<std::string>();
  if (folder.empty()) throw BadInput("no cache folder", "there is nothing to look at", "give one with --cache-dir");
  if (!stats.at("readable").get<bool>()) {
    throw BadInput(folder, stats.at("trouble").get<std::string>(), "give another folder with --cache-dir");
  }
  return stats;
}

std::string stats_text(const Json& stats) {
  std::string text = fmt::format("{}: {}, {}\n", printable(stats.at("folder").get<std::string>()),
                                 counted(count_of(stats, "entries"), "entry", "entries"),
                                 format_bytes(static_cast<double>(count_of(stats, "bytes"))));
  for (const auto& [compiler, entries] : stats.at("compilers").items()) {
    text += fmt::format("  of NVRTC {}: {}\n", compiler, entries.get<std::uint64_t>());
  }
  if (count_of(stats, "entries") != 0) {
    text += fmt::format("  longest unused: {}\n", duration(count_of(stats, "oldest_use_seconds")));
  }
  text += fmt::format("  staging files: {}, lock files: {}\n", count_of(stats, "staging_files"),
                      count_of(stats, "lock_files"));
  return text + fmt::format("  free on the file system: {}\n",
                            format_bytes(static_cast<double>(count_of(stats, "free_bytes"))));
}

int show_stats(const CareOptions& options, const Engine& engine) {
  const Json stats = checked(Json::parse(engine.cache_stats()));
  if (options.json) {
    print_json(stats);
  } else {
    fmt::print("{}", stats_text(stats));
  }
  return kExitGood;
}

/// CLI11 reads "-1" as a large number. cubit_cache_prune() takes 0 for no limit, and a user of 0 means the opposite.
std::string reason_not_a_limit(std::string& text) {
  constexpr std::size_t kMostDigits = 18;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const bool is_zero = text.find_first_not_of('0') >= digits;
  if (digits > 0 && digits <= kMostDigits && !is_zero) return {};
  return text +
         " is no number of bytes to keep; accepted: whole numbers from 1 on, such as 500M or 2G; cubit cache clear "
         "deletes all entries";
}

int prune(const CareOptions& options, const Engine& engine) {
  const Json before = checked(Json::parse(engine.cache_stats()));
  if (!before.at("writable").get<bool>()) {
    throw BadInput(before.at("folder").get<std::string>(), before.at("trouble").get<std::string>(),
                   "give a folder that can be written with --cache-dir");
  }
  const Json stats = Json::parse(engine.cache_prune(options.max_bytes, options.max_days));
  if (options.json) {
    print_json(stats);
  } else {
    fmt::print("{} removed, {}\n{}", counted(count_of(stats, "removed"), "entry", "entries"),
               format_bytes(static_cast<double>(count_of(stats, "removed_bytes"))), stats_text(stats));
  }
  return kExitGood;
}

/// One finding of the doctor. `trouble` is "" if all is well.
struct Finding {
  std::string subject;
  std::string trouble;
  std::string done = {};  ///< what the doctor did
};

/// The stores of an engine that has the variables of the environment. An engine with public keys uses no folder.
std::vector<Finding> findings_about_stores(const Engine& server) {
  std::vector<Finding> findings;
  const char* keys = std::getenv("CUBIT_PUBLIC_KEYS");  // the variable that the library reads
  const bool has_keys = keys != nullptr && *keys != '\0';
  for (const Json& store : Json::parse(server.stores())) {
    const auto name = store.at("name").get<std::string>();
    if (!name.empty()) {
      findings.push_back({store.at("kind").get<std::string>() + " " + name, store.at("trouble").get<std::string>()});
    } else if (!has_keys) {
      findings.push_back({"folder", "no folder is named, so every process compiles its kernels again"});
    }
  }
  if (has_keys && findings.empty()) {
    findings.push_back({"bundles", "none is named, and with public keys only signed bundles are loaded"});
  }
  return findings;
}

/// The folder itself, which `reader` opens also if public keys are set. What dead processes left is deleted.
std::vector<Finding> findings_about_folder(const Engine& reader) {
  std::vector<Finding> findings;
  const Json before = Json::parse(reader.cache_stats());
  if (!before.at("readable").get<bool>()) return findings;
  std::uint64_t bad = 0;
  const Json list = Json::parse(reader.cache_list());
  for (const Json& entry : list.at("entries")) bad += !entry.at("damage").get<std::string>().empty();
  findings.push_back({"entries", bad == 0 ? ""
                                          : counted(bad, "entry is not usable", "entries are not usable") +
                                                "; see cubit cache list, and cubit cache verify"});
  if (!before.at("writable").get<bool>()) return findings;
  const Json stats = Json::parse(reader.cache_prune(0, 0));
  findings.push_back({"locks", stats.at("has_locks").get<bool>()
                                   ? ""
                                   : "a file cannot be locked, so several processes may compile one kernel: " +
                                         stats.at("lock_trouble").get<std::string>()});
  const auto unfinished = [](const Json& each) {
    return count_of(each, "staging_files") + count_of(each, "lock_files");
  };
  const std::uint64_t deleted = unfinished(before) - std::min(unfinished(stats), unfinished(before));
  findings.push_back(
      {"staging and lock files", "", deleted == 0 ? "" : fmt::format("{} of dead processes deleted", deleted)});
  constexpr std::uint64_t kLittle = std::uint64_t{64} << 20;
  findings.push_back(
      {"free space", count_of(stats, "free_bytes") >= kLittle
                         ? ""
                         : "only " + format_bytes(static_cast<double>(count_of(stats, "free_bytes"))) + " are left"});
  return findings;
}

int examine(const CareOptions& options, const Engine& reader, const Engine& server) {
  int exit_code = kExitGood;
  Json list = Json::array();
  std::vector<Finding> findings = findings_about_stores(server);
  for (Finding& finding : findings_about_folder(reader)) findings.push_back(std::move(finding));
  for (const Finding& finding : findings) {
    if (!finding.trouble.empty()) exit_code = kExitWorkFailed;
    list.push_back({{"subject", finding.subject}, {"trouble", finding.trouble}, {"done", finding.done}});
    if (options.json) continue;
    fmt::print("{}: {}{}{}\n", printable(finding.subject),
               finding.trouble.empty() ? "good" : printable(finding.trouble), finding.done.empty() ? "" : "; ",
               finding.done);
  }
  if (options.json) print_json(list);
  return exit_code;
}

}  // namespace

void add_cache_care(CLI::App& command, Context& context, const std::function<Engine()>& open) {
  using Action = std::function<int(const CareOptions&, const Engine&)>;
  const auto options = std::make_shared<CareOptions>();
  const auto add = [&](const char* name, const char* help, const Action& action) {
    CLI::App* subcommand = command.add_subcommand(name, help);
    subcommand->add_flag("--json", options->json, "Print JSON");
    subcommand->final_callback([=, &context] { context.action = [=] { return action(*options, open()); }; });
    return subcommand;
  };
  CLI::App* pruning =
      add("prune", "Deletes the least recently used entries beyond the limits, and what dead processes left.", &prune);
  pruning->add_option("--max-bytes", options->max_bytes, "Bytes to keep, such as 500M or 2G (default: all)")
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator(reason_not_a_limit, ""));  // the last one looks at the text first
  pruning->add_option("--max-days", options->max_days, "Days after its last use that an entry stays (default: all)")
      ->check(CLI::Range(1U, 36500U));
  add("stats", "Counts entries, bytes, compilers and files of unfinished work; reads no entry.", &show_stats);
  add("doctor",
      "Checks folders, bundles, trust, locks, entries and free space, and deletes what dead processes left; exit code "
      "1 "
      "if something is wrong.",
      [&context](const CareOptions& given, const Engine& reader) {
        return examine(given, reader, context.server(context.verbose ? context.console.log(true) : LogFunction{}));
      });
}

}  // namespace cubit::tools
