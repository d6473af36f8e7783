#include "tools/output_folder.hpp"

#include <filesystem>

#include "tools/error.hpp"
#include "tools/output_file.hpp"

namespace cubit::tools {

void make_folder(const std::string& folder, const std::string& option) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw BadInput(option + " " + folder, "cannot be made a folder: " + error.message(), kWritableWanted);
}

void remove_file(const std::string& folder, const std::string& name) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(std::filesystem::path(folder) / name, error);
  if (error) return;  // nothing is there; or it shows when the file is written
  std::filesystem::remove(file, error);
}

void write_file(const std::string& folder, const std::string& name, std::string_view content) {
  OutputFile((std::filesystem::path(folder) / name).string()).commit_text(content);
}

}  // namespace cubit::tools
