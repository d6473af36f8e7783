// cubit bundle: makes, lists, checks, merges, splits and compares bundles, files with many compiled kernels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "files/output_file.hpp"
#include "files/output_folder.hpp"
#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "files/text/quote.hpp"
#include "tools/bundle/bundle_file.hpp"
#include "tools/options/context.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kBundleExamples = R"(
Examples:
  cubit compile --file kernels.txt --arch sm_80,sm_90a --bundle ship.cubit
      compiles every kernel of a list and writes one file (see cubit compile --help)
  cubit bundle create --output ship.cubit --cache-dir ship/
      the kernels that a cache folder holds, but for entries that an engine would not use
  cubit bundle list ship.cubit
  cubit bundle merge shard1.cubit shard2.cubit --output ship.cubit
  cubit bundle split ship.cubit --arch sm_90a --output h100.cubit
  cubit bundle diff old.cubit new.cubit
  cubit bundle keygen --output release
      a pair of keys: release.secret, which signs, and release.public, which engines take
  cubit bundle sign ship.cubit --key release.secret

Exit code: 0 success; 1 verify found damage or no signature of the given key, diff found a difference, or create left out an entry; 2 bad input.)";

struct BundleOptions {
  std::vector<std::string> files;
  std::optional<std::string> architectures;
  std::optional<std::string> key;
  std::optional<std::string> signer;
  std::string output;
  bool json = false;
};

std::vector<std::string> wanted_architectures(const BundleOptions& options) {
  return options.architectures ? parse_architectures(*options.architectures) : std::vector<std::string>{};
}

std::string entries_text(std::uint64_t count) { return fmt::format("{} {}", count, count == 1 ? "entry" : "entries"); }

/// Writes the bundle and reports its size and root.
void write_bundle(const BundleBuilder& builder, const BundleOptions& options) {
  builder.write(options.output);
  const BundleFile written(options.output);
  if (options.json) {
    print_json({{"bundle", options.output},
                {"entries", written.entries()},
                {"bytes", written.bytes()},
                {"root", written.root()}});
  } else {
    fmt::print("{}: {}, {}, root {}\n", printable(options.output), entries_text(written.entries()),
               format_bytes(static_cast<double>(written.bytes())), written.root());
  }
}

int create_bundle(const BundleOptions& options, Context& context) {
  const auto folder = nlohmann::json::parse(context.cache_reader().cache_list()).at("folder").get<std::string>();
  if (folder.empty()) throw BadInput("no cache folder", "there is nothing to store", "give one with --cache-dir");
  BundleBuilder builder;
  const std::vector<std::string> faults = builder.add_folder(folder, wanted_architectures(options));
  if (builder.entries() == 0) throw BadInput(folder, "holds no such kernel", "compile kernels into it (cubit compile)");
  write_bundle(builder, options);
  for (const std::string& fault : faults) context.console.say(fault);
  return faults.empty() ? kExitGood : kExitWorkFailed;
}

int list_bundle(const BundleOptions& options, Context&) {
  const BundleFile file(options.files.at(0));
  std::vector<std::vector<std::string>> table;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const BundleRow& row : file.rows()) {
    json.push_back(row.json());
    const auto report = [&](int number) { return row.code == "ptx" ? "" : fmt::format("{}", number); };
    table.push_back({row.key.substr(0, 16), shortened(row.descriptor), row.architecture, row.code, row.compiler,
                     row.library, report(row.registers), report(row.spill_store_bytes + row.spill_load_bytes),
                     fmt::format("{}", row.bytes), fmt::format("{}", row.code_bytes)});
  }
  if (options.json) {
    print_json(json);
    return kExitGood;
  }
  fmt::print("{}", format_table({{"key"},
                                 {"descriptor"},
                                 {"arch"},
                                 {"code"},
                                 {"compiler"},
                                 {"cubit"},
                                 {"registers", true},
                                 {"spill bytes", true},
                                 {"bytes", true},
                                 {"code bytes", true}},
                                table));
  return kExitGood;
}

