#include "tools/output_folder.hpp"

#include <filesystem>
#include <fstream>

#include "tools/error.hpp"

namespace cubit::tools {

void make_folder(const std::string& folder, const std::string& option) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw BadInput(option + " " + folder, "cannot be made a folder: " + error.message());
}

void write_file(const std::string& folder, const std::string& name, std::string_view content) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) throw WorkFailed(path.string(), "cannot be written");
}

}  // namespace cubit::tools
