#include "files/output_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "files/output_file.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

/// A name that stays below the 255 bytes of file systems with a number, the suffix and the name of a temporary file.
std::string file_name_of(std::string name) {
  constexpr std::size_t kLongest = 200;
  const auto is_unwanted = [](unsigned char byte) { return byte == '/' || byte < ' ' || byte == 0x7f; };
  std::replace_if(name.begin(), name.end(), is_unwanted, '_');
  if (name.size() <= kLongest) return name;
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;  // inside a UTF-8 character
  return name.substr(0, end);
}

}  // namespace

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

void require_folder(const std::string& folder, const std::string& option) {
  if (std::filesystem::is_directory(folder)) return;
  make_folder(folder, option);
  std::filesystem::remove(folder);
}

PictureFolder::PictureFolder(std::string folder) : folder_(std::move(folder)), temporary_(folder_) {
  while (temporary_.ends_with('/')) temporary_.pop_back();
  temporary_ += ".pictures.tmp";
  std::error_code error;
  std::filesystem::remove_all(temporary_, error);  // of a process that was killed
  make_folder(temporary_, "--pictures");
}

PictureFolder::~PictureFolder() {
  std::error_code error;
  std::filesystem::remove_all(temporary_, error);
}

void PictureFolder::write(const std::string& name, std::string_view svg) {
  const std::string first = file_name_of(name);
  std::string unique = first;
  for (int number = 2; !names_.insert(unique).second; ++number) unique = first + "_" + std::to_string(number);
  write_file(temporary_, unique + ".svg", svg);
}

void PictureFolder::publish() {
  make_folder(folder_, "--pictures");
  std::error_code error;
  for (const std::string& name : names_) {
    const std::string file = name + ".svg";
    if (!error)
      std::filesystem::rename(std::filesystem::path(temporary_) / file, std::filesystem::path(folder_) / file, error);
  }
  if (error) throw WorkFailed(folder_, "cannot be written: " + error.message(), kWritableWanted);
}

}  // namespace cubit::tools
