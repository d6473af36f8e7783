// Reads a checkpoint that may be larger than memory: one safetensors file, or several files with an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "files/safetensors/reader.hpp"

namespace cubit::tools {

class CheckpointReader {
 public:
  /// `path`: a safetensors file, the index (JSON) of several files, or the folder. Checks that every tensor is in the
  /// file that the index says. Throws BadInput.
  explicit CheckpointReader(const std::string& path);

  /// The only file, or the files that the index names, sorted by name.
  const std::vector<std::unique_ptr<SafetensorsReader>>& files() const { return files_; }
  bool has_index() const { return !index_.empty(); }
  /// The path of the file, or of the index.
  const std::string& path() const { return has_index() ? index_ : files_.front()->path(); }
  /// Reads a part of a tensor of any of the files; see SafetensorsReader::read.
  void read(const HeaderEntry& tensor, std::uint64_t begin, std::span<std::byte> dst) const;
  /// The text of an index of `files` (tensor -> file name). Other members are copied from this checkpoint's index.
  std::string index_of(const std::map<std::string, std::string>& files, std::uint64_t total_bytes) const;

 private:
  void check_against(const std::map<std::string, std::string>& index) const;

  std::string index_;  ///< empty if the checkpoint has no index
  std::string text_;   ///< the text of the index
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::unordered_map<const HeaderEntry*, const SafetensorsReader*> owners_;
};

}  // namespace cubit::tools
