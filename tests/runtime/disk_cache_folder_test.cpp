// Tests of folders that the disk cache cannot use, or that vanish during use.
#include <sys/mount.h>

#include <cstring>

#include "tests/runtime/injected_faults.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(DiskCacheFaultTest, AFolderThatIsAFileMeansNoCacheAndOneWarning) {
  test::write_whole(cache_folder(), "a file");
  Engine on_file = engine(cache_folder());
  EXPECT_TRUE(on_file.get(source_));
  EXPECT_TRUE(on_file.get(test::small_source("other")));
  EXPECT_FALSE(on_file.disk_cache().readable());
  EXPECT_FALSE(on_file.disk_cache().writable());
  EXPECT_THAT(on_file.disk_cache().trouble(), HasSubstr("not a folder"));
  EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr(cache_folder().string()), HasSubstr("not a folder"))));
  EXPECT_EQ(test::read_whole(cache_folder()), "a file");
}

TEST_F(DiskCacheFaultTest, AFolderBelowAFileMeansNoCacheAndOneWarning) {
  test::write_whole(cache_folder(), "a file");
  Engine below = engine(cache_folder() / "deeper" / "still");
  EXPECT_TRUE(below.get(source_));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("not a folder")));
}

TEST_F(DiskCacheFaultTest, AFolderThatCannotBeMadeMeansNoCacheAndOneWarning) {
  faults.mkdir = [](const char*, mode_t) { return failing(EACCES); };
  Engine refused = engine(cache_folder());
  EXPECT_TRUE(refused.get(source_));
  EXPECT_TRUE(refused.get(test::small_source("other")));
  EXPECT_THAT(refused.disk_cache().trouble(), HasSubstr(std::strerror(EACCES)));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("cannot be created")));
}

TEST_F(DiskCacheFaultTest, AnUnwritableFolderIsReadAndOneWarningGiven) {
  engine(cache_folder()).get(source_);
  faults.access = [](const char* path, int mode) {
    return (mode & W_OK) != 0 ? failing(EACCES) : __real_access(path, mode);
  };
  Engine reader = engine(cache_folder());
  EXPECT_TRUE(reader.disk_cache().readable());
  EXPECT_FALSE(reader.disk_cache().writable());
  reader.get(source_);
  reader.get(test::small_source("other"));
  EXPECT_EQ(reader.counters().disk_hits, 1u);
  EXPECT_EQ(reader.counters().compiles, 1u);
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("cannot be written")));
  EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), SizeIs(1));
}

TEST_F(DiskCacheFaultTest, AReallyReadOnlyMountIsReadAndOneWarningGiven) {
  engine(cache_folder()).get(source_);
  const fs::path damaged = entry_of(test::small_artifact(test::small_source("damaged")));
  fs::create_directories(damaged.parent_path());
  test::write_whole(damaged, "nonsense");
  expect_well(test::Child([&]() -> std::string {
    if (std::string refused = test::own_mounts(); !refused.empty()) return refused;
    const std::string path = cache_folder().string();
    if (mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
        mount(nullptr, path.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      return std::string(test::kNotAllowedHere) + "mount: " + std::strerror(errno);
    }
    Engine reader = engine(cache_folder());
    reader.get(source_);
    if (reader.counters().disk_hits != 1) return "the entry was not read";
    reader.get(test::small_source("other"));
    if (reader.counters().compiles != 1) return "a miss was not compiled";
    if (lines_.all().size() != 1) return "not one warning";
    reader.get(test::small_source("damaged"));
    if (reader.counters().compiles != 2) return "a damaged entry was not replaced by a compile";
    return reader.counters().damaged_entries == 0 ? "" : "claims to have deleted on a read-only mount";
  }));
}

TEST_F(DiskCacheFaultTest, AnUnreadableFolderSaysSo) {
  engine(cache_folder()).get(source_);
  faults.access = [](const char*, int) { return failing(EACCES); };
  Engine refused = engine(cache_folder());
  refused.get(source_);
  EXPECT_EQ(refused.counters().compiles, 1u);
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("it cannot be read: Permission denied")));
}

TEST_F(DiskCacheFaultTest, ADanglingLinkMeansNoCacheAndOneWarning) {
  fs::create_symlink(folder_.path() / "nowhere", cache_folder());
  EXPECT_TRUE(engine(cache_folder()).get(source_));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("not a folder")));
}

TEST_F(DiskCacheFaultTest, NoHomeIsSaidOnce) {
  Engine homeless({.is_cache_dir_unknown = true}, lines_.sink(), compiler_);
  homeless.get(source_);
  homeless.get(test::small_source("other"));
  EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr("HOME is not set"), HasSubstr("CUBIT_CACHE_DIR"))));
}

/// The search for a key reads the names of one subfolder, and not those of the whole cache.
TEST_F(DiskCacheFaultTest, ARequestReadsOneSubfolder) {
  engine(cache_folder()).get(source_);
  std::vector<std::string> opened;
  faults.opendir = [&](const char* path) { opened.emplace_back(path); };
  Engine reader({.cache_dir = cache_folder().string(), .compile_policy = CompilePolicy::never}, {}, compiler_);
  reader.get(source_);
  EXPECT_THAT(opened, ElementsAre(entry_of(artifact_).parent_path().string()));
}

TEST_F(DiskCacheFaultTest, AFolderDeletedUnderARunningProcessIsMadeAgain) {
  Engine running = engine(cache_folder());
  running.get(source_);
  fs::remove_all(cache_folder());
  EXPECT_TRUE(running.get(test::small_source("other")));
  EXPECT_EQ(running.counters().compiles, 2u);
  EXPECT_THAT(lines_.all(), IsEmpty());
  EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), SizeIs(1));
}

TEST_F(DiskCacheFaultTest, AFolderReplacedByAFileUnderARunningProcessIsOneWarningPerStore) {
  Engine running = engine(cache_folder());
  fs::remove_all(cache_folder());
  test::write_whole(cache_folder(), "a file");
  EXPECT_TRUE(running.get(source_));
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("was not stored")));
}

}  // namespace
}  // namespace cubit::runtime
