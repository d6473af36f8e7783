// The choices that the study of INT8 accuracy compares, and the text of its options.
#pragma once

#include <cubit/calibrate.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace cubit::tools {

/// What decides the scale of a layer's input.
enum class InputScale {
  static_tensor,   ///< one scale, chosen from calibration data
  dynamic_tensor,  ///< one scale, of the largest magnitude of the input itself
  dynamic_token,   ///< a scale per token, of the token's largest magnitude
};

struct InputChoice {
  InputScale scale = InputScale::static_tensor;
  calibrate::Method method = calibrate::Method::minmax;  ///< of static_tensor only
};

/// All choices of a study: every combination is measured.
struct Int8Choices {
  std::vector<InputChoice> inputs;
  std::vector<bool> per_channel;              ///< of the weights' scales
  std::vector<std::optional<double>> alphas;  ///< of SmoothQuant; none: without SmoothQuant, always first
};

/// Lists as the command line gives them: "static,dynamic_tensor,dynamic_token", "minmax,mse", "tensor,channel",
/// "0,0.5,1" or "none" for no alphas. Throw BadInput.
struct Int8ChoiceTexts {
  std::string inputs = "static,dynamic_tensor,dynamic_token";
  std::string methods = "minmax,percentile,entropy,mse";
  std::string weights = "tensor,channel";
  std::string alphas = "0,0.25,0.5,0.75,1";
};
Int8Choices parse_choices(const Int8ChoiceTexts& texts);

/// "static mse", "dynamic tensor", "dynamic token".
std::string text_of(const InputChoice& choice);

/// The members of an entry that name its choice: "activations", "weights" and "alpha".
nlohmann::ordered_json choice_json(const InputChoice& input, bool per_channel, std::optional<double> alpha);

}  // namespace cubit::tools
