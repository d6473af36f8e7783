// cubit operators: lists the operators with their fields, tensors and sizes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "files/text/quote.hpp"
#include "tools/kernels/catalogue.hpp"
#include "tools/options/context.hpp"

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

/// Text for a cell of a Markdown table.
std::string markdown_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string code(const nlohmann::json& text) { return fmt::format("`{}`", markdown_cell(text.get<std::string>())); }

/// The condition of a shape or an argument, as the argument table writes it: "kv=int8_split|fp8_e4m3".
std::string condition(const nlohmann::json& when) {
  return when.get<std::string>().empty() ? "" : " with " + code(when);
}

std::string shapes_cell(const nlohmann::json& argument) {
  std::string text;
  for (const auto& rule : argument.at("shapes"))
    text += fmt::format("{}{}{}", text.empty() ? "" : "<br>", markdown_cell(rule.at("shape").get<std::string>()),
                        condition(rule.at("when")));
  return text;
}

std::string needed_cell(const nlohmann::json& argument) {
  const std::string when = condition(argument.at("when"));
  if (!argument.at("optional").get<bool>()) return when.empty() ? "always" : when.substr(1);
  return fmt::format("optional{}; default: {}", when, markdown_cell(argument.at("default").get<std::string>()));
}

/// Tables of the fields and of the arguments, for the operator's page in docs/.
void print_markdown(const nlohmann::json& entry) {
  fmt::print("| field | default | accepts | meaning |\n|---|---|---|---|\n");
  for (const auto& field : entry.at("fields")) {
    fmt::print("| {} | {} | {} | {} |\n", code(field.at("name")), markdown_cell(field.at("default")),
               markdown_cell(field.at("accepts")), markdown_cell(field.at("meaning")));
  }
  fmt::print("\n| argument | kind | type | shape | given | member | meaning |\n|---|---|---|---|---|---|---|\n");
  for (const auto& argument : entry.at("arguments")) {
    fmt::print("| {} | {} | {} | {} | {} | {} | {} |\n", code(argument.at("name")),
               argument.at("kind").get<std::string>(), markdown_cell(argument.at("types")), shapes_cell(argument),
               needed_cell(argument), code(argument.at("member")), markdown_cell(argument.at("meaning")));
  }
}

enum class Form { text, json, markdown };

int list_operators(const std::optional<std::string>& name, Form form) {
  nlohmann::ordered_json selected = nlohmann::ordered_json::array();
  for (const auto& entry : operator_catalogue()) {
    if (!name || entry.at("name") == *name) selected.push_back(entry);
  }
  if (selected.empty()) throw BadInput(quote(*name), "is not an operator", "cubit operators lists them");
  if (form == Form::json) {
    print_json(selected);
    return kExitGood;
  }
  for (const auto& entry : selected) form == Form::markdown ? print_markdown(entry) : print_operator(entry);
  return kExitGood;
}

}  // namespace

void add_operators(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("operators", "Lists operators: their fields, tensors and sizes.");
  auto name = std::make_shared<std::optional<std::string>>();
  auto json = std::make_shared<bool>(false);
  auto markdown = std::make_shared<bool>(false);
  command->add_option("OPERATOR", *name, "Only this one");
  CLI::Option* const as_json = command->add_flag("--json", *json, "Print JSON");
  command->add_flag("--markdown", *markdown, "Print Markdown tables of fields and arguments")->excludes(as_json);
  command->footer(kExamples);
  command->final_callback([name, json, markdown, &context] {
    context.action = [name, json, markdown] {
      return list_operators(*name, *json ? Form::json : *markdown ? Form::markdown : Form::text);
    };
  });
}

}  // namespace cubit::tools