/// How many entries have each value of a fact.
template <class Fact>
nlohmann::ordered_json counts(const std::vector<BundleRow>& rows, Fact fact) {
  std::map<std::string, int> numbers;
  for (const BundleRow& row : rows) ++numbers[fact(row)];
  return numbers;
}

nlohmann::ordered_json summary(const BundleFile& file) {
  const std::vector<BundleRow> rows = file.rows();
  std::uint64_t code_bytes = 0;
  for (const BundleRow& row : rows) code_bytes += row.code_bytes;
  return {{"bundle", file.path()},
          {"root", file.root()},
          {"signer", file.signer()},
          {"bytes", file.bytes()},
          {"code_bytes", code_bytes},
          {"entries", file.entries()},
          {"architectures", counts(rows, [](const BundleRow& row) { return row.architecture; })},
          {"code", counts(rows, [](const BundleRow& row) { return row.code; })},
          {"compilers", counts(rows, [](const BundleRow& row) { return row.compiler; })},
          {"libraries", counts(rows, [](const BundleRow& row) { return row.library; })}};
}

/// The entries whose key begins with `prefix`.
nlohmann::ordered_json entries_of(const BundleFile& file, const std::string& prefix) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const BundleRow& row : file.rows()) {
    if (row.key.starts_with(prefix)) json.push_back(row.json());
  }
  if (json.empty()) throw BadInput("--key " + quote(prefix), "no entry has such a key", "see cubit bundle list");
  return json;
}

void print_facts(const nlohmann::ordered_json& facts) {
  for (const auto& [name, value] : facts.items()) {
    fmt::print("{:<22}{}\n", name, printable(value.is_string() ? value.get<std::string>() : value.dump()));
  }
}

int show_bundle(const BundleOptions& options, Context&) {
  const BundleFile file(options.files.at(0));
  const nlohmann::ordered_json json = options.key ? entries_of(file, *options.key) : summary(file);
  if (options.json) {
    print_json(json);
  } else if (json.is_array()) {
    for (const auto& entry : json) print_facts(entry);
  } else {
    print_facts(json);
  }
  return kExitGood;
}

int verify_bundle(const BundleOptions& options, Context&) {
  const std::string& path = options.files.at(0);
  const std::string signer = options.signer ? checked_public_key(*options.signer) : "";
  std::string damage = bundle_damage(path);
  if (damage.empty() && !signer.empty() && BundleFile(path).signer() != signer)
    damage = "the given key did not sign it";
  if (options.json) {
    print_json({{"bundle", path}, {"damage", damage}});
  } else if (damage.empty()) {
    const BundleFile file(path);
    fmt::print("{}: all {} are good, root {}\n", printable(path), entries_text(file.entries()), file.root());
  } else {
    fmt::print("{}: not good: {}\n", printable(path), printable(damage));
  }
  return damage.empty() ? kExitGood : kExitWorkFailed;
}

int make_keys(const BundleOptions& options, Context&) {
  const std::string signer = make_key_files(options.output);
  const std::string name = printable(options.output);
  fmt::print("{}.secret signs bundles; keep it secret\n{}.public has the public key {}\n", name, name, signer);
  return kExitGood;
}

int sign_file(const BundleOptions& options, Context&) {
  const std::string& path = options.files.at(0);
  sign_bundle(path, *options.key);
  const BundleFile file(path);
  fmt::print("{}: signed by {}, root {}\n", printable(path), file.signer(), file.root());
  return kExitGood;
}

int merge_bundles(const BundleOptions& options, Context&) {
  BundleBuilder builder;
  for (const std::string& path : options.files) {
    require_another_file("--output", options.output, path);
    const BundleFile file(path);
    for (const BundleRow& row : file.rows()) builder.add(file, row);
  }
  write_bundle(builder, options);
  return kExitGood;
}

