// Folds the factors of SmoothQuant into a checkpoint. Only the weights of one group of layers are in memory at a time.
//
// Collecting ranges and searching alpha take long for a large model, so both leave notes in the temporary folder. After
// an interruption, the same request reads the notes and continues with the groups and files that are missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cubit/smooth.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/output_file.hpp"
#include "tools/calibrate/smooth_report.hpp"
#include "tools/checkpoint/reader.hpp"
#include "tools/new_checkpoint/whole_folder.hpp"
#include "tools/text/console.hpp"

namespace cubit::tools {

struct SmoothingRequest {
  std::string checkpoint;
  std::string activations;
  std::optional<double> alpha;  ///< none: alpha is searched for each group
  std::string mapping;          ///< a JSON file; empty: the built-in mapping of the architecture
  std::string architecture;     ///< empty: the model_type of config.json
};

class Smoother {
 public:
  /// Plans the groups before anything is computed. Throws BadInput or Error.
  Smoother(SmoothingRequest request, Console& console);

  /// Everything that decides the result, for WholeFolder: alpha, the mapping, and names, sizes and times of files.
  std::string request_text() const;
  /// Chooses the factors of all groups that the folder has no notes of. Throws BadInput, Error or WorkFailed.
  void choose(const WholeFolder& folder);
  /// Writes all files that the folder does not have yet, then the texts. Throws BadInput, Error or WorkFailed.
  void write(const WholeFolder& folder);

  const SmoothReport& report() const { return report_; }

 private:
  struct LayerFactors {
    std::shared_ptr<const std::vector<float>> factors;
    std::string layer;
  };

  calibrate::Collector collected(const WholeFolder& folder);
  SmoothedGroup chosen(const calibrate::SmoothGroup& group, const calibrate::NamedStatistics& inputs) const;
  void compare_with_one_half(const calibrate::SmoothGroup& group, const std::string& recorded,
                             const calibrate::SmoothSearch& search, calibrate::Smoothing& made) const;
  struct FoldedNorm {
    std::vector<std::byte> weight;
    std::vector<std::byte> bias;
  };
  FoldedNorm folded(const std::string& norm, std::vector<float>& factors) const;
  void fold_group(SmoothedGroup& one);
  std::vector<std::byte> bytes_of_tensor(const HeaderEntry& tensor) const;
  void write_file(const SafetensorsReader& file, const std::string& path);
  void write_tensor(const HeaderEntry& tensor, OutputFile& output);

  SmoothingRequest request_;
  Console& console_;
  CheckpointReader checkpoint_;
  std::string mapping_text_;  ///< the mapping's file, or the model type
  calibrate::Mapping mapping_;
  std::vector<std::string> activations_;  ///< the files
  std::map<std::string, const HeaderEntry*> tensors_;
  calibrate::SmoothPlan plan_;
  std::map<std::string, std::vector<std::byte>> norms_;  ///< folded tensors of norms
  std::map<std::string, LayerFactors> factors_;          ///< by the weight's name
  SmoothReport report_;
  std::uint64_t bytes_ = 0;
  std::uint64_t written_ = 0;
};

}  // namespace cubit::tools
