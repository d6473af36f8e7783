// Implements the layout of the cache folder and the reading of one entry's file.
#include "runtime/cache/entry_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <system_error>

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSubfolderDigits = 2;
constexpr std::size_t kKeyDigits = 64;
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBeforeVersion = "-nvrtc";
/// After this time without a new entry in its list, a process of another machine counts as dead if its lock looks free.
constexpr std::chrono::hours kLongestHold = std::chrono::days(30);

/// Returns 3 for "v3", and -1 for any other name.
int layout_of_folder(const fs::path& folder) {
  const std::string name = folder.filename().native();
  int layout = -1;
  if (name.size() < 2 || name[0] != 'v') return -1;
  const auto [stop, error] = std::from_chars(name.data() + 1, name.data() + name.size(), layout);
  return error == std::errc() && stop == name.data() + name.size() ? layout : -1;
}

bool is_subfolder_name(std::string_view name) {
  return name.size() == kSubfolderDigits && name.find_first_not_of(kHexDigits) == std::string_view::npos;
}

/// True for "<64 digits>-nvrtc<digits and dots>".
bool is_id(std::string_view text) {
  if (text.size() <= kKeyDigits + kBeforeVersion.size()) return false;
  const std::string_view version = text.substr(kKeyDigits + kBeforeVersion.size());
  return text.substr(0, kKeyDigits).find_first_not_of(kHexDigits) == std::string_view::npos &&
         text.substr(kKeyDigits).starts_with(kBeforeVersion) &&
         version.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool cut_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

/// Cuts "<mark><digits>" off the end of `text` and returns the digits, or returns "" if the text does not end so.
std::string_view cut_marked_number(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view digits = text.substr(at + mark.size());
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return {};
  text = text.substr(0, at);
  return digits;
}

/// True for "holder<digits>".
bool is_holder_number(std::string_view text) { return !cut_marked_number(text, kHolderMark).empty() && text.empty(); }

/// The parts of the name of an entry's lock, "<id>[.machine<number>][.user<number>].lock", or of a list of held
/// entries, "holder<number>.machine<number>.lock".
struct LockName {
  bool is_lock = false;
  bool is_holder = false;
  std::string_view machine;
};

LockName parse_lock_name(std::string_view name) {
  LockName parsed;
  if (!cut_suffix(name, kLockSuffix)) return parsed;
  cut_marked_number(name, kUserMark);
  parsed.machine = cut_marked_number(name, kMachineMark);
  parsed.is_holder = !parsed.machine.empty() && is_holder_number(name);
  parsed.is_lock = parsed.is_holder || is_id(name);
  return parsed;
}

bool is_entry_name(std::string_view name) { return cut_suffix(name, kEntrySuffix) && is_id(name); }

/// True for a real folder, not a link, in which nobody can put files in another's place who is not trusted.
bool may_enter(const fs::path& folder, const Trust& trust) {
  FileFacts facts;
  return read_facts(folder, facts) == 0 && facts.is_folder && trust.distrust_of_folder(facts.ownership).empty();
}

}  // namespace

fs::path schema_folder(const fs::path& cache) { return cache / fmt::format("v{}", kLayoutVersion); }

fs::path subfolder(const fs::path& cache, std::string_view id) {
  return schema_folder(cache) / id.substr(0, kSubfolderDigits);
}

fs::path entry_path(const fs::path& cache, const std::string& id) {
  return subfolder(cache, id) / (id + std::string(kEntrySuffix));
}

bool is_entry(const fs::path& path) { return is_entry_name(path.filename().native()); }

bool is_lock(const fs::path& path) {
  const std::string name = path.filename().native();
  return name == kPruneLock || parse_lock_name(name).is_lock;
}

bool is_holder(const fs::path& path) { return parse_lock_name(path.filename().native()).is_holder; }

bool is_staging(const fs::path& path) {
  const std::string file = path.filename().native();
  const std::string_view staged = staged_name(file);
  return is_entry_name(staged) || is_subfolder_name(staged) || is_lock(fs::path(staged)) || staged == kPruneMarker ||
         staged == kLockProbe;
}

std::string entry_id(const fs::path& path) {
  const std::string name = path.filename().native();
  return name.substr(0, name.size() - kEntrySuffix.size());
}

CompilerVersion version_in_id(std::string_view id) {
  CompilerVersion version;
  const std::size_t found = id.rfind(kBeforeVersion);
  if (found == std::string_view::npos) return version;
  const char* at = id.data() + found + kBeforeVersion.size();
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

std::vector<fs::path> known_files(const fs::path& cache, const Trust& trust, Layouts layouts) {
  std::vector<fs::path> files;
  for (const fs::path& folder : folder_content(cache)) {
    const int layout = layout_of_folder(folder);
    if (layout < 0 || layout > kLayoutVersion || !may_enter(folder, trust)) continue;
    if (layout < kLayoutVersion && layouts == Layouts::current) continue;
    for (fs::path& path : folder_content(folder)) {
      if (!is_subfolder_name(path.filename().native())) {
        files.push_back(std::move(path));
      } else if (may_enter(path, trust)) {
        for (fs::path& file : folder_content(path)) files.push_back(std::move(file));
      }
    }
  }
  return files;
}

bool remove_leftover(const fs::path& path) {
  if (is_staging(path)) return is_abandoned(path) && remove_name(path);
  if (!is_lock(path)) return false;
  const std::string name = path.filename().native();
  // The locks of another machine may look free here.
  const LockName parsed = parse_lock_name(name);
  const bool is_old = parsed.is_holder ? is_older_than(path, kLongestHold) : is_abandoned_by_age(path);
  if (!parsed.machine.empty() && !is_this_machine(parsed.machine) && !is_old) return false;
  return remove_free_lock(path);
}

std::string misplacement(const Artifact& artifact, const fs::path& path) {
  const std::string id = artifact_id(artifact.key, artifact.compiler);
  if (id != entry_id(path)) return fmt::format("its content belongs to {}", id);
  const fs::path folder = path.parent_path();
  if (is_subfolder_name(folder.filename().native()) && id.starts_with(folder.filename().native())) return {};
  return "it lies where cubit does not look for it";
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