/// The entries of the architectures that --arch names. Throws BadInput for an architecture without an entry.
std::vector<BundleRow> rows_of(const BundleFile& file, const BundleOptions& options) {
  std::vector<BundleRow> rows = file.rows();
  if (!options.architectures) return rows;
  const std::vector<std::string> names = wanted_architectures(options);
  std::set<std::string> seen;
  std::erase_if(rows, [&](const BundleRow& row) {
    seen.insert(row.architecture);
    return std::ranges::find(names, row.architecture) == names.end();
  });
  for (const std::string& name : names) {
    if (!seen.contains(name))
      throw BadInput("--arch " + name, "the bundle has no entry for it", "see cubit bundle show");
  }
  return rows;
}

int split_bundle(const BundleOptions& options, Context&) {
  const BundleFile file(options.files.at(0));
  require_another_file("--output", options.output, file.path());
  BundleBuilder builder;
  for (const BundleRow& row : rows_of(file, options)) builder.add(file, row);
  write_bundle(builder, options);
  return kExitGood;
}

/// True for a name of letters, digits, '_', '.' and '-' that begins with a letter or a digit.
bool is_plain_name(std::string_view name) {
  constexpr std::string_view kAlphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  const auto is_alphanumeric = [&](char c) { return kAlphanumeric.find(c) != std::string_view::npos; };
  return !name.empty() && is_alphanumeric(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_alphanumeric(c) || c == '_' || c == '.' || c == '-'; });
}

/// The file name of an entry. A hostile bundle may hold any descriptor, and its text must not choose the file.
std::string extracted_name(const BundleRow& row) {
  std::string name = fmt::format("{}-{}-{:.16}-nvrtc{}.{}", row.descriptor.substr(0, row.descriptor.find(':')),
                                 row.architecture, row.key, row.compiler, row.code);
  if (is_plain_name(name)) return name;
  throw BadInput(name,
                 "is the name of an entry, but a file name here has only letters, digits, '_', '.' and '-', and begins "
                 "with a letter or a digit",
                 "create the bundle again");
}

int extract_bundle(const BundleOptions& options, Context&) {
  const BundleFile file(options.files.at(0));
  const std::vector<BundleRow> rows = rows_of(file, options);
  std::vector<std::string> names;
  for (const BundleRow& row : rows) names.push_back(extracted_name(row));
  make_folder(options.output, "--output");
  for (std::size_t i = 0; i < rows.size(); ++i) write_file(options.output, names[i], file.code(rows[i]));
  if (options.json) {
    print_json({{"folder", options.output}, {"files", rows.size()}});
  } else {
    fmt::print("{}: {} written\n", printable(options.output), entries_text(rows.size()));
  }
  return kExitGood;
}

using RowsByKey = std::map<std::tuple<std::string, std::string>, BundleRow>;

RowsByKey by_key(const BundleFile& file) {
  RowsByKey rows;
  for (BundleRow& row : file.rows()) rows.emplace(std::tuple(row.key, row.compiler), std::move(row));
  return rows;
}

/// Says how an entry of both bundles differs, or returns "". The compressed size may differ between versions of zstd.
std::string difference(const BundleRow& first, const BundleRow& second) {
  if (first.hash != second.hash) return "other code";
  auto before = first.json();
  auto after = second.json();
  before.erase("bytes");
  after.erase("bytes");
  return before == after ? "" : "other facts";
}

