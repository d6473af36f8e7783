#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/calibrate/tensors.hpp"

namespace cubit::calibrate {
namespace {

namespace fs = std::filesystem;

std::string new_folder(const std::string& name) {
  const std::string folder = testing::TempDir() + name;
  fs::remove_all(folder);
  return folder;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

template <class Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Records batches of two layers, with one and seven tokens and more than one segment.
std::string recorded(const std::string& name) {
  const std::string folder = new_folder(name);
  Recorder recorder(folder);
  unsigned seed = 0;
  for (const std::int64_t tokens : {1, 7, 40000}) {
    recorder.add("up", tensor_of("F32", {tokens, 64}, normal_values(static_cast<std::size_t>(tokens) * 64, ++seed)));
    recorder.add("down", tensor_of("F32", {1, tokens, 8}, normal_values(static_cast<std::size_t>(tokens) * 8, ++seed)));
    recorder.end_batch();
  }
  return folder;
}

Collector collected(const std::string& folder, int threads) {
  Collector collector({}, threads);
  for (const std::string& file : activation_files(folder)) collector.add_file(file);
  return collector;
}

TEST(Activations, RecordedFilesGiveTheStatisticsOfTheirTensors) {
  const Collector collector = collected(recorded("recorded"), 2);
  ASSERT_EQ(collector.layers().size(), 2);
  EXPECT_EQ(collector.layers()[0].layer, "down");
  EXPECT_EQ(collector.files()[2], "batch_000002.safetensors");
  Statistics expected;
  unsigned seed = 0;
  for (const std::int64_t tokens : {1, 7, 40000}) {
    expected.add(tensor_of("F32", {tokens, 64}, normal_values(static_cast<std::size_t>(tokens) * 64, ++seed)));
    ++seed;
  }
  const Statistics& up = collector.layers()[1].statistics;
  EXPECT_EQ(up.batches(), 3);
  EXPECT_EQ(up.tokens(), 40008);
  EXPECT_EQ(up.moments().mean, expected.moments().mean);
  EXPECT_EQ(up.moments().variance, expected.moments().variance);
  EXPECT_TRUE(std::ranges::equal(up.histogram().positive, expected.histogram().positive));
  EXPECT_TRUE(std::ranges::equal(up.channel_minima(), expected.channel_minima()));
  EXPECT_TRUE(std::ranges::equal(up.token_ranges().positive, expected.token_ranges().positive));
}

TEST(Activations, ThreadsChangeNoBit) {
  const std::string folder = recorded("threads");
  collected(folder, 1).save(folder + "/one");
  collected(folder, 3).save(folder + "/three");
  EXPECT_EQ(read_file(folder + "/one"), read_file(folder + "/three"));
}

TEST(Activations, SavedStatisticsResumeAndMerge) {
  const std::string folder = recorded("saved");
  const auto files = activation_files(folder);
  const std::string whole = folder + "/whole";
  const std::string first = folder + "/first";
  const std::string rest = folder + "/rest";
  collected(folder, 2).save(whole);
  Collector start({}, 2);
  start.add_file(files[0]);
  start.save(first);
  Collector resumed({}, 2);
  resumed.load(first);
  EXPECT_NE(error_of([&] { resumed.add_file(files[0]); }).find("has been added already"), std::string::npos);
  resumed.add_file(files[1]);
  resumed.add_file(files[2]);
  resumed.save(rest);
  EXPECT_EQ(read_file(rest), read_file(whole));
  EXPECT_NE(error_of([&] { resumed.merge(first); }).find("has been added already"), std::string::npos);

  Collector later({}, 2);
  later.add_file(files[1]);
  later.add_file(files[2]);
  later.save(rest);
  start.merge(rest);
  EXPECT_EQ(start.files().size(), 3);
  EXPECT_EQ(start.layers()[1].statistics.moments().variance, resumed.layers()[1].statistics.moments().variance);
}

TEST(Activations, PatternsChooseLayers) {
  const std::string folder = recorded("patterns");
  Collector collector({}, 1, {"u*"});
  collector.add_file(activation_files(folder)[1]);
  ASSERT_EQ(collector.layers().size(), 1);
  EXPECT_EQ(collector.layers()[0].layer, "up");
}

TEST(Activations, SavedStatisticsKeepTheirPatterns) {
  const std::string folder = recorded("kept_patterns");
  const auto files = activation_files(folder);
  const std::string all = folder + "/all";
  const std::string some = folder + "/some";
  collected(folder, 1).save(all);
  Collector start({}, 1, {"u*", "u*", "a"});
  start.add_file(files[0]);
  start.save(some);
  Collector same({}, 1, {"a", "u*"});
  same.load(some);
  EXPECT_EQ(same.layers().size(), 1);
  EXPECT_EQ(error_of([&] { Collector().load(some); }),
            some +
                ": was collected with the patterns [\"a\",\"u*\"], not [\"*\"]; give the same patterns, or keep these "
                "statistics in another file");
  EXPECT_NE(error_of([&] { same.load(all); }).find("was collected with the patterns [\"*\"], not"), std::string::npos);
  write_statistics(all + ".other", {}, "[]");
  EXPECT_NE(error_of([&] { same.load(all + ".other"); }).find("does not name the files and patterns"),
            std::string::npos);
}

TEST(Activations, AMergeTakesTheLayersOfThePatterns) {
  const std::string folder = recorded("merged_patterns");
  const std::string all = folder + "/all";
  collected(folder, 1).save(all);
  Collector some({}, 1, {"u*"});
  some.merge(all);
  ASSERT_EQ(some.layers().size(), 1);
  EXPECT_EQ(some.layers()[0].layer, "up");
  EXPECT_EQ(some.files().size(), 3);
  Collector none({}, 1, {"absent"});
  EXPECT_EQ(error_of([&] { none.merge(all); }),
            all + ": has no layer that matches the patterns [\"absent\"]; give patterns that match its layers");
}

TEST(Activations, NonFiniteValuesAreCountedPerLayer) {
  const std::string folder = new_folder("non_finite");
  Recorder recorder(folder);
  recorder.add("a", tensor_of<float>("F32", {1, 2}, {1, std::numeric_limits<float>::quiet_NaN()}));
  recorder.add("b", tensor_of<float>("F32", {1, 1}, {1}));
  recorder.add("empty", tensor_of<float>("F32", {0, 5}, {}));
  const Collector collector = [&] {
    Collector made;
    made.add_file(recorder.end_batch());
    return made;
  }();
  EXPECT_EQ(collector.layers()[0].statistics.non_finite(), 1);
  EXPECT_EQ(collector.layers()[1].statistics.non_finite(), 0);
  EXPECT_EQ(collector.layers()[2].statistics.tokens(), 0);
  EXPECT_EQ(collector.layers()[2].statistics.channels(), 0);
}

TEST(Activations, BadFilesAreSentences) {
  const std::string folder = recorded("bad");
  const auto files = activation_files(folder);
  Collector collector({}, 1);
  collector.add_file(files[0]);
  Recorder recorder(folder);
  recorder.add("up", tensor_of<float>("F32", {1, 3}, {1, 2, 3}));
  const std::string other = recorder.end_batch();
  EXPECT_EQ(fs::path(other).filename(), "batch_000003.safetensors");
  EXPECT_EQ(error_of([&] { collector.check_file(other); }),
            other + ", tensor up: has 3 channels, but earlier batches have 64; record all batches from the same model");
  const std::string bytes = read_file(files[1]);
  std::ofstream(other, std::ios::binary) << bytes.substr(0, bytes.size() - 5);
  EXPECT_NE(error_of([&] { collector.check_file(other); }).find(other), std::string::npos);
  EXPECT_NE(error_of([&] { collector.check_file(other); }).find("complete safetensors file"), std::string::npos);
  std::string integers = bytes;
  integers.replace(integers.find("F32"), 3, "I32");
  std::ofstream(other, std::ios::binary | std::ios::trunc) << integers;
  EXPECT_NE(error_of([&] { collector.check_file(other); }).find("has the type I32, which is not a floating-point type"),
            std::string::npos);
  fs::create_directories(folder + "/empty");
  EXPECT_EQ(error_of([&] { activation_files(folder + "/empty"); }),
            folder + "/empty: has no files that end in .safetensors; give a folder with one file per batch");
  EXPECT_NE(error_of([&] { collector.add_file(folder + "/absent"); }).find("cannot be read"), std::string::npos);
  EXPECT_EQ(collector.files().size(), 1);
}

TEST(Activations, RecordersOfOneFolderKeepAllBatches) {
  constexpr std::size_t kRecorders = 4;
  constexpr std::size_t kBatches = 8;
  const std::string folder = new_folder("shared");
  std::deque<Recorder> recorders;  // a Recorder cannot be moved
  for (std::size_t i = 0; i < kRecorders; ++i) recorders.emplace_back(folder);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kRecorders; ++i) {
    threads.emplace_back([&, i] {
      for (std::size_t batch = 0; batch < kBatches; ++batch) {
        recorders[i].add("layer",
                         tensor_of("F32", {1, 1}, std::vector<float>{static_cast<float>(i * kBatches + batch)}));
        recorders[i].end_batch();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<double> values;
  for (const std::string& file : activation_files(folder)) {
    Collector collector({}, 1);
    collector.add_file(file);
    values.push_back(collector.layers()[0].statistics.maximum());
  }
  std::sort(values.begin(), values.end());
  ASSERT_EQ(values.size(), kRecorders * kBatches);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<double>(i));
}

TEST(Activations, ARecorderRefusesWhatItCannotWrite) {
  Recorder recorder(new_folder("refused"));
  EXPECT_EQ(recorder.end_batch(), "");
  recorder.add("a", tensor_of<float>("F32", {1}, {1}));
  EXPECT_EQ(error_of([&] { recorder.add("a", tensor_of<float>("F32", {1}, {1})); }),
            "layer a: is already in this batch; call end_batch first, or give one tensor with all tokens");
  EXPECT_NE(error_of([&] { recorder.add("b", tensor_of<float>("F32", {2}, {1})); }).find("does not have the size"),
            std::string::npos);
  for (const std::string& name : {std::string("__metadata__"), std::string("a\0b", 3), std::string("a\xff")})
    EXPECT_NE(error_of([&] { recorder.add(name, tensor_of<float>("F32", {1}, {1})); }).find("is no name of a tensor"),
              std::string::npos)
        << name;
  EXPECT_NE(recorder.end_batch(), "");  // what was refused does not harm the batch
  EXPECT_NE(error_of([] { Recorder("/proc/none"); }).find("cannot be made a folder"), std::string::npos);
}

TEST(Activations, ATensorWithoutTokensMayClaimAnyWidth) {
  const std::string folder = new_folder("claims");
  Recorder recorder(folder);
  const auto record = [&](const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
    recorder.add("a", {"F32", shape, std::as_bytes(std::span(values))});
    return recorder.end_batch();
  };
  const std::string empty = record({0, std::int64_t{1} << 60}, {});
  const std::string filled = record({1, 2}, {1, 2});
  Collector collector;
  collector.add_file(empty);
  EXPECT_NE(error_of([&] {
              collector.add_file(filled);
            }).find("has 2 channels, but earlier batches have 1152921504606846976"),
            std::string::npos);
  collector.save(folder + "/saved");
  Collector loaded;
  loaded.load(folder + "/saved");
  loaded.add_file(filled);
  ASSERT_EQ(loaded.layers().size(), 1);
  EXPECT_EQ(loaded.layers()[0].statistics.batches(), 2);
  EXPECT_EQ(loaded.layers()[0].statistics.tokens(), 1);
}

TEST(Activations, ADeepNoteIsRefused) {
  const std::string file = new_folder("deep") + ".safetensors";
  const std::string deep(1 << 20, '[');
  write_statistics(file, {}, R"({"layers": [], "files": )" + deep + std::string(deep.size(), ']') + "}");
  Collector collector;
  EXPECT_NE(error_of([&] { collector.load(file); }).find("does not name the files"), std::string::npos);
}

}  // namespace
}  // namespace cubit::calibrate
