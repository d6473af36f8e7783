// Tests of folders that several users share: real users of the operating system, where the tests run as root.
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/runtime/injected_faults.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uid_t kAlice = 54321;
constexpr uid_t kBob = 54322;
constexpr uid_t kCarol = 54323;  // no member of the team
constexpr gid_t kTeam = 54400;

/// Only root may become another user.
class SharedFolderTest : public DiskCacheFaultTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as several users";
    fs::permissions(folder_.path(), fs::perms(0755));
    fs::permissions(folder_.path() / "count", fs::perms(0666));
    fs::create_directory(cache_folder());
    ASSERT_EQ(::chmod(cache_folder().c_str(), 01777), 0);
  }

  /// What `body` complains about, run by `user`.
  std::string as(uid_t user, const std::function<std::string()>& body) { return start_as(user, body).join(); }
  test::Child start_as(uid_t user, const std::function<std::string()>& body) {
    return test::Child([&]() -> std::string {
      const auto known = faults.users.find(user);
      const gid_t group = known == faults.users.end() ? user : known->second;
      if (::setgroups(0, nullptr) != 0 || ::setgid(group) != 0 || ::setuid(user) != 0) return "cannot change the user";
      return body();
    });
  }
  Settings trusting(const std::string& trust) const {
    return {.cache_dir = cache_folder().string(), .cache_trust = trust};
  }
  /// Gets the kernel, and says what the engine did.
  std::string get_with(const Settings& settings) {
    Engine engine(settings, lines_.sink(), compiler_);
    engine.get(source_);
    std::string said = engine.counters().compiles == 0 ? "hit" : "compiled";
    for (const std::string& line : lines_.all()) said += "; " + line;
    return said;
  }
};

TEST_F(SharedFolderTest, AFolderThatEverybodyCanWriteIsRefusedInOneSentence) {
  EXPECT_THAT(as(kAlice, [&] { return get_with(trusting("")); }),
              AllOf(HasSubstr("compiled; disk cache " + cache_folder().string()), HasSubstr("every user can write it"),
                    HasSubstr("cp -r"), HasSubstr("CUBIT_CACHE_TRUST"), HasSubstr("going on without")));
  EXPECT_THAT(cache_files(), IsEmpty());
}

TEST_F(SharedFolderTest, AnotherUsersFolderIsRefused) {
  ASSERT_EQ(::chmod(cache_folder().c_str(), 0755), 0);
  ASSERT_EQ(::chown(cache_folder().c_str(), kBob, kBob), 0);
  EXPECT_EQ(as(kBob, [&] { return get_with(trusting("")); }), "compiled");
  for (const uid_t user : {uid_t{0}, kAlice}) {
    EXPECT_THAT(as(user, [&] { return get_with(trusting("")); }),
                AllOf(HasSubstr("compiled; "), HasSubstr("it belongs to user 54322")));
  }
  EXPECT_EQ(as(0, [&] { return get_with(trusting("user:54322")); }), "hit");
}

/// Root's cache in the mode that cubit itself makes.
TEST_F(SharedFolderTest, AFolderThatOnlyItsOwnerReadsCannotBeRead) {
  ASSERT_EQ(::chmod(cache_folder().c_str(), 0700), 0);
  EXPECT_EQ(as(0, [&] { return get_with(trusting("")); }), "compiled");
  EXPECT_THAT(as(kAlice, [&] { return get_with(trusting("")); }),
              AllOf(HasSubstr("compiled; "), HasSubstr("it cannot be read: Permission denied"),
                    testing::Not(HasSubstr("created"))));
}

/// Bob, who is not named, lets a folder of the cache lead to a folder of his choice.
TEST_F(SharedFolderTest, ALinkInPlaceOfAFolderIsNotWrittenThrough) {
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  const fs::path subfolder = entry_of(artifact_).parent_path();
  for (const fs::path& link : {subfolder.parent_path(), subfolder}) {
    if (link == subfolder) {
      ASSERT_EQ(as(kAlice, [&] { return get_with(trusting("user:54324")); }), "compiled");
    }
    fs::remove_all(link);
    fs::create_symlink(elsewhere, link);
    ASSERT_EQ(::lchown(link.c_str(), kBob, kBob), 0);
    EXPECT_THAT(as(0, [&] { return get_with(trusting("user:54321")); }),
                AllOf(HasSubstr("compiled; disk cache"), HasSubstr("is a symbolic link")));
    EXPECT_TRUE(fs::is_empty(elsewhere)) << "nothing was written";
    fs::remove(link);
  }
}

