// Proves: a miss is explained by the entry that shares the most inputs, and by the inputs that differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "runtime/bundle/sign.hpp"
#include "runtime/bundle/writer.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ExplainMissTest : public testing::Test {
 protected:
  Settings settings() const { return {.cache_dir = (folder_.path() / "cache").string()}; }
  /// Compiles and stores the kernel.
  void store(const codegen::KernelSource& source) { Engine(settings(), {}, compiler_).get(source); }
  MissExplanation explanation_of(const codegen::KernelSource& source) {
    return Engine(settings(), {}, compiler_).explain_miss(source);
  }

  test::TemporaryFolder folder_;
  std::shared_ptr<test::CountingCompiler> compiler_ =
      std::make_shared<test::CountingCompiler>(folder_.path() / "count");
  codegen::KernelSource source_ = test::small_source();
};

TEST_F(ExplainMissTest, AnEmptyCacheHasNoNearestEntry) {
  const MissExplanation miss = explanation_of(source_);
  EXPECT_EQ(miss.key, request_key(source_));
  EXPECT_EQ(miss.cached_in, "");
  EXPECT_FALSE(miss.nearest);
}

TEST_F(ExplainMissTest, ACachedKernelNamesItsStore) {
  store(source_);
  EXPECT_EQ(explanation_of(source_).cached_in, settings().cache_dir);
}

TEST_F(ExplainMissTest, TheInputsThatDifferAreNamed) {
  store(source_);
  store(test::small_source("another descriptor"));
  codegen::KernelSource changed = source_;
  changed.headers[0].text = "constexpr float kAddend = 2;\n";
  changed.options.emplace_back("--mine");
  const std::string gone = source_.options.front();
  std::erase(changed.options, gone);
  const MissExplanation miss = explanation_of(changed);
  ASSERT_TRUE(miss.nearest.has_value());
  EXPECT_EQ(miss.nearest->key, request_key(source_)) << "the entry of the same descriptor";
  EXPECT_TRUE(miss.nearest->cubin.empty());
  EXPECT_THAT(miss.differences, ElementsAre("the text of header plan.cuh differs", "the entry has no option --mine",
                                            "the entry has one input that the request does not have"));
}

TEST_F(ExplainMissTest, AnotherArchitecturesEntryIsNamedIfThereIsNoOther) {
  codegen::KernelSource other = source_;
  other.target = "sm_80";
  other.code = codegen::Code::ptx;
  store(other);
  const MissExplanation far = explanation_of(source_);
  ASSERT_TRUE(far.nearest.has_value());
  EXPECT_EQ(far.nearest->target, "sm_80");
  EXPECT_THAT(far.differences, ElementsAre("the entry is for cpu:sm_80, and no store has an entry for sm_90a"));
  codegen::KernelSource unlike = test::small_source("unlike");
  unlike.headers[0].text = "constexpr float kAddend = 3;\n";
  store(unlike);
  EXPECT_EQ(explanation_of(source_).nearest->descriptor, unlike.descriptor) << "the architecture comes first";
}

TEST_F(ExplainMissTest, OfTwoEntriesForAnotherArchitectureTheSameKindOfCodeIsNearer) {
  codegen::KernelSource ptx = source_;
  ptx.target = "sm_80";
  ptx.code = codegen::Code::ptx;
  codegen::KernelSource cubin = ptx;
  cubin.code = codegen::Code::cubin;
  const std::filesystem::path system = folder_.path() / "system";
  Engine({.cache_dir = system.string()}, {}, compiler_).get(cubin);
  store(ptx);  // in the folder that is asked first
  Settings both = settings();
  both.system_caches = {system.string()};
  EXPECT_THAT(Engine(both, {}, compiler_).explain_miss(source_).differences,
              ElementsAre("the entry is for sm_80, and no store has an entry for sm_90a"));
}

/// Everything in the folder with the time and the content of each file.
std::map<std::string, std::pair<std::filesystem::file_time_type, std::string>> content_of(const std::string& folder) {
  std::map<std::string, std::pair<std::filesystem::file_time_type, std::string>> content;
  for (const auto& file : test::files_ending(folder, "")) {
    content[file] = {std::filesystem::last_write_time(file), test::read_whole(file)};
  }
  return content;
}

