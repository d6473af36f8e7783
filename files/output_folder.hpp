// Writes several files into a folder, which is created if necessary.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace cubit::tools {

/// Creates the folder if it does not exist. The message of a BadInput names `option` ("--output").
void make_folder(const std::string& folder, const std::string& option);

/// Removes the file if it exists. If the file is a symbolic link, removes its target. Throws BadInput.
void remove_file(const std::string& folder, const std::string& name);

/// Replaces the file as OutputFile does: readers never see a part of it. Throws BadInput or WorkFailed.
void write_file(const std::string& folder, const std::string& name, std::string_view content);

/// Throws BadInput if the folder cannot be made. A folder that does not exist is not made.
void require_folder(const std::string& folder, const std::string& option);

/// The SVG files of a folder, each of which is named by a layer. The files are written into the temporary folder
/// FOLDER.pictures.tmp and appear when all of them are complete; without publish, the destructor removes them.
class PictureFolder {
 public:
  /// Creates the temporary folder. The message of a BadInput names --pictures.
  explicit PictureFolder(std::string folder);
  ~PictureFolder();
  PictureFolder(const PictureFolder&) = delete;
  PictureFolder& operator=(const PictureFolder&) = delete;
  /// Writes NAME.svg. Slashes and control characters become underscores, and long names are cut. If the name is taken,
  /// a number follows it.
  void write(const std::string& name, std::string_view svg);
  /// Renames the files, over those of an earlier run. Creates the folder if it does not exist. Throws WorkFailed.
  void publish();

 private:
  std::string folder_;
  std::string temporary_;
  std::set<std::string> names_;
};

}  // namespace cubit::tools
