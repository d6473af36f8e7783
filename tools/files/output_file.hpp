// A file that a command writes: all or nothing, and never over what it reads.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "tools/safetensors/safetensors.hpp"

namespace cubit::tools {

/// Throws BadInput where both name one file, by whatever path or link. `option` is what gave the output: "--output".
void require_another_file(const std::string& option, const std::string& output, const std::string& input);

/// A file to be written, all or nothing: made under a temporary name beside its destination as soon as the object is,
/// so that a folder that cannot be written shows before the work begins; renamed by commit, else removed. What a killed
/// process left behind is in nobody's way. A symbolic link stays, and what it leads to is written.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  ///< throws BadInput
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes, syncs and renames. Throws WorkFailed.
  void commit(std::span<const TensorView> tensors);
  void commit_text(std::string_view content);  ///< the same of a file of any other kind
  /// The same piece by piece, for what is not in memory all at once. Throw WorkFailed.
  void append(std::span<const std::byte> bytes);
  void finish();
  const std::string& path() const { return path_; }

 private:
  void write(const void* data, std::size_t bytes);
  void publish();

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace cubit::tools
