// Results of a benchmark run, kept case by case: an interrupted run loses only the case that was being measured.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cubit::tools {

/// The JSON file of a run. A reader finds the old content or the new content, never a mixture.
class ResultsFile {
 public:
  /// Checks that `path` can be written, but changes nothing. Throws BadInput.
  explicit ResultsFile(const std::string& path);

  const std::string& path() const { return path_; }  ///< after symbolic links
  /// Replaces the whole content: writes a temporary file and renames it. Throws BadInput or WorkFailed.
  void replace(std::string_view content) const;

 private:
  std::string path_;
};

/// What measure_cases calls, in this order for each case.
struct CaseSteps {
  std::function<void(std::size_t index)> announce;  ///< shows which case comes next
  /// Adds the measurement to the case, or "skipped" with the reason. Returns false if the case should not have failed.
  std::function<bool(nlohmann::ordered_json& one)> measure;
  /// Gets the entries of all measured cases; the last entry is new.
  std::function<void(const nlohmann::ordered_json& entries)> publish;
};

/// Measures every case and returns whether all of them succeeded. When a step throws, the exception leaves this
/// function; the cases before it have been published.
bool measure_cases(const nlohmann::ordered_json& cases, const CaseSteps& steps);

/// The text of an array that is printed entry by entry. All pieces together equal json_text of the whole array.
class JsonArrayText {
 public:
  std::string next(const nlohmann::ordered_json& entry);
  std::string end() const;

 private:
  bool empty_ = true;
};

/// "case 4 of 40, 1:05 elapsed, about 13:00 left: copy:rows=2". The estimate assumes that all cases take equally long.
std::string progress_text(std::size_t index, std::size_t total, double elapsed_seconds, std::string_view name);

}  // namespace cubit::tools
