// Proves: a miss is explained by the entry that shares the most inputs, and by the inputs that differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST_F(ExplainMissTest, AnotherArchitecturesEntryIsNotNear) {
  codegen::KernelSource other = source_;
  other.target = "sm_80";
  store(other);
  EXPECT_FALSE(explanation_of(source_).nearest);
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
