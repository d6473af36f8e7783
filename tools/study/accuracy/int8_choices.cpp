#include "tools/study/accuracy/int8_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cubit/cubit.hpp>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/options/arguments.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kStatic = "static";

/// The parts of a list, each once and among `accepted`.
std::vector<std::string> parts_of(const std::string& text, const std::string& option,
                                  const std::vector<std::string>& accepted) {
  std::vector<std::string> parts = split_list(text, option);
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    if (std::find(accepted.begin(), accepted.end(), *part) == accepted.end()) {
      std::string all;
      for (const std::string& one : accepted) all += (all.empty() ? "" : ", ") + one;
      throw BadInput(fmt::format("{} {}", option, quote(*part)), "is not known", "accepted: " + all);
    }
    if (std::find(parts.begin(), part, *part) != part)
      throw BadInput(fmt::format("{} {}", option, quote(*part)), "is given twice", "give each word once");
  }
  return parts;
}

std::vector<std::optional<double>> parse_alphas(const std::string& text) {
  std::vector<std::optional<double>> alphas = {std::nullopt};
  if (text == "none") return alphas;
  for (const std::string& part : split_list(text, "--alphas")) {
    double alpha = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), alpha);
    if (error != std::errc() || end != part.data() + part.size() || !(alpha >= 0 && alpha <= 1))
      throw BadInput("--alphas " + quote(part), "is not a share", "accepted: numbers from 0 to 1, or none");
    if (std::find(alphas.begin(), alphas.end(), alpha) != alphas.end())
      throw BadInput("--alphas " + quote(part), "is given twice", "give each number once");
    alphas.emplace_back(alpha);
  }
  return alphas;
}

}  // namespace

Int8Choices parse_choices(const Int8ChoiceTexts& texts) {
  Int8Choices choices;
  const auto methods = parts_of(texts.methods, "--methods", {"minmax", "percentile", "entropy", "mse"});
  for (const std::string& input : parts_of(texts.inputs, "--inputs", {kStatic, "dynamic_tensor", "dynamic_token"})) {
    if (input != kStatic) {
      choices.inputs.push_back({input == "dynamic_token" ? InputScale::dynamic_token : InputScale::dynamic_tensor});
      continue;
    }
    for (const std::string& method : methods)
      choices.inputs.push_back({InputScale::static_tensor, calibrate::parse_method(method)});
  }
  for (const std::string& weights : parts_of(texts.weights, "--weights", {"tensor", "channel"}))
    choices.per_channel.push_back(weights == "channel");
  choices.alphas = parse_alphas(texts.alphas);
  return choices;
}

std::string text_of(const InputChoice& choice) {
  if (choice.scale == InputScale::dynamic_tensor) return "dynamic tensor";
  if (choice.scale == InputScale::dynamic_token) return "dynamic token";
  return fmt::format("static {}", calibrate::text_of(choice.method));
}

nlohmann::ordered_json choice_json(const InputChoice& input, bool per_channel, std::optional<double> alpha) {
  nlohmann::ordered_json json = {
      {"activations", text_of(input)}, {"weights", per_channel ? "channel" : "tensor"}, {"alpha", nullptr}};
  if (alpha) json["alpha"] = *alpha;
  return json;
}

}  // namespace cubit::tools
