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

bool is_member(std::uint32_t user, std::uint32_t group_number) {
  const auto known = find_user(user);
  if (!known.found) return false;
  if (known.record.pw_gid == group_number) return true;
  const auto group_record = find_group(group_number);
  if (!group_record.found) return false;
  for (char** member = group_record.record.gr_mem; *member != nullptr; ++member) {
    if (std::string_view(*member) == known.record.pw_name) return true;
  }
  return false;
}

/// True for the group of the user's own name that many systems give to each user, if it has no other member. Files that
/// such a group may write are common, because such systems use the umask 002.
bool is_private_group(std::uint32_t user, std::uint32_t group_number) {
  const auto known = find_user(user);
  const auto group_record = find_group(group_number);
  if (!known.found || !group_record.found || known.record.pw_gid != group_number) return false;
  if (std::string_view(group_record.record.gr_name) != known.record.pw_name) return false;
  for (char** member = group_record.record.gr_mem; *member != nullptr; ++member) {
    if (std::string_view(*member) != known.record.pw_name) return false;
  }
  return true;
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
          "give users, \"user:alice,user:1001\", or one group, \"group:gpu\""};
}

}  // namespace

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
  return group_ && is_member(user, *group_);
}

std::string Trust::distrust_of_file(const Ownership& file) const {
  if (!trusts_user(file.user)) {
    return fmt::format("it belongs to {}, who is neither the current user nor root, and not trusted",
                       user_text(file.user));
  }
  if ((file.mode & S_IWOTH) != 0) return fmt::format("every user can write it (mode {:04o})", file.mode);
  if ((file.mode & S_IWGRP) == 0 || (group_ && *group_ == file.group) || is_private_group(file.user, file.group))
    return {};
  return fmt::format("its group can write it (mode {:04o}, group {})", file.mode, file.group);
}

std::string Trust::distrust_of_folder(const Ownership& folder) const {
  if (!is_shared()) return distrust_of_file(folder);
  if (!trusts_user(folder.user)) {
    return fmt::format("it belongs to {}, who is neither the current user nor root, and not trusted",
                       user_text(folder.user));
  }
  if ((folder.mode & S_IWOTH) == 0 || (folder.mode & S_ISVTX) != 0) return {};
  return fmt::format("every user can write it, and it is not sticky (mode {:04o})", folder.mode);
}

}  // namespace cubit::runtime
