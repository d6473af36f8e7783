// A file that a command writes: completely or not at all, and never over the command's input.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "files/safetensors/safetensors.hpp"

namespace cubit::tools {

/// Throws BadInput if `output` leads to the same file as an input. `option` named the output: "--output".
void require_another_file(const std::string& option, const std::string& output, const std::string& input);
void require_another_file(const std::string& option, const std::string& output, std::span<const std::string> inputs);

/// An output file that appears completely or not at all. The constructor creates a temporary file next to the
/// destination, so a folder that cannot be written is reported before the work begins. commit renames the temporary
/// file; without commit the destructor removes it. A temporary file of a killed process does no harm, and the next
/// OutputFile of the same destination removes it. If the destination is a symbolic link, the link stays and its target
/// is written.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  ///< throws BadInput
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Sets the permissions, which the umask decides otherwise. Throws WorkFailed.
  void set_mode(unsigned mode);
  /// Writes the tensors, syncs the file and renames it. Throws WorkFailed.
  void commit(std::span<const TensorView> tensors, const Metadata& metadata = {});
  void commit_text(std::string_view content);  ///< the same for any other kind of file
  /// As `commit`, but replaces nothing: returns false if the destination exists, also if another process has just made
  /// it. The content is then dropped.
  bool commit_new(std::span<const TensorView> tensors, const Metadata& metadata = {});
  /// append and finish do the same in parts, for content that does not fit in memory. They throw WorkFailed.
  void append(std::span<const std::byte> bytes);
  void finish();
  const std::string& path() const { return path_; }

 private:
  void write(const void* data, std::size_t bytes);
  void write(std::span<const TensorView> tensors, const Metadata& metadata);
  void sync();
  void publish();

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace cubit::tools
