// Proves: processes of two versions of the library share one cache folder. Each version is served its own entries and
// never the other's, and housekeeping by one version does not damage the entries of the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

namespace fs = std::filesystem;

constexpr int kCount = 8;

/// A version of the library, and the version of its templates.
struct Version {
  const char* program;
  const char* templates;
};

constexpr Version kThis{PROCESS_OF_this_VERSION, "one"};
constexpr Version kNextSchema{PROCESS_OF_next_VERSION, "one"};
constexpr Version kNextTemplates{PROCESS_OF_this_VERSION, "two"};

/// A running process, whose standard output is read to its end.
class Process {
 public:
  explicit Process(const std::string& command) : output_(::popen((command + " 2>&1").c_str(), "r")) {}
  Process(Process&& other) noexcept : output_(std::exchange(other.output_, nullptr)) {}
  ~Process() {
    if (output_ != nullptr) static_cast<void>(said());
  }
  /// What the process printed, with its exit code if that is not 0.
  std::string said() {
    std::string text;
    char buffer[1024];
    for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof buffer, output_)) > 0;)
      text.append(buffer, count);
    const int status = ::pclose(std::exchange(output_, nullptr));
    return status == 0 ? text : text + "status " + std::to_string(status);
  }

 private:
  FILE* output_;
};

class VersionsTest : public testing::Test {
 protected:
  std::string folder() const { return folder_.path() / "cache"; }
  std::string command(const Version& version, const std::string& task) const {
    return std::string(version.program) + " " + folder() + " " + task;
  }
  Process start_get(const Version& version) const {
    return Process(command(version, "get " + std::to_string(kCount) + " " + version.templates));
  }
  std::string get(const Version& version) const { return start_get(version).said(); }
  std::string run(const Version& version, const std::string& task) const {
    return Process(command(version, task)).said();
  }
  std::size_t entries() const { return test::files_ending(folder(), ".cubit").size(); }

  test::TemporaryFolder folder_;
};

const char* const kAllCompiled = "compiles=8 hits=0\n";
const char* const kAllHit = "compiles=0 hits=8\n";

TEST_F(VersionsTest, EachVersionIsServedItsOwnEntries) {
  for (const Version& other : {kNextSchema, kNextTemplates}) {
    fs::remove_all(folder());
    EXPECT_EQ(get(kThis), kAllCompiled);
    EXPECT_EQ(get(other), kAllCompiled) << "the entries of the first version answer no request of the second";
    EXPECT_EQ(entries(), 2U * kCount);
    EXPECT_EQ(get(kThis), kAllHit);
    EXPECT_EQ(get(other), kAllHit);
  }
}

/// Processes of both versions start together on an empty folder. Processes of one version share the compiles.
TEST_F(VersionsTest, ProcessesOfBothVersionsTogetherMakeOneEntryPerKernelAndVersion) {
  for (const Version& other : {kNextSchema, kNextTemplates}) {
    fs::remove_all(folder());
    std::vector<Process> processes;
    for (int i = 0; i < 3; ++i) {
      processes.push_back(start_get(kThis));
      processes.push_back(start_get(other));
    }
    int compiles = 0;
    for (Process& process : processes) {
      int compiled = 0;
      int hits = 0;
      const std::string said = process.said();
      ASSERT_EQ(std::sscanf(said.c_str(), "compiles=%d hits=%d", &compiled, &hits), 2) << said;
      EXPECT_EQ(compiled + hits, kCount) << said;
      compiles += compiled;
    }
    EXPECT_EQ(compiles, 2 * kCount);
    EXPECT_EQ(entries(), 2U * kCount);
  }
}

TEST_F(VersionsTest, VerifyCallsNoEntryOfAnotherVersionDamaged) {
  for (const Version& other : {kNextSchema, kNextTemplates}) {
    fs::remove_all(folder());
    get(kThis);
    get(other);
    for (const Version& version : {kThis, other}) EXPECT_EQ(run(version, "verify"), "damaged=0\n");
    for (const Version& version : {kThis, other}) EXPECT_EQ(get(version), kAllHit);
  }
}

/// An older version does not know what the files of a newer version mean, and leaves them alone.
TEST_F(VersionsTest, TheNewerVersionCountsAndPrunesTheEntriesOfBoth) {
  get(kThis);
  const std::uint64_t one = fs::file_size(test::files_ending(folder(), ".cubit").front());
  get(kNextSchema);
  EXPECT_EQ(run(kThis, "stats"), "entries=8\n");
  EXPECT_EQ(run(kNextSchema, "stats"), "entries=16\n");
  EXPECT_EQ(run(kNextSchema, "prune " + std::to_string(12 * one + one / 2)), "removed=4 entries=12\n");
  EXPECT_EQ(get(kThis), "compiles=4 hits=4\n") << "the entries that were used longest ago are the older version's";
  EXPECT_EQ(get(kNextSchema), kAllHit);
  EXPECT_EQ(run(kThis, "prune 1"), "removed=8 entries=0\n");
  EXPECT_EQ(get(kThis), kAllCompiled);
  EXPECT_EQ(get(kNextSchema), kAllHit);
}

TEST_F(VersionsTest, TwoVersionsOfTheTemplatesAreCountedAndPrunedTogether) {
  get(kThis);
  get(kNextTemplates);
  EXPECT_EQ(run(kThis, "stats"), "entries=16\n");
  const std::uint64_t one = fs::file_size(test::files_ending(folder(), ".cubit").front());
  EXPECT_EQ(run(kThis, "prune " + std::to_string(8 * one + one / 2)), "removed=8 entries=8\n");
  EXPECT_EQ(get(kNextTemplates), kAllHit) << "used last";
  EXPECT_EQ(get(kThis), kAllCompiled);
}

#ifdef CUBIT_PROGRAM
TEST_F(VersionsTest, TheDoctorFindsNothingWrongWithTheEntriesOfAnotherVersion) {
  for (const Version& version : {kThis, kNextSchema, kNextTemplates}) get(version);
  const std::string said = Process(std::string(CUBIT_PROGRAM) + " cache doctor --cache-dir " + folder()).said();
  EXPECT_THAT(said, testing::AllOf(testing::HasSubstr("entries: good"), testing::HasSubstr("locks: good"),
                                   testing::HasSubstr("staging and lock files: good")));
  EXPECT_THAT(said, testing::Not(testing::HasSubstr("not usable")));
}
#endif

}  // namespace
}  // namespace cubit::runtime
