// Proves: a bundle answers the requests that a store must answer; damage, forged entries and files of others are misses
// with a reason; opening a store reads one page; and with public keys nothing else than what they signed is loaded.
#include "runtime/bundle/bundle_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "base/error.hpp"
#include "tests/runtime/bundle_edits.hpp"
#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

StoreRequest request_for(const Artifact& artifact) {
  return {.key = artifact.key,
          .target = artifact.target,
          .entry_point = artifact.entry_point,
          .code = artifact.code,
          .exact = artifact.compiler};
}

class BundleStoreTest : public testing::Test {
 protected:
  static constexpr std::size_t kEntries = 40;

  BundleStore in_memory(std::string_view content, const std::vector<PublicKey>& signers = {}) {
    return {BundleMemory{"memory", test::as_bytes(content)}, signers, lines_.sink()};
  }
  BundleStore in_file(std::string_view content, int mode, const Trust& trust = {},
                      const std::vector<PublicKey>& signers = {}) {
    test::write_whole(path_, content);
    std::filesystem::permissions(path_, static_cast<std::filesystem::perms>(mode));
    return {path_, trust, signers, lines_.sink()};
  }
  std::size_t loads(const BundleStore& store) const {
    std::size_t count = 0;
    for (const Artifact& artifact : artifacts_) {
      const auto found = store.find(request_for(artifact));
      if (found && test::is_same({*found, "0.1.0"}, artifact)) ++count;
    }
    return count;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "a.cubit";
  test::Lines lines_;
  std::vector<Artifact> artifacts_ = test::sample_artifacts(kEntries);
  std::string bytes_ = test::sample_bundle(kEntries);
};

TEST_F(BundleStoreTest, EveryKernelIsFoundInMemoryAndInAFile) {
  const BundleStore memory = in_memory(bytes_);
  const BundleStore file = in_file(bytes_, 0644);
  for (const BundleStore* store : {&memory, &file}) {
    EXPECT_EQ(loads(*store), kEntries);
    EXPECT_TRUE(store->holds(request_for(artifacts_[7])));
    const StoreReport report = store->report();
    EXPECT_EQ(report.kind, "bundle");
    EXPECT_TRUE(report.readable);
    EXPECT_FALSE(report.writable);
    EXPECT_EQ(report.hits, kEntries);
    EXPECT_EQ(report.misses, 0u);
    EXPECT_EQ(report.refused, 0u);
  }
  EXPECT_EQ(file.report().name, path_.string());
  EXPECT_THAT(lines_.all(), IsEmpty());
}

/// The first three artifacts have one key. Their compilers are 12.0.88, 13.1.88 and 12.2.88.
TEST_F(BundleStoreTest, TheNewestAcceptedCompilerAnswers) {
  const BundleStore store = in_memory(bytes_);
  StoreRequest request = request_for(artifacts_[0]);
  request.exact.reset();
  EXPECT_EQ(store.find(request)->compiler, artifacts_[1].compiler);
  request.newest_major = 12;
  EXPECT_EQ(store.find(request)->compiler, artifacts_[2].compiler);
  request.exact = CompilerVersion{12, 9, 1};
  EXPECT_FALSE(store.holds(request));
  EXPECT_EQ(store.find(request), std::nullopt);
}

TEST_F(BundleStoreTest, ARequestForOtherCodeIsAMiss) {
  const BundleStore store = in_memory(bytes_);
  const std::vector<std::function<void(StoreRequest&)>> changes = {
      [](StoreRequest& request) { request.key.bytes[0] ^= 1; },
      [](StoreRequest& request) { request.code = codegen::Code::ptx; },
      [](StoreRequest& request) { request.target = "sm_75"; },
      [](StoreRequest& request) { request.entry_point = "other"; },
  };
  for (const auto& change : changes) {
    StoreRequest request = request_for(artifacts_[7]);
    change(request);
    EXPECT_EQ(store.find(request), std::nullopt);
  }
  EXPECT_EQ(store.report().misses, 4u);
  EXPECT_EQ(store.report().refused, 2u) << "a good key with another target or entry point is a forged entry";
}

TEST_F(BundleStoreTest, ADamagedEntryIsAMissWithAReason) {
  bytes_[bytes_.size() - 3] ^= 1;
  const BundleStore store = in_memory(bytes_);
  EXPECT_EQ(loads(store), kEntries - 1);
  EXPECT_EQ(store.report().refused, 1u);
  EXPECT_EQ(store.report().misses, 1u);
  EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr("memory"), HasSubstr("does not match its hash"))));
}

TEST_F(BundleStoreTest, ADamagedIndexIsAMissWithAReason) {
  const BundleLayout layout(kEntries);
  bytes_[layout.page_offset(1, 0) + 40] ^= 1;
  const BundleStore store = in_memory(bytes_);
  EXPECT_TRUE(store.report().readable) << "nothing but the header is read at the start";
  EXPECT_FALSE(store.holds(request_for(artifacts_[0])));
  EXPECT_EQ(loads(store), 0u);
  EXPECT_THAT(lines_.all(), Each(HasSubstr("page 0 of level 1")));
}

