// Trust: whose files the disk cache uses. A hash in an entry proves that its bytes are whole, and not who wrote them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::runtime {

/// Owner and permissions of a file or folder.
struct Ownership {
  std::uint32_t user = 0;
  std::uint32_t group = 0;
  std::uint32_t mode = 0;   ///< permission bits, 07777
  std::uint64_t names = 1;  ///< hard links of a file; 1 for a folder
};

/// The users whose code may run: the current user, root, and those that the owner of a shared cache names.
class Trust {
 public:
  Trust();

  /// Parses "", "user:alice", "user:alice,user:1001" or "group:gpu". Names and numbers are accepted. Throws
  /// Failure(invalid_argument) for another form and for a name that this machine does not know.
  static Trust parse(std::string_view text);

  /// Says why an entry's file must not be used, or returns "". Its owner must be trusted, and nobody else may be able
  /// to write the file. Its group may write it only if that group is trusted: the group database does not prove that a
  /// group has one member. Where others are trusted, the file must have one name, because a second hard link could be
  /// anybody's.
  std::string distrust_of_file(const Ownership& file) const;

  /// Says why a cache folder must not be used, or returns "". Where others are trusted, the folder may also be writable
  /// by the trusted group, or by everybody if it is sticky, because every entry's own file is checked as well.
  std::string distrust_of_folder(const Ownership& folder) const;

 private:
  struct KnownMembers;

  bool trusts_user(std::uint32_t user) const;
  bool is_trusted_member(std::uint32_t user) const;
  std::string distrust_of_owner(std::uint32_t user) const;
  bool is_shared() const { return group_ || !users_.empty(); }

  std::vector<std::uint32_t> users_;
  std::optional<std::uint32_t> group_;
  std::shared_ptr<KnownMembers> known_;  ///< so that the databases are asked once for each user
};

}  // namespace cubit::runtime
