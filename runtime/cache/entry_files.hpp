// Names, places and contents of the files of the disk cache.
//
// An entry lies in "<folder>/v<schema>/<first two digits of its id>/<id>.cubit". The id begins with the request key.
// The subfolders keep the search for a key short: it reads the names of one 256th of the entries.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/artifact.hpp"
#include "runtime/cache/files.hpp"

namespace cubit::runtime {

inline constexpr std::string_view kEntrySuffix = ".cubit";
inline constexpr std::string_view kLockSuffix = ".lock";

/// The folder of all entries of this schema.
std::filesystem::path schema_folder(const std::filesystem::path& cache);
/// The subfolder for ids that begin with the same two digits as `id`.
std::filesystem::path subfolder(const std::filesystem::path& cache, std::string_view id);
std::filesystem::path entry_path(const std::filesystem::path& cache, const std::string& id);

bool is_entry(const std::filesystem::path& path);
std::string entry_id(const std::filesystem::path& path);
/// Returns the version in an entry's name, "…-nvrtc13.0.88". The version only orders candidates and proves nothing.
CompilerVersion version_in_id(std::string_view id);

/// Sorted paths of everything in the folder; none if the folder cannot be read.
std::vector<std::filesystem::path> folder_content(const std::filesystem::path& folder);

/// Returns all files of this schema and older schemas. A newer cubit may share the folder, and its files are left
/// alone.
std::vector<std::filesystem::path> known_files(const std::filesystem::path& cache);

/// Deletes a staging or lock file that a dead process left. Does nothing for other files.
void remove_leftover(const std::filesystem::path& path);

/// Says why the entry `artifact` must not lie at `path`, or returns "" if the place is right.
std::string misplacement(const Artifact& artifact, const std::filesystem::path& path);

/// The content of an entry's file, or why there is none.
struct Content {
  std::string bytes;
  FileFacts file;
  int error = 0;         ///< the file cannot be read now
  std::string distrust;  ///< the file was not read, because its owner is not trusted
  std::string damage;    ///< the file will never be a valid entry
};

/// Checks the owner, and then the lengths at the start of the file, before it allocates memory for the rest.
Content read_content(const std::filesystem::path& path, const Trust& trust);

/// The message of an errno value or of kNoRegularFile.
std::string file_error(int error);

}  // namespace cubit::runtime
