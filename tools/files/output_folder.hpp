// Files that a command makes by the dozen, in a folder that is made for them.
#pragma once

#include <string>
#include <string_view>

namespace cubit::tools {

/// Where it is missing. `option` ("--output") is named in what is thrown: BadInput.
void make_folder(const std::string& folder, const std::string& option);

/// Removes a file, of a symbolic link what it leads to, where there is one. Throws BadInput.
void remove_file(const std::string& folder, const std::string& name);

/// Replaces the file as OutputFile does: under its name it is never half of itself. Throws BadInput or WorkFailed.
void write_file(const std::string& folder, const std::string& name, std::string_view content);

}  // namespace cubit::tools
