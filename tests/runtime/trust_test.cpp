// Proves whose files and folders are trusted, by owner and permission bits.
#include "runtime/cache/trust.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.hpp"

namespace cubit::runtime {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kStranger = 54321;  // no such user or group exists
const std::uint32_t kSelf = ::geteuid();

TEST(TrustTest, OnesOwnFilesAndRootsAreTrusted) {
  const Trust trust;
  EXPECT_EQ(trust.distrust_of_file({kSelf, kStranger, 0644}), "");
  EXPECT_EQ(trust.distrust_of_file({0, kStranger, 0644}), "");
  EXPECT_EQ(trust.distrust_of_folder({kSelf, kStranger, 0755}), "");
  EXPECT_THAT(trust.distrust_of_file({kStranger, kStranger, 0600}), HasSubstr("it belongs to user 54321"));
  EXPECT_THAT(trust.distrust_of_folder({kStranger, kStranger, 0755}), HasSubstr("it belongs to user 54321"));
}

TEST(TrustTest, WhatOthersCanWriteIsNot) {
  const Trust trust;
  EXPECT_THAT(trust.distrust_of_file({kSelf, kStranger, 0646}), HasSubstr("every user can write it (mode 0646)"));
  EXPECT_THAT(trust.distrust_of_file({kSelf, kStranger, 0664}), HasSubstr("its group can write it (mode 0664"));
  EXPECT_THAT(trust.distrust_of_folder({kSelf, kStranger, 01777}), HasSubstr("every user can write it"));
  EXPECT_THAT(trust.distrust_of_folder({kSelf, kStranger, 0775}), HasSubstr("its group can write it"));
}

TEST(TrustTest, NamedUsersAreTrustedLikeOneself) {
  const Trust trust = Trust::parse("user:54321,user:root");
  EXPECT_EQ(trust.distrust_of_file({kStranger, kStranger, 0644}), "");
  EXPECT_THAT(trust.distrust_of_file({kStranger + 1, kStranger, 0644}), HasSubstr("belongs to user 54322"));
  EXPECT_THAT(trust.distrust_of_file({kStranger, kStranger, 0664}), HasSubstr("its group can write it"));
}

TEST(TrustTest, AFolderThatNamedUsersShareMayBeWritableIfOthersCannotReplaceFiles) {
  const Trust trust = Trust::parse("user:54321");
  EXPECT_EQ(trust.distrust_of_folder({kSelf, kStranger, 01777}), "");
  EXPECT_EQ(trust.distrust_of_folder({kSelf, kStranger, 01775}), "");
  EXPECT_THAT(trust.distrust_of_folder({kSelf, kStranger, 02775}), HasSubstr("is not the trusted group"));
  EXPECT_THAT(trust.distrust_of_folder({kSelf, kStranger, 0777}), HasSubstr("not sticky"));
  EXPECT_THAT(trust.distrust_of_folder({kStranger + 1, kStranger, 0755}), HasSubstr("belongs to"));
}

TEST(TrustTest, MembersOfANamedGroupAreTrusted) {
  const Trust trust = Trust::parse("group:54321");
  EXPECT_EQ(trust.distrust_of_file({kSelf, kStranger, 0664}), "") << "the group may write its own files";
  EXPECT_THAT(trust.distrust_of_file({kSelf, kStranger + 1, 0664}), HasSubstr("its group can write it"));
  EXPECT_THAT(trust.distrust_of_file({kStranger, kStranger, 0644}), HasSubstr("belongs to")) << "no member";
  // Every system has a user "daemon" whose primary group is the group "daemon".
  EXPECT_EQ(Trust::parse("group:daemon").distrust_of_file({1, kStranger, 0644}), "");
}

TEST(TrustTest, AFileWithTwoNamesIsNotTrustedWhereOthersAre) {
  EXPECT_EQ(Trust().distrust_of_file({kSelf, kStranger, 0644, 2}), "") << "a copy with hard links";
  EXPECT_EQ(Trust::parse("user:54321").distrust_of_file({kSelf, kStranger, 0644, 1}), "");
  EXPECT_THAT(Trust::parse("user:54321").distrust_of_file({kSelf, kStranger, 0644, 2}), HasSubstr("2 names"));
}

/// The group database does not list every member of a group, nor the users that an access control list names.
TEST(TrustTest, AGroupThatLooksPrivateIsNot) {
  EXPECT_THAT(Trust().distrust_of_file({0, 0, 0664}), HasSubstr("its group can write it"));
  EXPECT_THAT(Trust().distrust_of_folder({1, 1, 0775}), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(Trust().distrust_of_folder({0, 0, 0775}), HasSubstr("its group can write it"));
  EXPECT_EQ(Trust::parse("group:0").distrust_of_folder({0, 0, 0775}), "");
}

TEST(TrustTest, OtherTextsAreRefused) {
  for (const char* text :
       {"alice", "user:", "user:nobody here", "group:nothing here", "group:1,group:2", "user:0,,", ","}) {
    try {
      Trust::parse(text);
      FAIL() << text;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::invalid_argument);
      EXPECT_THAT(failure.what(), HasSubstr("group:gpu")) << text;
    }
  }
}

}  // namespace
}  // namespace cubit::runtime
