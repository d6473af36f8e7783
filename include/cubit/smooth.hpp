// SmoothQuant: moves the range of outlier channels from a layer's input to its weights. The result changes by rounding
// only.
//
// A norm writes its channel j divided by s_j, and every layer that reads the norm multiplies its weights of channel j
// by s_j. Here s_j = max|X_j|^alpha / max|W_j|^(1 - alpha), with the layers' inputs X and weights W. A factor is
// limited to 1e-5 … 1e5, and is 1 if one of the two maxima is 0. The factors are folded into the checkpoint, so
// inference costs nothing.
//
// Link libcubit_calibrate. Functions throw cubit::Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::calibrate {

/// A norm and all layers that read its output.
struct SmoothGroup {
  std::string norm;
  std::vector<std::string> layers;
};

struct NotSmoothed {
  std::string layer;
  std::string reason;
};

struct SmoothPlan {
  std::vector<SmoothGroup> groups;
  std::vector<NotSmoothed> not_smoothed;
};

/// The name and the rank of a tensor of a checkpoint.
struct TensorName {
  std::string name;
  std::size_t rank = 0;
};

/// Which norms feed which layers in an architecture. docs/calibration.md describes the JSON text.
class CUBIT_CALIBRATE_API Mapping {
 public:
  /// The mapping for config.json's "model_type". For an unknown type, `find` gives nothing, and `of_model_type` throws
  /// cubit::Error that lists the known types.
  static std::optional<Mapping> find(std::string_view model_type);
  static Mapping of_model_type(std::string_view model_type);
  /// `text` is JSON; `label` names it in messages.
  static Mapping parse(std::string_view text, const std::string& label);

  bool norm_adds_one() const { return norm_adds_one_; }  ///< the norm multiplies by 1 + weight, as in Gemma
  bool input_first() const { return input_first_; }      ///< weights have the shape [in, out], as in GPT-2

  /// Whether the weight of this layer has the shape [in, out]. The layout is that of the mapping if the mapping names
  /// the layer and gives it no other layout: GPT-2's lm_head has the shape [out, in]. Unnamed layers have [out, in].
  bool stores_input_first(std::string_view layer) const;

  /// Finds the groups in a checkpoint. A layer that belongs to no group, with a weight of at least rank 2, is listed as
  /// not smoothed. Throws cubit::Error if the checkpoint lacks a layer of a group, because a norm may change only
  /// together with all layers that read the norm.
  SmoothPlan plan(std::span<const TensorName> tensors) const;

 private:
  bool norm_adds_one_ = false;
  bool input_first_ = false;
  std::vector<SmoothGroup> groups_;              ///< patterns
  std::vector<NotSmoothed> not_smoothed_;        ///< patterns
  std::vector<std::string> input_first_layers_;  ///< patterns
};

/// The factors of one group.
struct Smoothing {
  std::optional<double> alpha;  ///< none: no alpha that search() tried has a smaller output error than no smoothing
  std::vector<float> factors;   ///< s of each channel
  double error_before = 0;      ///< output error without smoothing: mean squared error / mean square of the outputs
  double error_half = 0;        ///< with alpha = 0.5
  double error = 0;             ///< with these factors
};

inline constexpr std::size_t kSmoothTokens = 128;  ///< tokens that are enough to compare output errors
inline constexpr std::size_t kSmoothRows = 512;    ///< most output channels of each layer that the search computes

/// Chooses the factors of one group by a sample of tokens and output channels. The output error is that of INT8 with a
/// scale per output channel of the weights and one static scale of the inputs, both by Method::minmax.
class CUBIT_CALIBRATE_API SmoothSearch {
 public:
  /// `inputs`: max |X_j| of each channel over all calibration data. `tokens`: a sample of the inputs, one row of
  /// channels after the other.
  SmoothSearch(std::vector<double> inputs, std::vector<float> tokens);
  SmoothSearch(SmoothSearch&&) noexcept;
  SmoothSearch& operator=(SmoothSearch&&) noexcept;
  ~SmoothSearch();

  /// Reads a layer's weights, of shape [out, in], or [in, out] with `input_first`. Keeps at most kSmoothRows output
  /// channels, which a fixed pseudo-random sequence chooses.
  void add_layer(const Tensor& weight, bool input_first);

  std::span<const double> inputs() const;   ///< max |X_j|
  std::span<const double> weights() const;  ///< max |W_j| of each input channel j over all layers
  std::vector<float> factors(double alpha) const;
  Smoothing with_alpha(double alpha) const;
  /// Tries alpha = 0, 0.1 … 1, then ever smaller steps around the best alpha. The error on the sample never exceeds
  /// that of alpha = 0.5 or that of no smoothing. OutputErrors compares the result with both on everything.
  Smoothing search() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// At most `most` tokens of a layer's input, evenly spaced within each activation file, one row of channels after the
/// other. Empty if no file has the layer.
CUBIT_CALIBRATE_API std::vector<float> sample_tokens(std::span<const std::string> files, const std::string& layer,
                                                     std::size_t most = kSmoothTokens);

/// The output errors of one group for several choices of factors, on all recorded tokens and all output channels. INT8
/// has the scales of SmoothSearch. The work is (1 + choices) · tokens · weights multiplications. Memory holds at most
/// 256 tokens and a few rows of a weight as floats.
class CUBIT_CALIBRATE_API OutputErrors {
 public:
  /// `inputs`: max |X_j| over the files. Each choice has a factor per channel.
  OutputErrors(std::vector<double> inputs, std::vector<std::vector<float>> choices);

  /// Adds a layer's outputs for the inputs that the files have under the name `recorded`. `show` is called with the
  /// number of files that have been read.
  void add_layer(const Tensor& weight, bool input_first, std::span<const std::string> files,
                 const std::string& recorded, const std::function<void(std::size_t)>& show = {});
  /// Of each choice: squared differences / squared outputs, both summed over all layers.
  std::vector<double> errors() const;

 private:
  std::vector<double> inputs_;
  std::vector<std::vector<float>> choices_;
  std::vector<double> differences_;  ///< sum of squares, of each choice
  double outputs_ = 0;               ///< sum of squares
};

/// A tensor's bytes that are changed in place. The types are F64, F32, F16 and BF16.
struct MutableTensor {
  std::string_view type;
  std::span<std::byte> data;
};

/// Divides a norm's weight and bias by the factors. Rounding to the tensor's type changes a quotient slightly, so the
/// factor of a nonzero weight is replaced by the old weight divided by the rounded new weight. With `norm_adds_one` the
/// number 1 + weight is divided instead of the weight. A channel keeps its weight and gets the factor 1 if the quotient
/// is not finite in the type, or if rounding changes the factor by a ratio of 1.5 or more. `bias` may have no bytes.
/// Throws cubit::Error if the sizes do not fit `factors`, or if the bias's type cannot hold a quotient.
CUBIT_CALIBRATE_API void fold_norm(MutableTensor weight, MutableTensor bias, bool norm_adds_one,
                                   std::span<float> factors);
/// Multiplies weights by the factors of their input channels. `weight` is a contiguous part of a tensor whose stored
/// rows have `columns` elements; the part begins at the tensor's element `first`. Throws cubit::Error if the sizes do
/// not fit `factors`, or if the type cannot hold a product.
CUBIT_CALIBRATE_API void fold_weight(MutableTensor weight, std::uint64_t first, std::uint64_t columns, bool input_first,
                                     std::span<const float> factors);

}  // namespace cubit::calibrate
