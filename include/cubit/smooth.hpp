// SmoothQuant: moves the range of outlier channels from a layer's input to its weights, without a change of the result.
//
// A norm writes its channel j divided by s_j, and every layer that reads the norm multiplies its weights of channel j
// by s_j. Here s_j = max|X_j|^alpha / max|W_j|^(1 - alpha), with the layers' inputs X and weights W. The factors are
// folded into the checkpoint, so inference costs nothing.
//
// Link libcubit_calibrate. Functions throw cubit::Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
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
  /// The mapping for config.json's "model_type". Throws cubit::Error that lists the known types.
  static Mapping of_model_type(std::string_view model_type);
  /// `text` is JSON; `label` names it in messages.
  static Mapping parse(std::string_view text, const std::string& label);

  bool norm_adds_one() const { return norm_adds_one_; }  ///< the norm multiplies by 1 + weight, as in Gemma
  bool input_first() const { return input_first_; }      ///< weights have the shape [in, out], as in GPT-2

  /// Finds the groups in a checkpoint. A layer with a weight of rank 2 that no group has is listed as not smoothed.
  /// Throws cubit::Error if a group lacks a layer, because a norm may change only together with all of its readers.
  SmoothPlan plan(std::span<const TensorName> tensors) const;

 private:
  bool norm_adds_one_ = false;
  bool input_first_ = false;
  std::vector<SmoothGroup> groups_;        ///< patterns
  std::vector<NotSmoothed> not_smoothed_;  ///< patterns
};

/// The factors of one group.
struct Smoothing {
  std::optional<double> alpha;  ///< none: every alpha has a larger output error than no smoothing
  std::vector<float> factors;   ///< s of each channel
  double error_before = 0;      ///< output error without smoothing: squared error / mean square of the outputs
  double error_half = 0;        ///< with alpha = 0.5
  double error = 0;             ///< with these factors
};

inline constexpr std::size_t kSmoothTokens = 128;  ///< tokens that are enough to compare output errors
inline constexpr std::size_t kSmoothRows = 512;    ///< output channels of each layer whose error is computed

/// Chooses the factors of one group. The output error is that of INT8 with a scale per output channel of the weights
/// and one static scale of the inputs, both by Method::minmax.
class CUBIT_CALIBRATE_API SmoothSearch {
 public:
  /// `inputs`: max |X_j| of each channel. `tokens`: a sample of the inputs, one row of channels after the other.
  SmoothSearch(std::vector<double> inputs, std::vector<float> tokens);
  SmoothSearch(SmoothSearch&&) noexcept;
  SmoothSearch& operator=(SmoothSearch&&) noexcept;
  ~SmoothSearch();

  /// Reads a layer's weights, of shape [out, in], or [in, out] with `input_first`. Keeps evenly spaced output channels.
  void add_layer(const Tensor& weight, bool input_first);

  std::span<const double> inputs() const;   ///< max |X_j|
  std::span<const double> weights() const;  ///< max |W_j| over all layers
  Smoothing with_alpha(double alpha) const;
  /// Tries alpha = 0, 0.1 … 1, then ever smaller steps around the best one. The error never exceeds that of 0.5.
  Smoothing search() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Evenly spaced tokens of a layer's input, at most `most`, one row of channels after the other. Empty if no file has
/// the layer.
CUBIT_CALIBRATE_API std::vector<float> sample_tokens(std::span<const std::string> files, const std::string& layer,
                                                     std::size_t most = kSmoothTokens);

/// A tensor's bytes that are changed in place. The types are F64, F32, F16 and BF16.
struct MutableTensor {
  std::string_view type;
  std::span<std::byte> data;
};

/// Divides a norm's weight and bias by the factors. Rounding to the tensor's type changes a quotient slightly, so
/// `factors` are replaced by those that the rounded weight has. A channel whose quotient the type cannot hold gets the
/// factor 1. `bias` may have no bytes.
CUBIT_CALIBRATE_API void fold_norm(MutableTensor weight, MutableTensor bias, bool norm_adds_one,
                                   std::span<float> factors);
/// Multiplies weights by the factors of their input channels. `weight` is a part of a tensor with `columns` columns
/// and begins at element `first`. Throws cubit::Error if the type cannot hold a product.
CUBIT_CALIBRATE_API void fold_weight(MutableTensor weight, std::uint64_t first, std::uint64_t columns, bool input_first,
                                     std::span<const float> factors);

}  // namespace cubit::calibrate
