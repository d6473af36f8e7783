// Quantises the linear layers of a checkpoint to 8 bits, as compressed-tensors stores them: `int-quantized` and
// `float-quantized`. Only the weights of one layer are in memory at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/output_file.hpp"
#include "tools/checkpoint/reader.hpp"
#include "tools/new_checkpoint/whole_folder.hpp"

namespace cubit::tools {

struct QuantisationRequest {
  calibrate::Format format = calibrate::Format::int8;
  bool per_channel = true;
  std::vector<std::string> ignored;  ///< patterns of layers with * and ?
  std::string scales;                ///< a file of LAYER.input_scale; empty: activations are quantised per token
  std::string mapping;  ///< a JSON file with the layout of the layers; empty: the layout of config.json's architecture
};

/// A quantised layer.
struct QuantisedLayerReport {
  std::string layer;
  std::vector<std::int64_t> shape;   ///< [n, k]
  float least_scale = 0;             ///< of the weights
  float largest_scale = 0;           ///< of the weights
  double error = 0;                  ///< as QuantisedWeights::error
  std::optional<float> input_scale;  ///< given for the activations
};

/// A layer with a weight of two dimensions that stays as it is.
struct KeptLayer {
  std::string layer;
  std::string reason;
};

class CheckpointQuantiser {
 public:
  /// Plans every file before anything is written. Throws BadInput or Error.
  CheckpointQuantiser(const std::string& path, QuantisationRequest request);

  /// Everything that decides the result, for WholeFolder: options, and names, sizes and times of files.
  std::string request_text() const;
  /// Writes all files that the folder does not have yet, then the texts and config.json. `show` is called with the
  /// bytes that have been read, all bytes, and the tensor's name. Throws BadInput, Error or WorkFailed.
  using Show = std::function<void(std::uint64_t, std::uint64_t, const std::string&)>;
  void write(WholeFolder& folder, const Show& show);

  const std::vector<QuantisedLayerReport>& layers() const { return reports_; }
  const std::vector<KeptLayer>& kept() const { return kept_; }

 private:
  struct Layer {
    std::string name;
    std::optional<float> input_scale;
    bool input_first = false;           ///< the checkpoint stores the weight as [k, n]
    std::vector<std::int64_t> shape{};  ///< [n, k]
  };

  void plan();
  void read_scales();
  float scale_of_inputs(const std::string& layer) const;
  void require_new(const std::string& tensor) const;
  void require_bias(const HeaderEntry& bias) const;
  std::optional<std::string> reason_to_keep(const HeaderEntry& weight, const Layer& layer) const;
  std::vector<HeaderEntry> entries_of(const SafetensorsReader& file) const;
  void write_file(const SafetensorsReader& file, const std::string& path, const Show& show);
  void write_layer(const HeaderEntry& weight, const Layer& layer, OutputFile& output);
  void copy(const HeaderEntry& tensor, OutputFile& output) const;
  void write_config(const WholeFolder& folder) const;
  nlohmann::ordered_json quantisation_config() const;

  CheckpointReader checkpoint_;
  QuantisationRequest request_;
  std::map<std::string, float> input_scales_;  ///< of the scales' file, by layer
  std::map<std::string, Layer> layers_;        ///< by the name of the weight
  std::vector<KeptLayer> kept_;
  std::vector<QuantisedLayerReport> reports_;
  std::uint64_t bytes_ = 0;
  std::uint64_t read_ = 0;
};

/// One row per layer, then the layers that are kept, then a line with the sum.
std::string quantisation_table(const CheckpointQuantiser& quantiser);
nlohmann::ordered_json quantisation_json(const CheckpointQuantiser& quantiser);
nlohmann::ordered_json quantisation_json(const QuantisedLayerReport& report);

}  // namespace cubit::tools
