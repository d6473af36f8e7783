// Decides by owner and permission bits. User and group databases are read only for files that are not the user's own.
#include "runtime/cache/trust.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <mutex>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

constexpr std::size_t kMaximumRecordBytes = std::size_t{1} << 20;  // of one user or group, with all members

/// A record of the user or group database, with the memory that its texts lie in.
template <class Record>
struct Looked {
  Record record{};
  std::vector<char> texts = std::vector<char>(1024);
  bool found = false;
};

/// Calls `look_up`, which is one of the get…_r functions, with more and more memory.
template <class Record, class LookUp>
Looked<Record> look_up(LookUp call) {
  Looked<Record> looked;
  for (;;) {
    Record* result = nullptr;
    const int error = call(&looked.record, looked.texts.data(), looked.texts.size(), &result);
    if (error != ERANGE || looked.texts.size() >= kMaximumRecordBytes) {
      looked.found = error == 0 && result != nullptr;
      return looked;
    }
    looked.texts.resize(2 * looked.texts.size());
  }
}

Looked<passwd> find_user(uid_t user) {
  return look_up<passwd>([=](auto... rest) { return ::getpwuid_r(user, rest...); });
}
Looked<passwd> find_user(const std::string& name) {
  return look_up<passwd>([&](auto... rest) { return ::getpwnam_r(name.c_str(), rest...); });
}
Looked<group> find_group(gid_t group_number) {
  return look_up<group>([=](auto... rest) { return ::getgrgid_r(group_number, rest...); });
}
Looked<group> find_group(const std::string& name) {
  return look_up<group>([&](auto... rest) { return ::getgrnam_r(name.c_str(), rest...); });
}

std::string user_text(std::uint32_t user) {
  const auto known = find_user(user);
  return known.found ? fmt::format("user {} ({})", known.record.pw_name, user) : fmt::format("user {}", user);
}

/// Returns nothing if the databases do not answer.
std::optional<bool> is_member(std::uint32_t user, std::uint32_t group_number) {
  const auto known = find_user(user);
  if (!known.found) return std::nullopt;
  if (known.record.pw_gid == group_number) return true;
  const auto group_record = find_group(group_number);
  if (!group_record.found) return std::nullopt;
  for (char** member = group_record.record.gr_mem; *member != nullptr; ++member) {
    if (std::string_view(*member) == known.record.pw_name) return true;
  }
  return false;
}

/// The number that `name` is or stands for, or nothing.
template <class Find, class Number>
std::optional<std::uint32_t> number_of(const std::string& name, Find find, Number number) {
  std::uint32_t value = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (error == std::errc() && stop == name.data() + name.size()) return value;
  const auto known = find(name);
  return known.found ? std::optional<std::uint32_t>(number(known.record)) : std::nullopt;
}

Failure bad_trust(std::string_view text, const std::string& rule) {
  return {Status::invalid_argument, fmt::format("trusted owners of the cache \"{}\"", text), rule,
          R"(give users, "user:alice,user:1001", or one group, "group:gpu")"};
}

}  // namespace

/// Which users are members of the trusted group. Copies of a Trust share it among threads.
struct Trust::KnownMembers {
  std::mutex mutex;
  std::map<std::uint32_t, bool> users;
};

Trust::Trust() : known_(std::make_shared<KnownMembers>()) {}

Trust Trust::parse(std::string_view text) {
  Trust trust;
  if (text.empty()) return trust;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t last = std::min(text.find(',', first), text.size());
    const std::string_view item = text.substr(first, last - first);
    first = last + 1;
    constexpr std::string_view kUser = "user:";
    constexpr std::string_view kGroup = "group:";
    if (item.starts_with(kUser)) {
      const auto user = number_of(
          std::string(item.substr(kUser.size())), [](const std::string& name) { return find_user(name); },
          [](const passwd& record) { return record.pw_uid; });
      if (!user) throw bad_trust(text, fmt::format("this machine has no {}", item));
      trust.users_.push_back(*user);
    } else if (item.starts_with(kGroup)) {
      const auto number = number_of(
          std::string(item.substr(kGroup.size())), [](const std::string& name) { return find_group(name); },
          [](const group& record) { return record.gr_gid; });
      if (!number) throw bad_trust(text, fmt::format("this machine has no {}", item));
      if (trust.group_) throw bad_trust(text, "it names two groups");
      trust.group_ = number;
    } else {
      throw bad_trust(text, fmt::format("\"{}\" names neither a user nor a group", item));
    }
  }
  return trust;
}

bool Trust::trusts_user(std::uint32_t user) const {
  if (user == ::geteuid() || user == 0) return true;
  if (std::find(users_.begin(), users_.end(), user) != users_.end()) return true;
  return group_ && is_trusted_member(user);
}

bool Trust::is_trusted_member(std::uint32_t user) const {
  const std::lock_guard lock(known_->mutex);
  if (const auto known = known_->users.find(user); known != known_->users.end()) return known->second;
  const std::optional<bool> answer = is_member(user, *group_);
  if (answer) known_->users.emplace(user, *answer);
  return answer.value_or(false);
}

std::string Trust::distrust_of_owner(std::uint32_t user) const {
  if (trusts_user(user)) return {};
  return fmt::format("it belongs to {}, who is neither the current user nor root, and not trusted", user_text(user));
}

std::string Trust::distrust_of_file(const Ownership& file) const {
  if (std::string distrust = distrust_of_owner(file.user); !distrust.empty()) return distrust;
  if ((file.mode & S_IWOTH) != 0) return fmt::format("every user can write it (mode {:04o})", file.mode);
  if ((file.mode & S_IWGRP) != 0 && !(group_ && *group_ == file.group))
    return fmt::format("its group can write it (mode {:04o}, group {})", file.mode, file.group);
  if (is_shared() && file.names > 1) return fmt::format("it has {} names (hard links)", file.names);
  return {};
}

std::string Trust::distrust_of_folder(const Ownership& folder) const {
  if (!is_shared()) return distrust_of_file(folder);
  if (std::string distrust = distrust_of_owner(folder.user); !distrust.empty()) return distrust;
  if ((folder.mode & S_ISVTX) != 0) return {};
  if ((folder.mode & S_IWOTH) != 0)
    return fmt::format("every user can write it, and it is not sticky (mode {:04o})", folder.mode);
  if ((folder.mode & S_IWGRP) == 0 || (group_ && *group_ == folder.group)) return {};
  return fmt::format(
      "its group can write it, is not the trusted group, and the folder is not sticky (mode {:04o}, "
      "group {})",
      folder.mode, folder.group);
}

}  // namespace cubit::runtime