/// An entry that another user altered and hashed again is not executed.
TEST_F(SharedFolderTest, AnEntryOfAUserWhoIsNotNamedIsNotUsed) {
  EXPECT_EQ(as(kBob, [&] { return get_with(trusting("user:54321")); }), "compiled");
  const std::string said = as(kAlice, [&] { return get_with(trusting("user:0")); });
  EXPECT_THAT(said, AllOf(HasSubstr("compiled; disk cache entry"), HasSubstr("is not used: it belongs to user 54322")));
  EXPECT_EQ(as(kAlice, [&] { return get_with(trusting("user:54322")); }), "hit");
}

TEST_F(SharedFolderTest, AnEntryThatOthersCanWriteIsNotUsed) {
  EXPECT_EQ(as(kAlice, [&] { return get_with(trusting("user:54322")); }), "compiled");
  fs::permissions(entry_of(artifact_), fs::perms(0666));
  EXPECT_THAT(as(kAlice, [&] { return get_with(trusting("user:54322")); }), HasSubstr("every user can write it"));
}

/// Earlier versions made lock files that only their user could open.
TEST_F(SharedFolderTest, AnotherUsersClosedLockDoesNotMakeEveryProcessCompile) {
  const std::string id = artifact_id(artifact_.key, artifact_.compiler);
  EXPECT_EQ(as(kBob,
               [&]() -> std::string {
                 const auto lock = DiskCache(cache_folder(), {}, {.trust = Trust::parse("user:54321")}).lock(id);
                 const fs::path file = entry_of(artifact_).replace_extension(".lock");
                 if (!lock || ::chmod(file.c_str(), 0600) != 0) return "no lock";
                 ::_exit(0);  // the file stays
               }),
            "");
  ASSERT_THAT(test::files_ending(cache_folder(), ".lock"), SizeIs(2)) << "the locks of the machine and of all";
  const auto slow = std::make_shared<test::CountingCompiler>(folder_.path() / "slow", [](const codegen::KernelSource&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  fs::permissions(folder_.path() / "slow", fs::perms(0666));
  std::vector<test::Child> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(start_as(kAlice, [&]() -> std::string {
      Engine engine(trusting("user:54322"), lines_.sink(), slow);
      engine.get(source_);
      return lines_.all().empty() ? "" : lines_.all().front();
    }));
  }
  for (test::Child& child : children) EXPECT_EQ(child.join(), "");
  EXPECT_EQ(slow->compiles(), 1u);
}

/// Bob owns a folder with the name that housekeeping of root looks for.
TEST_F(SharedFolderTest, HousekeepingDoesNotEnterAFolderOfAUserWhoIsNotNamed) {
  const fs::path foreign = cache_folder() / "v2";
  ASSERT_TRUE(fs::create_directory(foreign));
  const fs::path entry = foreign / entry_of(artifact_).filename();
  test::write_whole(entry, "");
  ASSERT_EQ(::chown(foreign.c_str(), kBob, kBob), 0);
  ASSERT_EQ(::chmod(foreign.c_str(), 01777), 0);
  EXPECT_EQ(as(0,
               [&]() -> std::string {
                 const DiskCache cache(cache_folder(), {}, {.trust = Trust::parse("user:54321")});
                 cache.remove_damaged();
                 return cache.clear() == 0 ? "" : "deleted";
               }),
            "");
  EXPECT_TRUE(fs::exists(entry));
}

TEST_F(SharedFolderTest, TheDatabaseOfUsersIsAskedOncePerOwner) {
  const Trust trust = Trust::parse("group:1");
  int asked = 0;
  faults.look_up_user = [&] { ++asked; };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(trust.distrust_of_file({1, 1, 0644}), "");
  EXPECT_EQ(asked, 1);
}

/// The folder of a group: mode 2775, so that the group of everything in it is the group of the folder.
class GroupFolderTest : public SharedFolderTest {
 protected:
  void SetUp() override {
    SharedFolderTest::SetUp();
    if (IsSkipped()) return;
    faults.users = {{kAlice, kTeam}, {kBob, kTeam}, {kCarol, kCarol}};
    ASSERT_EQ(::chown(cache_folder().c_str(), kAlice, kTeam), 0);
    ASSERT_EQ(::chmod(cache_folder().c_str(), 02775), 0);
  }
  std::string get_as(uid_t user, const std::string& trust) {
    return as(user, [&] {
      ::umask(0077);
      return get_with(trusting(trust));
    });
  }
  static unsigned mode_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    EXPECT_EQ(status.st_gid, kTeam) << path;
    return status.st_mode & 07777;
  }
  static constexpr const char* kTrustTheTeam = "group:54400";
};

