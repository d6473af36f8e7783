// Writes several files into a folder, which is created if necessary.
#pragma once

#include <string>
#include <string_view>

namespace cubit::tools {

/// Creates the folder if it does not exist. The message of a BadInput names `option` ("--output").
void make_folder(const std::string& folder, const std::string& option);

/// Removes the file if it exists. If the file is a symbolic link, removes its target. Throws BadInput.
void remove_file(const std::string& folder, const std::string& name);

/// Replaces the file as OutputFile does: readers never see a part of it. Throws BadInput or WorkFailed.
void write_file(const std::string& folder, const std::string& name, std::string_view content);

}  // namespace cubit::tools
