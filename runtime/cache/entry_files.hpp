// Names, places and contents of the files of the disk cache.
//
// An entry lies in "<folder>/v<layout>/<first two digits of its id>/<id>.cubit". The id is the request key in 64 digits
// and the compiler, "…-nvrtc13.0.88". The subfolders keep the search for a key short: it reads the names of one 256th
// of the entries.
//
// The folder may hold files of others, and links to other places. Housekeeping deletes only files with the names below,
// and enters only real folders whose owner is trusted.
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
inline constexpr std::string_view kMachineMark = ".machine";  ///< in the name of a lock of one machine's processes
inline constexpr std::string_view kUserMark = ".user";        ///< in the name of a lock of one user's processes
inline constexpr std::string_view kHolderMark =
    "holder";  ///< begins the name of a list of held entries, see holder.hpp
inline constexpr std::string_view kPruneLock = "prune.lock";  ///< held by the process that prunes
inline constexpr std::string_view kPruneMarker = "pruned";    ///< its time says when a process pruned last
inline constexpr std::string_view kLockProbe = "locks";       ///< the staging file that lock_error() locks

/// Version 1 kept all entries in one folder. A process of an older cubit may be using its own folder, so a new layout
/// gets a new number, also if the content of the entries stays the same. A new schema is a new layout as well, because
/// a process of an older cubit would take the entries for damaged ones and delete them.
inline constexpr int kLayoutVersion = kSchemaVersion + 1;

/// The folder of all entries of this layout.
std::filesystem::path schema_folder(const std::filesystem::path& cache);
/// The subfolder for ids that begin with the same two digits as `id`.
std::filesystem::path subfolder(const std::filesystem::path& cache, std::string_view id);
std::filesystem::path entry_path(const std::filesystem::path& cache, const std::string& id);

/// True for the name of an entry. Other names that end in ".cubit" are not cubit's.
bool is_entry(const std::filesystem::path& path);
/// True for the names of an entry's lock, of the lock that prune() holds, and of a list of held entries.
bool is_lock(const std::filesystem::path& path);
/// True for the name of a list of held entries.
bool is_holder(const std::filesystem::path& path);
/// True for the name of a staging file of the cache, or of a folder that is being made.
bool is_staging(const std::filesystem::path& path);
std::string entry_id(const std::filesystem::path& path);
/// Returns the version in an entry's name, "…-nvrtc13.0.88". The version only orders candidates and proves nothing.
CompilerVersion version_in_id(std::string_view id);

/// Sorted paths of everything in the folder; none if the folder cannot be read.
std::vector<std::filesystem::path> folder_content(const std::filesystem::path& folder);

/// Which folders known_files() looks into. A newer cubit may share the cache, and its files are left alone in any case.
enum class Layouts { current, current_and_older };

/// Returns everything in the folders of these layouts. Does not enter links, nor folders that are not trusted.
std::vector<std::filesystem::path> known_files(const std::filesystem::path& cache, const Trust& trust, Layouts layouts);

/// Deletes a staging or lock file that a dead process left, and returns true if it did. Does nothing for other files.
bool remove_leftover(const std::filesystem::path& path);

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