TEST_F(ExplainMissTest, NothingChanges) {
  const codegen::KernelSource damaged = test::small_source("damaged");
  store(damaged);
  const std::filesystem::path bad = test::files_ending(settings().cache_dir, ".cubit").at(0);
  std::filesystem::resize_file(bad, std::filesystem::file_size(bad) - 1);
  store(source_);
  BundleWriter writer;
  writer.add(pack(test::small_artifact(test::small_source("in the bundle")), "0.1.0"));
  const std::string bytes = writer.bytes();
  Settings with_bundle = settings();
  with_bundle.bundle_memory = {{"linked", std::as_bytes(std::span(bytes))}};
  using std::chrono::hours;
  for (const auto& file : test::files_ending(settings().cache_dir, "")) {
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - hours(30));
  }
  const auto before = content_of(settings().cache_dir);
  ASSERT_EQ(before.size(), 3u) << "two entries, and the file whose time says when a process cleaned up";
  test::Lines lines;
  Engine engine(with_bundle, lines.sink(), compiler_);
  EXPECT_EQ(engine.explain_miss(damaged).cached_in, "");
  EXPECT_EQ(engine.explain_miss(source_).cached_in, settings().cache_dir);
  EXPECT_EQ(engine.explain_miss(test::small_source("in the bundle")).cached_in, "linked");
  EXPECT_EQ(engine.explain_miss(test::small_source("nowhere")).cached_in, "");
  EXPECT_EQ(content_of(settings().cache_dir), before);
  EXPECT_EQ(engine.counters().damaged_entries + engine.counters().disk_hits, 0u);
  for (const StoreReport& report : engine.store_reports()) {
    EXPECT_EQ(report.hits + report.misses + report.refused + report.published, 0u) << report.name;
  }
  EXPECT_THAT(lines.all(), ElementsAre(HasSubstr(bad.string() + " is damaged: ")));
  engine.get(damaged);
  EXPECT_EQ(engine.counters().damaged_entries, 1u) << "a request does delete the entry";
}

TEST_F(ExplainMissTest, ACompilerThatThePolicyRefusesIsNamed) {
  DiskCache(settings().cache_dir, {}).publish(test::small_artifact(source_, {12, 8, 93}));
  Settings exact = settings();
  exact.compiler_policy = CompilerPolicy::exact;
  const MissExplanation miss = Engine(exact, {}, compiler_).explain_miss(source_);
  EXPECT_THAT(miss.differences, ElementsAre("the entry is of NVRTC 12.8.93, and the policy exact wants 13.0.88"));
}

TEST_F(ExplainMissTest, AnEntryOfAnEarlierVersionSaysThatItCannotBeCompared) {
  DiskCache(settings().cache_dir, {}).publish(test::small_artifact(test::small_source("other")));
  EXPECT_THAT(explanation_of(source_).differences, ElementsAre(HasSubstr("does not record its inputs")));
}

TEST_F(ExplainMissTest, SystemFoldersAreSearchedToo) {
  Engine({.cache_dir = (folder_.path() / "system").string()}, {}, compiler_).get(test::small_source("other"));
  Settings both = settings();
  both.system_caches = {(folder_.path() / "system").string()};
  const MissExplanation miss = Engine(both, {}, compiler_).explain_miss(source_);
  EXPECT_EQ(miss.nearest_in, both.system_caches[0]);
  EXPECT_THAT(miss.differences, ElementsAre("the text of template small.cuh differs"));
}

TEST_F(ExplainMissTest, BundlesRecordInputsToo) {
  Artifact artifact = test::small_artifact(test::small_source("other"));
  artifact.inputs = input_digests(test::small_source("other"));
  BundleWriter writer;
  writer.add(pack(artifact, "0.1.0"));
  const std::string bytes = writer.bytes();
  Settings with_bundle = settings();
  with_bundle.bundle_memory = {{"linked", std::as_bytes(std::span(bytes))}};
  const MissExplanation miss = Engine(with_bundle, {}, compiler_).explain_miss(source_);
  EXPECT_EQ(miss.nearest_in, "linked");
  EXPECT_THAT(miss.differences, ElementsAre("the text of template small.cuh differs"));
}

/// What the engine answers without a compiler: whether explain_miss() names a store, and whether get() succeeds.
std::pair<bool, bool> answers(Settings settings, const codegen::KernelSource& source) {
  settings.compile_policy = CompilePolicy::never;
  const bool is_explained = !Engine(settings, {}).explain_miss(source).cached_in.empty();
  try {
    Engine(settings, {}).get(source);
    return {is_explained, true};
  } catch (const Failure&) {
    return {is_explained, false};
  }
}

