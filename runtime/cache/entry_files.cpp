// Implements the layout of the cache folder and the reading of one entry's file.
#include "runtime/cache/entry_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSubfolderDigits = 2;

/// Returns 3 for "v3", and -1 for any other name.
int schema_of_folder(const fs::path& folder) {
  const std::string name = folder.filename().native();
  int schema = -1;
  if (name.size() < 2 || name[0] != 'v') return -1;
  const auto [stop, error] = std::from_chars(name.data() + 1, name.data() + name.size(), schema);
  return error == std::errc() && stop == name.data() + name.size() ? schema : -1;
}

bool is_subfolder_name(std::string_view name) {
  return name.size() == kSubfolderDigits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

fs::path schema_folder(const fs::path& cache) { return cache / fmt::format("v{}", kSchemaVersion); }

fs::path subfolder(const fs::path& cache, std::string_view id) {
  return schema_folder(cache) / id.substr(0, kSubfolderDigits);
}

fs::path entry_path(const fs::path& cache, const std::string& id) {
  return subfolder(cache, id) / (id + std::string(kEntrySuffix));
}

bool is_entry(const fs::path& path) { return path.filename().native().ends_with(kEntrySuffix); }

std::string entry_id(const fs::path& path) {
  const std::string name = path.filename().native();
  return name.substr(0, name.size() - kEntrySuffix.size());
}

CompilerVersion version_in_id(std::string_view id) {
  constexpr std::string_view kBefore = "-nvrtc";
  CompilerVersion version;
  const std::size_t found = id.rfind(kBefore);
  if (found == std::string_view::npos) return version;
  const char* at = id.data() + found + kBefore.size();
  const char* end = id.data() + id.size();
  for (int* part : {&version.major, &version.minor, &version.build}) {
    const auto [stop, error] = std::from_chars(at, end, *part);
    if (error != std::errc()) return version;
    at = stop < end ? stop + 1 : end;
  }
  return version;
}

std::vector<fs::path> folder_content(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    paths.push_back(at->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<fs::path> known_files(const fs::path& cache) {
  std::vector<fs::path> files;
  for (const fs::path& folder : folder_content(cache)) {
    const int schema = schema_of_folder(folder);
    if (schema < 0 || schema > kSchemaVersion) continue;
    for (fs::path& path : folder_content(folder)) {
      std::error_code ignored;
      if (!is_subfolder_name(path.filename().native()) || !fs::is_directory(path, ignored)) {
        files.push_back(std::move(path));
        continue;
      }
      for (fs::path& file : folder_content(path)) files.push_back(std::move(file));
    }
  }
  return files;
}

void remove_leftover(const fs::path& path) {
  const std::string& name = path.native();
  std::error_code ignored;
  if (is_staging_name(name) && is_abandoned(path)) fs::remove(path, ignored);
  if (name.ends_with(kLockSuffix)) remove_free_lock(path);
}

std::string misplacement(const Artifact& artifact, const fs::path& path) {
  const std::string id = artifact_id(artifact.key, artifact.compiler);
  if (id != entry_id(path)) return fmt::format("its content belongs to {}", id);
  const fs::path folder = path.parent_path();
  const bool in_subfolder = is_subfolder_name(folder.filename().native());
  const fs::path schema = in_subfolder ? folder.parent_path() : folder;
  if (schema_of_folder(schema) != kSchemaVersion) {
    return fmt::format("it lies in the folder of schema {}", schema.filename().native());
  }
  if (in_subfolder && id.starts_with(folder.filename().native())) return {};
  return "it lies where cubit does not look for it, as entries of earlier versions do";
}

Content read_content(const fs::path& path, const Trust& trust) {
  Content content;
  File file;
  content.error = open_regular(path, file, content.file);
  if (content.error != 0) return content;
  content.distrust = trust.distrust_of_file(content.file.ownership);
  if (!content.distrust.empty()) return content;
  content.error = read_some(file, kEntryPrefixBytes, content.bytes);
  if (content.error != 0) return content;
  content.damage = prefix_damage(content.bytes, content.file.size);
  if (content.damage.empty()) {
    content.error = read_some(file, static_cast<std::size_t>(content.file.size) - content.bytes.size(), content.bytes);
  }
  return content;
}

std::string file_error(int error) {
  return error == kNoRegularFile ? "it is not a regular file" : std::generic_category().message(error);
}

}  // namespace cubit::runtime
