// The folder of a checkpoint that a command writes: it appears with all of its files or not at all.
#pragma once

#include <functional>
#include <string>

#include "files/input_file.hpp"
#include "tools/checkpoint/reader.hpp"

namespace cubit::tools {

/// A new folder. The files are written into the temporary folder PATH.partial, and publish renames this folder. Without
/// publish, the destructor removes the temporary folder; a process that is killed leaves it. A later process with the
/// same request, which is not empty, then continues: files that are complete stay.
class WholeFolder {
 public:
  /// `request`: everything that decides the content of the files. `option` named the folder: "--output". Throws
  /// BadInput unless `path` is new or an empty folder, and if another process is writing it.
  WholeFolder(const std::string& path, const std::string& option, const std::string& request);
  ~WholeFolder();
  WholeFolder(const WholeFolder&) = delete;
  WholeFolder& operator=(const WholeFolder&) = delete;

  std::string file(const std::string& name) const;  ///< where a file of the folder is written
  bool has(const std::string& name) const;          ///< whether an earlier process, or this one, completed the file
  /// The name of a note about `name`, which publish removes.
  static std::string note_of(const std::string& name) { return name + ".note"; }
  /// Writes reports by `write_reports`, then renames the folder. A process that is killed in between leaves the
  /// temporary folder, so the same command writes the reports again. If write_reports throws, publish renames the
  /// folder nevertheless and rethrows. Throws WorkFailed.
  void publish(const std::function<void()>& write_reports);

 private:
  void lock(const std::string& option);
  void rename();
  void remove_leftovers(bool keeps_files) const;

  std::string path_;
  std::string temporary_;
  int lock_ = -1;
};

/// The folder that holds the checkpoint's files.
std::string folder_of(const CheckpointReader& checkpoint);

/// Reports a file that cannot be written before the work begins. Throws BadInput.
void require_writable(const std::string& path);

/// The text of a file of at most 16 MiB. Throws BadInput.
std::string whole_text(const std::string& path);

/// Copies config.json and the texts beside config.json, such as those of a tokenizer, if there is a config.json. Leaves
/// out the index, and weights. Throws WorkFailed.
void copy_texts(const std::string& source, const WholeFolder& folder);

}  // namespace cubit::tools
