// Runs the fuzz target over the shipped corpus and over every one-byte change of each file, so that builds without a
// fuzzer check the same properties. A violation aborts the test.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

#include "tests/tools/support.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace cubit::tools {
namespace {

int feed(const std::string& file) {
  return LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
}

TEST(FuzzCorpus, NothingInItNorNearItBreaksTheParser) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CUBIT_TEST_DATA)) {
    const std::string file = test::read_file(entry.path());
    EXPECT_EQ(feed(file), 0) << entry.path();
    for (std::size_t i = 0; i < file.size(); ++i) {
      for (const char byte : {'\0', '"', '{', '9', '\xff'}) {
        std::string changed = file;
        changed[i] = byte;
        EXPECT_EQ(feed(changed), 0) << entry.path();
      }
    }
    ++files;
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace cubit::tools
