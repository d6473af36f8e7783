// Tests of locks that are not supported, interrupted, inherited or held forever.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

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

TEST_F(DiskCacheFaultTest, WhereLocksAreNotSupportedTheCompileGoesAhead) {
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    faults.flock = [error](int, int) { return failing(error); };
    const fs::path folder = folder_.path() / std::to_string(error);
    Engine unlocked = engine(folder);
    unlocked.get(source_);
    EXPECT_EQ(unlocked.counters().compiles, 1u);
    EXPECT_THAT(test::files_ending(folder, ".cubit"), SizeIs(1));
  }
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(DiskCacheFaultTest, AnInterruptedLockIsTriedAgain) {
  int interruptions = 0;
  faults.flock = [&](int file, int operation) {
    if (operation == LOCK_UN) return __real_flock(file, operation);
    return ++interruptions < 3 ? failing(EINTR) : __real_flock(file, operation);
  };
  EXPECT_TRUE(DiskCache(cache_folder(), {}).lock("id"));
  EXPECT_EQ(interruptions, 3);
}

TEST_F(DiskCacheFaultTest, AForkDuringACompileDoesNotKeepTheLock) {
  const DiskCache cache(cache_folder(), lines_.sink(), std::chrono::milliseconds(0));
  auto held = cache.lock("id");
  ASSERT_TRUE(held);
  EXPECT_FALSE(cache.lock("id"));
  // The child lives until the end of the test and holds a copy of every descriptor.
  test::Child child([]() -> std::string {
    ::pause();
    return {};
  });
  held.reset();
  EXPECT_TRUE(cache.lock("id"));
}

TEST_F(DiskCacheFaultTest, WhoHoldsALockForEverIsWaitedForOnlySoLong) {
  const DiskCache owner(cache_folder(), {});
  const auto held = owner.lock("id");
  ASSERT_TRUE(held);
  const DiskCache other(cache_folder(), lines_.sink(), std::chrono::milliseconds(30));
  EXPECT_FALSE(other.lock("id"));
  EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr("id.lock"), HasSubstr("compiling without it"))));
}

TEST_F(DiskCacheFaultTest, ALockKeepsOthersOutUntilItsOwnerIsDone) {
  const DiskCache cache(cache_folder(), {});
  auto held = cache.lock("id");
  ASSERT_TRUE(held);
  const int file = ::open((cache_folder() / "v1" / "id.lock").c_str(), O_RDWR);
  EXPECT_NE(__real_flock(file, LOCK_EX | LOCK_NB), 0);
  held.reset();
  EXPECT_EQ(__real_flock(file, LOCK_EX | LOCK_NB), 0);
  ::close(file);
}

}  // namespace
}  // namespace cubit::runtime
