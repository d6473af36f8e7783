// cubit operators: lists the operators with their fields, tensors and sizes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "tools/kernels/catalogue.hpp"
#include "tools/options/context.hpp"
#include "tools/text/error.hpp"
#include "tools/text/format.hpp"
#include "tools/text/quote.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kExamples = R"(
Examples:
  cubit operators
  cubit operators gqa_decode
  cubit operators --json)";

std::string indented(const std::string& text) {
  std::string result = "  ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  result.erase(result.find_last_not_of(" \n") + 1);
  return result;
}

void print_operator(const nlohmann::json& entry) {
  const auto text = [&](const char* name) { return entry.at(name).get<std::string>(); };
  std::vector<std::vector<std::string>> rows;
  for (const auto& field : entry.at("fields")) {
    rows.push_back({field.at("name"), field.at("default"), field.at("accepts"), field.at("meaning")});
  }
  fmt::print("{}: {}\n\n", text("name"), text("summary"));
  fmt::print("{}\n\n", indented(format_table({{"field"}, {"default"}, {"accepts"}, {"meaning"}}, rows)));
  fmt::print("  Tensors:\n{}\n\n  --random:\n{}\n\n", indented(text("tensors")),
             indented(text("random") + ", seed (default 1)"));
  if (!text("suggest").empty()) fmt::print("  cubit suggest chooses:\n{}\n\n", indented(text("suggest")));
}

int list_operators(const std::optional<std::string>& name, bool json) {
  nlohmann::ordered_json selected = nlohmann::ordered_json::array();
  for (const auto& entry : operator_catalogue()) {
    if (!name || entry.at("name") == *name) selected.push_back(entry);
  }
  if (selected.empty()) throw BadInput(quote(*name), "is not an operator", "cubit operators lists them");
  if (json) {
    print_json(selected);
  } else {
    for (const auto& entry : selected) print_operator(entry);
  }
  return kExitGood;
}

}  // namespace

void add_operators(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("operators", "Lists operators: their fields, tensors and sizes.");
  auto name = std::make_shared<std::optional<std::string>>();
  auto json = std::make_shared<bool>(false);
  command->add_option("OPERATOR", *name, "Only this one");
  command->add_flag("--json", *json, "Print JSON");
  command->footer(kExamples);
  command->final_callback(
      [name, json, &context] { context.action = [name, json] { return list_operators(*name, *json); }; });
}

}  // namespace cubit::tools