TEST_F(BundleStoreTest, ABundleThatCannotBeUsedIsAnEmptyStoreWithAReason) {
  const BundleStore none(folder_.path() / "none", {}, {}, lines_.sink());
  EXPECT_THAT(none.report().trouble, HasSubstr("cannot be opened"));
  EXPECT_FALSE(none.report().readable);
  EXPECT_FALSE(none.holds(request_for(artifacts_[0])));
  EXPECT_EQ(loads(none), 0u);
  EXPECT_THAT(in_memory("text").report().trouble, HasSubstr("too short"));
  std::filesystem::create_symlink(folder_.path() / "none", path_);
  EXPECT_THAT(BundleStore(path_, {}, {}, lines_.sink()).report().trouble,
              HasSubstr("it is a symbolic link, whose target others may choose; give the path of a bundle"));
  EXPECT_EQ(lines_.all().size(), 3u);
}

TEST_F(BundleStoreTest, AFileThatOthersCanWriteIsRefusedInOneSentence) {
  EXPECT_EQ(loads(in_file(bytes_, 0666)), 0u);
  EXPECT_EQ(loads(in_file(bytes_, 0664)), 0u);
  EXPECT_THAT(lines_.all(), ElementsAre(AllOf(HasSubstr("every user can write it"), HasSubstr("copy the bundle")),
                                        HasSubstr("its group can write it")));
  const std::string group = "group:" + std::to_string(::getegid());
  EXPECT_EQ(loads(in_file(bytes_, 0664, Trust::parse(group))), kEntries);
}

TEST_F(BundleStoreTest, AFileOfAnotherUserIsRefusedUnlessThatUserIsTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  constexpr uid_t kStranger = 54321;
  test::write_whole(path_, bytes_);
  ASSERT_EQ(::chown(path_.c_str(), kStranger, kStranger), 0);
  EXPECT_EQ(loads(BundleStore(path_, {}, {}, lines_.sink())), 0u);
  EXPECT_THAT(lines_.all(), ElementsAre(HasSubstr("neither the current user nor root")));
  EXPECT_EQ(loads(BundleStore(path_, Trust::parse("user:54321"), {}, lines_.sink())), kEntries);
}

TEST_F(BundleStoreTest, ASignatureMakesAFileThatOthersCanWriteUsable) {
  const KeyPair keys = make_keys();
  EXPECT_EQ(loads(in_file(test::signed_by(bytes_, keys), 0666, {}, {keys.signer})), kEntries);
  EXPECT_EQ(loads(in_file(test::signed_by(bytes_, keys), 0666)), 0u) << "without keys a signature proves nothing";
}

/// Everything that is not signed by a given key gives 0 loads, in files of one's own and in memory.
TEST_F(BundleStoreTest, WithKeysOnlyTheirSignaturesCount) {
  const KeyPair keys = make_keys();
  const KeyPair others = make_keys();
  const std::string good = test::signed_by(bytes_, keys);
  EXPECT_EQ(loads(in_memory(good, {others.signer, keys.signer})), kEntries);
  EXPECT_EQ(loads(in_file(good, 0644, {}, {keys.signer})), kEntries);
  EXPECT_THAT(lines_.all(), IsEmpty());
  std::string wrong = good;
  wrong[kBundleSignatureOffset + 40] ^= 1;
  std::string claimed = test::signed_by(bytes_, others);
  claimed.replace(kBundleSignatureOffset, keys.signer.bytes.size(), good, kBundleSignatureOffset,
                  keys.signer.bytes.size());
  std::string changed = good;
  changed[changed.size() - 3] ^= 1;
  test::repair_hashes(changed);
  const std::string moved = std::string(test::sample_bundle(kEntries + 1))
                                .replace(kBundleSignatureOffset, kBundleHeaderBytes - kBundleSignatureOffset, good,
                                         kBundleSignatureOffset, kBundleHeaderBytes - kBundleSignatureOffset);
  const std::map<std::string, std::string> bad = {{"unsigned", bytes_},
                                                  {"wrongly signed", wrong},
                                                  {"signed by another key", test::signed_by(bytes_, others)},
                                                  {"another key's signature under this key", claimed},
                                                  {"other content under the signature", changed},
                                                  {"the signature of another bundle", moved}};
  for (const auto& [what, content] : bad) {
    EXPECT_EQ(loads(in_memory(content, {keys.signer})), 0u) << what;
    const BundleStore file = in_file(content, 0644, {}, {keys.signer});
    EXPECT_EQ(loads(file), 0u) << what;
    EXPECT_FALSE(file.report().readable) << what;
    EXPECT_THAT(file.report().trouble, HasSubstr("sign")) << what;
  }
}

TEST_F(BundleStoreTest, VisitPassesEveryEntryWithoutItsCode) {
  std::vector<std::string> seen;
  in_memory(bytes_).visit([&](const Artifact& artifact) {
    EXPECT_TRUE(artifact.cubin.empty());
    seen.push_back(artifact.descriptor);
  });
  EXPECT_EQ(seen.size(), kEntries);
}

}  // namespace
}  // namespace cubit::runtime
