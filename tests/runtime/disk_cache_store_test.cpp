// Tests of failing stores and the files left behind.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
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

/// The request succeeds, one warning says why the kernel was not stored, and no file of the attempt stays.
class StoreFailureTest : public DiskCacheFaultTest {
 protected:
  void expect_kernel_and_warning(const std::string& reason) {
    Engine unlucky = engine(cache_folder());
    EXPECT_TRUE(unlucky.get(source_));
    EXPECT_TRUE(unlucky.get(source_));
    EXPECT_EQ(unlucky.counters().compiles, 1u);
    EXPECT_EQ(unlucky.counters().memory_hits, 1u);
    EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr("was not stored"), HasSubstr(reason))));
    EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), IsEmpty());
    EXPECT_THAT(test::files_ending(cache_folder(), ".staging"), IsEmpty());
  }
};

TEST_F(StoreFailureTest, FsyncFails) {
  faults.fsync = [](int) { return failing(EIO); };
  expect_kernel_and_warning(std::strerror(EIO));
}

TEST_F(StoreFailureTest, RenameFails) {
  faults.rename = [](const char*, const char*) { return failing(EACCES); };
  expect_kernel_and_warning(std::strerror(EACCES));
}

TEST_F(StoreFailureTest, FileSizeLimitInTheMiddleOfAWrite) {
  expect_well(test::Child([&]() -> std::string {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string(test::kNotAllowedHere) + "setrlimit";
    expect_kernel_and_warning(std::strerror(EFBIG));
    return HasFailure() ? "see above" : "";
  }));
}

TEST_F(StoreFailureTest, ReallyFullDisk) {
  expect_well(test::Child([&]() -> std::string {
    if (std::string refused = test::own_mounts(); !refused.empty()) return refused;
    fs::create_directory(cache_folder());
    if (mount("none", cache_folder().c_str(), "tmpfs", 0, "size=16k,mode=0700") != 0) {
      return std::string(test::kNotAllowedHere) + "mount: " + std::strerror(errno);
    }
    // Fills all pages except the first of the entry, so that the write fails and not the open.
    fs::create_directories(cache_folder() / "v2");
    const int file = ::open((cache_folder() / "filler").c_str(), O_WRONLY | O_CREAT, 0600);
    const std::string page(4096, 'x');
    while (::write(file, page.data(), page.size()) > 0) continue;
    ::close(file);
    fs::resize_file(cache_folder() / "filler", fs::file_size(cache_folder() / "filler") - 4096);
    source_.template_text += std::string(8192, ' ');
    expect_kernel_and_warning(std::strerror(ENOSPC));
    return HasFailure() ? "see above" : "";
  }));
}

TEST_F(DiskCacheFaultTest, AStagedFileIsNeverTakenForAnEntry) {
  // Observes the cache as another process sees it between writing and renaming.
  bool looked = false;
  faults.rename = [&](const char* from, const char* to) {
    looked = true;
    const DiskCache reader(cache_folder(), {});
    EXPECT_FALSE(reader.find(test::of_compiler(artifact_.key, artifact_.compiler)));
    EXPECT_FALSE(reader.find(test::of_any(artifact_.key)));
    EXPECT_THAT(reader.list(), IsEmpty());
    EXPECT_THAT(reader.remove_damaged(), IsEmpty());
    EXPECT_TRUE(fs::exists(from)) << "a file that is being written was cleaned away";
    EXPECT_EQ(fs::path(from).parent_path(), fs::path(to).parent_path());
    return __real_rename(from, to);
  };
  EXPECT_TRUE(DiskCache(cache_folder(), lines_.sink()).publish(artifact_));
  EXPECT_TRUE(looked);
}

TEST_F(DiskCacheFaultTest, KilledBetweenWriteAndRenameLeavesNoEntryAndCleansUpLater) {
  test::Child victim([&]() -> std::string {
    faults.rename = [](const char*, const char*) { return raise(SIGKILL); };
    engine(cache_folder()).get(source_);
    return "survived";
  });
  EXPECT_THAT(victim.join(), HasSubstr("died of signal 9"));
  EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), IsEmpty());
  EXPECT_THAT(test::files_ending(cache_folder(), ".staging"), SizeIs(1));

  Engine next = engine(cache_folder());
  next.get(source_);
  EXPECT_EQ(compiler_->compiles(), 2u);
  EXPECT_THAT(lines_.all(), IsEmpty());
  EXPECT_THAT(test::files_ending(cache_folder(), ".staging"), IsEmpty()) << "a store cleans the subfolder";
  EXPECT_THAT(test::files_ending(cache_folder(), ".cubit"), SizeIs(1));
}

}  // namespace
}  // namespace cubit::runtime
