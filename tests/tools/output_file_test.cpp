// Proves that an output file appears completely or not at all, that links are followed, and that left-over files of a
// killed process do no harm.
#include "files/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "files/output_folder.hpp"
#include "files/text/error.hpp"
#include "tests/tools/support.hpp"

namespace cubit::tools {
namespace {

using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OutputFile, AnUnwritablePlaceShowsAtOnce) {
  const TemporaryFolder folder;
  EXPECT_THROW(OutputFile(folder.path("missing/out")), BadInput);
  EXPECT_THROW(OutputFile(folder.path(".")), BadInput);
  EXPECT_THROW(OutputFile("/dev/null"), BadInput);  // the device would be replaced by a file
}

TEST(OutputFile, WithoutCommitNothingChanges) {
  const TemporaryFolder folder;
  const std::string path = folder.write("out", "before");
  { const OutputFile file(path); }
  EXPECT_EQ(test::read_file(path), "before");
  EXPECT_THAT(folder.names(), ElementsAre("out"));
}

TEST(OutputFile, ASymbolicLinkStaysOne) {
  const TemporaryFolder folder;
  folder.write("target", "before");
  std::filesystem::create_symlink(folder.path("target"), folder.path("link"));
  OutputFile(folder.path("link")).commit({});
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link")));
  EXPECT_EQ(test::read_file(folder.path("target")), safetensors_header({}));
}

TEST(OutputFile, ALinkToWhatIsNotThereYetStaysOneToo) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("second", folder.path("first"));  // the target is relative to the link's folder
  std::filesystem::create_symlink(folder.path("target"), folder.path("second"));
  OutputFile(folder.path("first")).commit_text("x");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("first")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("second")));
  EXPECT_EQ(test::read_file(folder.path("target")), "x");
}

std::string output_error(const std::string& path) {
  try {
    OutputFile file(path);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OutputFile, WhyThereCanBeNoneIsSaid) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder.path("missing/target"), folder.path("link"));
  EXPECT_THAT(output_error(folder.path("link")),
              HasSubstr(folder.path("link") + ": leads to " + folder.path("missing/target") +
                        ", which cannot be written: No such file or directory; give a path that can be written"));
  std::filesystem::create_symlink("round", folder.path("round"));
  EXPECT_THAT(output_error(folder.path("round")), HasSubstr("too many symbolic links"));
  EXPECT_THAT(output_error(folder.path(std::string(250, 'x'))),
              HasSubstr("cannot be written: File name too long with the "));
}

/// The system would end the name at the NUL.
TEST(OutputFile, ANameWithANulIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(output_error(folder.path("out") + std::string("\0.cubin", 7)), HasSubstr("contains a NUL"));
  EXPECT_THAT(folder.names(), ElementsAre());
}

/// Left-over files of an earlier process with the same number.
TEST(OutputFile, LeftoversAreInNobodysWay) {
  const TemporaryFolder folder;
  folder.write("out." + std::to_string(::getpid()) + ".tmp", "half of it");
  OutputFile first(folder.path("out"));
  OutputFile second(folder.path("out"));
  second.commit_text("second");
  first.commit_text("first");
  EXPECT_EQ(test::read_file(folder.path("out")), "first");
  EXPECT_EQ(folder.names().size(), 2u);
}

TEST(OutputFile, DeletesTemporaryFilesOfKilledProcesses) {
  const TemporaryFolder folder;
  for (const char* const name : {"out.7.abc1.tmp", "out.123456.0.tmp"}) folder.write(name, "half of it");
  const std::vector<std::string> others = {"other.7.abc1.tmp", "out.7.abc1", "out.7.xyz.tmp", "out.tmp", "out.x.1.tmp"};
  for (const std::string& name : others) folder.write(name, "of somebody else");
  const OutputFile working(folder.path("out"));  // its temporary file is locked
  { const OutputFile next(folder.path("out")); }
  std::vector<std::string> names = folder.names();
  const auto is_working = [](const std::string& name) {
    return name.starts_with("out." + std::to_string(::getpid()) + ".");
  };
  EXPECT_EQ(std::erase_if(names, is_working), 1u);
  EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(others));
}

TEST(OutputFile, HasThePermissionsThatItsWriterSets) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(077);
  OutputFile file(folder.path("out"));
  file.set_mode(0644);
  file.commit_text("");
  ::umask(before);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(folder.path("out")).permissions(),
            perms::owner_read | perms::owner_write | perms::group_read | perms::others_read);
}

/// A reader finds the old content or the new content at every moment.
TEST(OutputFolder, AFileIsReplacedWhole) {
  const TemporaryFolder folder;
  const std::string before = folder.write("a", "before");
  std::ifstream open_before(before);
  write_file(folder.path(""), "a", "after");
  std::string seen;
  std::getline(open_before, seen);
  EXPECT_EQ(seen, "before");
  EXPECT_EQ(test::read_file(before), "after");
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

}  // namespace
}  // namespace cubit::tools