int diff_bundles(const BundleOptions& options, Context&) {
  const RowsByKey first = by_key(BundleFile(options.files.at(0)));
  const RowsByKey second = by_key(BundleFile(options.files.at(1)));
  std::vector<std::vector<std::string>> table;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  const auto report = [&](const BundleRow& row, const std::string& what) {
    json.push_back({{"key", row.key},
                    {"descriptor", row.descriptor},
                    {"architecture", row.architecture},
                    {"compiler", row.compiler},
                    {"difference", what}});
    table.push_back({what, row.key.substr(0, 16), shortened(row.descriptor), row.architecture, row.compiler});
  };
  for (const auto& [key, row] : first) {
    const auto other = second.find(key);
    const std::string what = other == second.end() ? "only in the first" : difference(row, other->second);
    if (!what.empty()) report(row, what);
  }
  for (const auto& [key, row] : second) {
    if (!first.contains(key)) report(row, "only in the second");
  }
  if (options.json) {
    print_json(json);
  } else if (json.empty()) {
    fmt::print("the same {}\n", entries_text(first.size()));
  } else {
    fmt::print("{}", format_table({{"difference"}, {"key"}, {"descriptor"}, {"arch"}, {"compiler"}}, table));
  }
  return json.empty() ? kExitGood : kExitWorkFailed;
}

using BundleAction = int (*)(const BundleOptions&, Context&);

/// Adds a subcommand that takes `files` bundles; -1 stands for one or more.
CLI::App* add_verb(CLI::App& command, Context& context, std::shared_ptr<BundleOptions>& options, const char* name,
                   const char* help, int files, BundleAction action) {
  CLI::App* verb = command.add_subcommand(name, help);
  options = std::make_shared<BundleOptions>();
  if (files != 0) verb->add_option("BUNDLE", options->files, "A file that cubit made")->required()->expected(files);
  if (action != &make_keys && action != &sign_file) verb->add_flag("--json", options->json, "Print JSON");
  verb->final_callback([options, action, &context] {
    context.action = [options, action, &context] { return action(*options, context); };
  });
  return verb;
}

void add_output(CLI::App* verb, BundleOptions& options, const char* help) {
  verb->add_option("--output", options.output, help)->required();
}

CLI::Option* add_arch(CLI::App* verb, BundleOptions& options) {
  return verb->add_option("--arch", options.architectures, "Only these architectures, separated by commas");
}

}  // namespace

void add_bundle(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("bundle", "Makes, checks and compares bundles: files with many kernels.");
  command->require_subcommand(1);
  command->footer(kBundleExamples);
  std::shared_ptr<BundleOptions> options;
  const auto add = [&](const char* name, const char* help, int files, BundleAction action) {
    return add_verb(*command, context, options, name, help, files, action);
  };
  CLI::App* create = add("create", "Writes the kernels of the cache folder to a bundle.", 0, &create_bundle);
  add_output(create, *options, "The bundle to write");
  add_arch(create, *options);
  add("list", "Lists every entry.", 1, &list_bundle);
  CLI::App* show = add("show", "Prints the size, root and contents of a bundle.", 1, &show_bundle);
  show->add_option("--key", options->key, "Print the entries whose key begins with these digits instead");
  CLI::App* verify = add("verify", "Checks every byte; exit code 1 if one is damaged.", 1, &verify_bundle);
  verify->add_option("--signer", options->signer, "Also require a signature by this public key of 64 digits");
  CLI::App* keygen = add("keygen", "Makes a pair of keys to sign bundles with.", 0, &make_keys);
  add_output(keygen, *options, "NAME of the new files NAME.secret and NAME.public");
  CLI::App* signing = add("sign", "Signs a bundle with a secret key. The file is replaced.", 1, &sign_file);
  signing->add_option("--key", options->key, "The file with the secret key")->required();
  CLI::App* merge = add("merge", "Writes the entries of all given bundles to one bundle.", -1, &merge_bundles);
  add_output(merge, *options, "The bundle to write");
  CLI::App* split = add("split", "Writes the entries of some architectures to a bundle.", 1, &split_bundle);
  add_output(split, *options, "The bundle to write");
  add_arch(split, *options)->required();
  CLI::App* extract = add("extract", "Writes the cubins and PTX texts to a folder.", 1, &extract_bundle);
  add_output(extract, *options, "The folder to write");
  add_arch(extract, *options);
  add("diff", "Compares the entries of two bundles; exit code 1 if they differ.", 2, &diff_bundles);
}

}  // namespace cubit::tools