constexpr std::pair kServed{true, true};
constexpr std::pair kMissed{false, false};

TEST_F(ExplainMissTest, WithPublicKeysItAnswersForTheBundlesThatTheySigned) {
  store(source_);
  BundleWriter writer;
  writer.add(pack(test::small_artifact(source_), "0.1.0"));
  std::string bytes = writer.bytes();
  Settings keyed = settings();
  keyed.system_caches = {(folder_.path() / "system").string()};
  keyed.bundle_memory = {{"linked", std::as_bytes(std::span(bytes))}};
  EXPECT_EQ(answers(keyed, source_), kServed) << "without keys the folder answers";
  const KeyPair keys = make_keys();
  keyed.public_keys = keys.signer.hex();
  EXPECT_EQ(answers(keyed, source_), kMissed) << "the bundle is not signed";
  const MissExplanation miss = Engine(keyed, {}).explain_miss(source_);
  EXPECT_FALSE(miss.nearest) << "an entry that the engine cannot use is not near";
  ASSERT_EQ(miss.unused.size(), 3u);
  EXPECT_EQ(miss.unused[0].name, keyed.cache_dir);
  EXPECT_THAT(miss.unused[0].reason, HasSubstr("loads only signed bundles"));
  EXPECT_EQ(miss.unused[1].name, keyed.system_caches[0]);
  EXPECT_EQ(miss.unused[2].name, "linked");
  EXPECT_THAT(miss.unused[2].reason, HasSubstr("it is not signed"));
  BundleHeader header = Bundle::of_memory("test", std::as_bytes(std::span(bytes))).header();
  header.signature = sign_root(root_of(bytes), keys.secret);
  bytes.replace(0, kBundlePageBytes, header_page(header));
  EXPECT_EQ(answers(keyed, source_), kServed);
  EXPECT_EQ(Engine(keyed, {}).explain_miss(source_).cached_in, "linked");
  keyed.public_keys = make_keys().signer.hex();
  EXPECT_EQ(answers(keyed, source_), kMissed) << "another key signed the bundle";
  EXPECT_THAT(Engine(keyed, {}).explain_miss(source_).unused.back().reason, HasSubstr("none of the given keys"));
}

TEST_F(ExplainMissTest, AnEntryThatGetRefusesIsNotCalledCached) {
  store(source_);
  const std::filesystem::path entry = test::files_ending(settings().cache_dir, ".cubit").at(0);
  EXPECT_EQ(answers(settings(), source_), kServed);
  std::filesystem::permissions(entry, std::filesystem::perms::others_write, std::filesystem::perm_options::add);
  EXPECT_EQ(answers(settings(), source_), kMissed) << "others can write the entry";
  test::Lines lines;
  Engine(settings(), lines.sink()).explain_miss(source_);
  EXPECT_THAT(lines.all(), ElementsAre(HasSubstr("every user can write it")));
  std::filesystem::permissions(entry, std::filesystem::perms::others_write, std::filesystem::perm_options::remove);
  std::string bytes = test::read_whole(entry);
  bytes.back() ^= 1;
  test::write_whole(entry, bytes);
  EXPECT_EQ(answers(settings(), source_), kMissed) << "the entry is damaged";
}

TEST_F(ExplainMissTest, AFolderThatOthersCanWriteIsListedAsUnused) {
  store(source_);
  std::filesystem::permissions(settings().cache_dir, std::filesystem::perms::all);
  EXPECT_EQ(answers(settings(), source_), kMissed);
  const MissExplanation miss = explanation_of(source_);
  ASSERT_EQ(miss.unused.size(), 1u);
  EXPECT_EQ(miss.unused[0].name, settings().cache_dir);
  EXPECT_THAT(miss.unused[0].reason, HasSubstr("every user can write it"));
}

TEST_F(ExplainMissTest, DigestsSurviveTheirText) {
  const std::vector<InputDigest> inputs = input_digests(source_);
  EXPECT_EQ(parse_inputs(inputs_text(inputs)), inputs);
  EXPECT_EQ(parse_inputs(""), std::vector<InputDigest>{});
  for (const char* text : {"0", "00000000000000000", "0000000g00000000", "0000000A00000000", " 000000000000000"}) {
    EXPECT_EQ(parse_inputs(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace cubit::runtime
