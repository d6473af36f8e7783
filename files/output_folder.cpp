#include "files/output_folder.hpp"

#include <filesystem>
#include <system_error>

#include "files/output_file.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {

void make_folder(const std::string& folder, const std::string& option) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw BadInput(option + " " + (folder.empty() ? quote(folder) : folder),
                   "cannot be made a folder: " + error.message(), kWritableWanted);
}

void remove_file(const std::string& folder, const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path path = fs::path(folder) / name;
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error == std::errc::no_such_file_or_directory) return;
  if (!error && !fs::is_regular_file(file, error) && !error)
    throw BadInput(path.string(), "exists and is not a regular file", kWritableWanted);
  if (!error) fs::remove(file, error);
  if (error) throw BadInput(path.string(), "cannot be removed: " + error.message(), kWritableWanted);
}

void write_file(const std::string& folder, const std::string& name, std::string_view content) {
  OutputFile((std::filesystem::path(folder) / name).string()).commit_text(content);
}

}  // namespace cubit::tools