TEST_F(GroupFolderTest, MembersServeEachOtherAndOthersOnlyIfTheyTrustTheGroup) {
  EXPECT_EQ(get_as(kAlice, kTrustTheTeam), "compiled");
  EXPECT_EQ(get_as(kBob, kTrustTheTeam), "hit");
  EXPECT_EQ(mode_of(cache_folder() / "v2"), 02775U);
  EXPECT_EQ(mode_of(entry_of(artifact_).parent_path()), 02775U);
  EXPECT_EQ(mode_of(entry_of(artifact_)), 0644U);
  EXPECT_THAT(get_as(kAlice, ""), AllOf(HasSubstr("compiled; "), HasSubstr("its group can write it")));
  EXPECT_THAT(get_as(kBob, "user:54321"), AllOf(HasSubstr("compiled; "), HasSubstr("its group can write it")));
  // Carol may read the folder, and trusts the group whose members fill it.
  EXPECT_THAT(get_as(kCarol, kTrustTheTeam), AllOf(HasSubstr("hit; "), HasSubstr("it cannot be written")));
}

TEST_F(GroupFolderTest, TwoUsersShareOneCompileAndCleanUp) {
  const auto slow = std::make_shared<test::CountingCompiler>(folder_.path() / "slow", [](const codegen::KernelSource&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  fs::permissions(folder_.path() / "slow", fs::perms(0666));
  test::StartingGate gate;
  std::vector<test::Child> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(start_as(i % 2 == 0 ? kAlice : kBob, [&]() -> std::string {
      ::umask(0077);
      gate.wait_in_child();
      Engine engine(trusting(kTrustTheTeam), lines_.sink(), slow);
      engine.get(source_);
      return lines_.all().empty() ? "" : lines_.all().front();
    }));
  }
  gate.open();
  for (test::Child& child : children) EXPECT_EQ(child.join(), "");
  EXPECT_EQ(slow->compiles(), 1u);
  EXPECT_THAT(cache_files(), SizeIs(1)) << "the entry, and no lock or staging file";
}

/// Bob replaces, prunes and clears what Alice stored, because both may write the folder.
TEST_F(GroupFolderTest, AMemberReplacesPrunesAndClearsWhatAnotherStored) {
  const auto cache_of_bob = [&] { return DiskCache(cache_folder(), {}, {.trust = Trust::parse(kTrustTheTeam)}); };
  EXPECT_EQ(get_as(kAlice, kTrustTheTeam), "compiled");
  test::write_whole(entry_of(artifact_), "damage");
  EXPECT_THAT(get_as(kBob, kTrustTheTeam), AllOf(HasSubstr("compiled; "), HasSubstr("is damaged and was deleted")));
  EXPECT_EQ(get_as(kAlice, kTrustTheTeam), "hit");
  EXPECT_EQ(as(kBob, [&] { return std::to_string(cache_of_bob().prune({.bytes = 1}).removed); }), "1");
  EXPECT_EQ(get_as(kAlice, kTrustTheTeam), "compiled");
  EXPECT_EQ(as(kBob, [&] { return std::to_string(cache_of_bob().clear()); }), "1");
}

TEST_F(GroupFolderTest, AnEntryOfAUserOutsideTheGroupIsNotUsed) {
  EXPECT_EQ(get_as(kAlice, kTrustTheTeam), "compiled");
  ASSERT_EQ(::chown(entry_of(artifact_).c_str(), kCarol, kTeam), 0);
  EXPECT_THAT(get_as(kBob, kTrustTheTeam),
              AllOf(HasSubstr("compiled; "), HasSubstr("it belongs to user made_up (54323)")));
}

TEST_F(SharedFolderTest, UsersWhoTrustEachOtherShareOneCompile) {
  const auto slow = std::make_shared<test::CountingCompiler>(folder_.path() / "slow", [](const codegen::KernelSource&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  fs::permissions(folder_.path() / "slow", fs::perms(0666));
  std::vector<test::Child> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(start_as(i % 2 == 0 ? kAlice : kBob, [&]() -> std::string {
      ::umask(0077);
      Engine engine(trusting("user:54321,user:54322"), lines_.sink(), slow);
      engine.get(source_);
      return lines_.all().empty() ? "" : lines_.all().front();
    }));
  }
  for (test::Child& child : children) EXPECT_EQ(child.join(), "");
  EXPECT_EQ(slow->compiles(), 1u);
}

}  // namespace
}  // namespace cubit::runtime
