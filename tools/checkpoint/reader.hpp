// A checkpoint that is too large to be read at once: one safetensors file or, by an index, several of one model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/safetensors/reader.hpp"

namespace cubit::tools {

class CheckpointReader {
 public:
  /// A safetensors file, the index JSON of several, or the folder of either. Every tensor of the files is where the
  /// index says. Throws BadInput.
  explicit CheckpointReader(const std::string& path);

  /// One, or those that the index names, by their names.
  const std::vector<std::unique_ptr<SafetensorsReader>>& files() const { return files_; }
  bool has_index() const { return !index_.empty(); }
  /// Of the file, or of the index.
  const std::string& path() const { return has_index() ? index_ : files_.front()->path(); }
  /// A piece of one of the files' tensors, as SafetensorsReader reads it.
  void read(const HeaderEntry& tensor, std::uint64_t begin, std::span<std::byte> dst) const;
  /// The text of an index of `files`, tensor -> file name, with this one's other members.
  std::string index_of(const std::map<std::string, std::string>& files, std::uint64_t total_bytes) const;

 private:
  void check_against(const std::map<std::string, std::string>& index) const;

  std::string index_;  ///< empty: there is none
  std::string text_;   ///< of the index
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::unordered_map<const HeaderEntry*, const SafetensorsReader*> owners_;
};

}  // namespace cubit::tools
