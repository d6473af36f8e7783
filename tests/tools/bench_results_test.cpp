// Proves that an interrupted benchmark keeps what it measured: the JSON file is whole after every case. The
// measurements are made up here.
#include "tools/bench/results.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

#include "files/text/error.hpp"
#include "files/text/format.hpp"
#include "tests/tools/support.hpp"

namespace cubit::tools {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;

Json cases_named(const std::vector<std::string>& names) {
  Json cases = Json::array();
  for (const std::string& name : names) cases.push_back({{"name", name}});
  return cases;
}

Json read_json(const std::string& path) { return Json::parse(test::read_file(path)); }

/// Measures `cases` into the file; the case named "bad" calls `fail`.
bool measure_into(const ResultsFile& file, const Json& cases, const std::function<bool(Json&)>& fail) {
  return measure_cases(cases, {.announce = [](std::size_t) {},
                               .measure =
                                   [&](Json& one) {
                                     if (one.at("name") == "bad") return fail(one);
                                     one["microseconds"] = 7;
                                     return true;
                                   },
                               .publish = [&](const Json& entries) { file.replace(json_text(entries) + "\n"); }});
}

const Json kTwoMeasured = Json::parse(R"([{"name": "A", "microseconds": 7}, {"name": "B", "microseconds": 7}])");

TEST(ResultsFile, ChangesNothingBeforeTheFirstResult) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("results.json", "old");
  const ResultsFile file(path);
  EXPECT_THAT(folder.names(), ElementsAre("results.json")) << "no temporary file stays";
  EXPECT_EQ(test::read_file(path), "old");
  file.replace("new");
  file.replace("newer");
  EXPECT_EQ(test::read_file(path), "newer");
  EXPECT_THAT(folder.names(), ElementsAre("results.json"));
}

TEST(ResultsFile, RefusesAPathThatCannotBeWritten) {
  EXPECT_THROW(ResultsFile("/no/such/folder/results.json"), BadInput);
}

TEST(MeasureCases, TheFileIsWholeAfterEveryCase) {
  const test::TemporaryFolder folder;
  const ResultsFile file(folder.path("results.json"));
  std::vector<std::size_t> announced;
  std::size_t published = 0;
  const Json cases = cases_named({"A", "B", "C"});
  EXPECT_TRUE(measure_cases(cases, {.announce = [&](std::size_t i) { announced.push_back(i); },
                                    .measure =
                                        [&](Json& one) {
                                          if (published > 0) {
                                            EXPECT_EQ(read_json(file.path()).size(), published);
                                          }
                                          one["microseconds"] = 7;
                                          return true;
                                        },
                                    .publish =
                                        [&](const Json& entries) {
                                          file.replace(json_text(entries));
                                          EXPECT_EQ(entries.size(), ++published);
                                          EXPECT_EQ(entries.back().at("name"), cases[published - 1].at("name"));
                                        }}));
  EXPECT_THAT(announced, ElementsAre(0, 1, 2));
  EXPECT_EQ(read_json(file.path()).size(), 3u);
}

TEST(MeasureCases, AnExceptionInTheThirdCaseLeavesTwoMeasuredCases) {
  const test::TemporaryFolder folder;
  const ResultsFile file(folder.path("results.json"));
  EXPECT_THROW(measure_into(file, cases_named({"A", "B", "bad", "C"}),
                            [](Json&) -> bool { throw std::runtime_error("the device is lost"); }),
               std::runtime_error);
  EXPECT_EQ(read_json(file.path()), kTwoMeasured);
}

TEST(MeasureCases, ASignalInTheThirdCaseLeavesTwoMeasuredCases) {
  for (const int signal : {SIGINT, SIGKILL, SIGSEGV}) {
    const test::TemporaryFolder folder;
    const ResultsFile file(folder.path("results.json"));
    const auto interrupted = [&] {
      std::signal(signal, SIG_DFL);  // a sanitizer handles some of them
      measure_into(file, cases_named({"A", "B", "bad", "C"}), [&](Json&) { return std::raise(signal) == 0; });
    };
    EXPECT_EXIT(interrupted(), ::testing::KilledBySignal(signal), "");
    EXPECT_EQ(read_json(file.path()), kTwoMeasured);
    EXPECT_THAT(folder.names(), ElementsAre("results.json")) << "no temporary file stays";
  }
}

TEST(MeasureCases, ACaseThatFailsDoesNotEndTheRun) {
  const test::TemporaryFolder folder;
  const ResultsFile file(folder.path("results.json"));
  EXPECT_FALSE(measure_into(file, cases_named({"A", "bad", "C"}), [](Json& one) {
    one["skipped"] = "it failed";
    return false;
  }));
  const Json entries = read_json(file.path());
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[1], (Json{{"name", "bad"}, {"skipped", "it failed"}}));
  EXPECT_EQ(entries[2].at("microseconds"), 7);
}

TEST(JsonArrayText, IsTheTextOfTheWholeArray) {
  const Json arrays[] = {
      Json::array(), cases_named({"A"}),
      Json::array({{{"name", "line\nbreak"}, {"sizes", {{"m", 1}}}}, {{"sizes", Json::object()}}, 3})};
  for (const Json& array : arrays) {
    JsonArrayText text;
    std::string pieces;
    for (const Json& entry : array) pieces += text.next(entry);
    EXPECT_EQ(pieces + text.end(), json_text(array));
  }
}

TEST(ProgressText, EstimatesTheTimeThatIsLeft) {
  EXPECT_EQ(progress_text(0, 40, 0, "copy"), "case 1 of 40: copy");
  EXPECT_EQ(progress_text(3, 39, 65, "copy:rows=2"), "case 4 of 39, 1:05 elapsed, about 13:00 left: copy:rows=2");
  EXPECT_EQ(progress_text(1, 2, 7207.4, "copy"), "case 2 of 2, 2:00:07 elapsed, about 2:00:07 left: copy");
}

}  // namespace
}  // namespace cubit::tools
