// Proves, with the real program: shards of a list merge to the bytes of one run; a killed run goes on where it stopped;
// every verb of cubit bundle does what its help says; and damage and bad input end in the right exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "runtime/bundle/writer.hpp"
#include "runtime/cache/disk_cache.hpp"
#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::Program;
using test::Result;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

/// Kernels that NVRTC compiles quickly: 4 for each of two architectures.
const Words kSmall = {"compile", "stream_read", "stream_copy", "merge:head_dim=64", "merge", "--arch", "sm_80,sm_90a"};

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A program whose cache holds the small kernels, and their bundle.
class BundleCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (!program.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine";
    const Result result = program.run(kSmall + Words{"--bundle", whole});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("8 entries"));
  }

  std::string file(const std::string& name) const { return program.folder().path(name); }
  /// The entries that `cubit bundle list` reports.
  nlohmann::json entries(const std::string& bundle) const {
    return program.run({"bundle", "list", bundle, "--json"}).json();
  }
  /// The files of the entries in the cache folder, in any order.
  std::vector<std::filesystem::path> cache_entries() const {
    std::vector<std::filesystem::path> files;
    for (const auto& item : std::filesystem::recursive_directory_iterator(program.cache())) {
      if (item.path().extension() == ".cubit") files.push_back(item.path());
    }
    return files;
  }
  /// `bundle create` says why one of the 8 entries is left out.
  void expect_one_left_out(const std::string& reason) const {
    const Result result = program.run({"bundle", "create", "--output", file("created")});
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_THAT(result.err, HasSubstr(reason));
    EXPECT_EQ(entries(file("created")).size(), 7u);
  }
  void expect_good(const Words& words) const {
    const Result result = program.run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
  }
  void expect_refusal(const Words& words, const std::string& part) const {
    const Result result = program.run(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }

  Program program;
  std::string whole = program.folder().path("whole.cubit");
};

TEST_F(BundleCommand, MergedShardsAreTheBytesOfOneRun) {
  Words shards;
  for (const char* shard : {"3/3", "1/3", "2/3"}) {
    shards.push_back(file(std::string("shard") + shard[0]));
    expect_good(kSmall + Words{"--bundle", shards.back(), "--shard", shard, "--jobs", "2"});
  }
  EXPECT_EQ(entries(shards[0]).size() + entries(shards[1]).size() + entries(shards[2]).size(), 8u);
  expect_good(Words{"bundle", "merge"} + shards + Words{"--output", file("merged")});
  EXPECT_EQ(test::read_file(file("merged")), test::read_file(whole));
}

TEST_F(BundleCommand, AnotherCompilationGivesTheSameBytes) {
  const Program other;
  const std::string again = other.folder().path("again.cubit");
  EXPECT_EQ(other.run(kSmall + Words{"--bundle", again, "--jobs", "2"}).exit_code, 0);
  EXPECT_EQ(test::read_file(again), test::read_file(whole));
}

TEST_F(BundleCommand, AKilledRunGoesOnWhereItStopped) {
  // The shell kills the program as soon as the cache holds an entry. On a busy machine the program may be faster.
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Program other;
    const Result killed = other.run_in_shell(
        "\"$0\" \"$@\" --jobs 1 & child=$!; "
        "while kill -0 $child 2>/dev/null && ! find \"" +
            other.cache() +
            "\" -name '*.cubit' 2>/dev/null | grep -q .; do sleep 0.01; done; "
            "kill -9 $child; wait $child",
        kSmall + Words{"--bundle", other.folder().path("killed.cubit")});
    if (killed.exit_code != 128 + 9) continue;
    EXPECT_FALSE(std::filesystem::exists(other.folder().path("killed.cubit")));
    const std::string again = other.folder().path("again.cubit");
    const nlohmann::json report = other.run(kSmall + Words{"--bundle", again, "--json"}).json();
    ASSERT_EQ(report.size(), 8u);
    EXPECT_TRUE(std::ranges::any_of(report, [](const auto& row) { return !row.at("compiled").template get<bool>(); }));
    EXPECT_EQ(test::read_file(again), test::read_file(whole));
    return;
  }
  FAIL() << "the program always ended before it could be killed";
}

TEST_F(BundleCommand, AFailedKernelLeavesTheOthersInTheBundle) {
  const std::string score = program.folder().write("bad.cuh", "modify_score is no device code\n");
  const Result result = program.run({"compile", "stream_read", "gqa_decode:score=bad", "--score", "bad=" + score,
                                     "--arch", "sm_80", "--bundle", file("some")});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_THAT(result.out, HasSubstr("1 failed"));
  EXPECT_THAT(result.out, HasSubstr("gqa_decode:score=bad"));
  EXPECT_EQ(entries(file("some")).size(), 1u);
}

TEST_F(BundleCommand, AFailedRunDoesNotReplaceABetterBundle) {
  const std::string before = test::read_file(whole);
  const std::string score = "bad=" + program.folder().write("bad.cuh", "modify_score is no device code\n");
  const Words failing = {"compile", "gqa_decode:score=bad", "--score", score, "--arch", "sm_80", "--bundle"};
  const auto expect_unwritten = [&](const Words& words, const std::string& reason) {
    const Result result = program.run(words);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_THAT(result.err, HasSubstr("the bundle is not written, because 1 kernel failed" + reason));
  };
  expect_unwritten(failing + Words{whole}, " and no other is left to write");
  expect_unwritten(failing + Words{whole, "stream_read"}, ", and the file has 8 entries while this run made 1");
  EXPECT_EQ(test::read_file(whole), before);
  expect_unwritten(failing + Words{file("none")}, " and no other is left to write");
  EXPECT_FALSE(std::filesystem::exists(file("none")));
}

/// The cache holds an entry of a newer NVRTC, which a GPU's driver may not load.
TEST_F(BundleCommand, ShippedKernelsComeFromThisMachinesCompiler) {
  const std::string bytes = test::read_file(cache_entries().at(0).string());
  runtime::Artifact newer = runtime::deserialise(bytes);
  newer.compiler = {99, 0, 0};
  ASSERT_TRUE(runtime::DiskCache(program.cache(), {}).publish(newer));
  expect_good(kSmall + Words{"--bundle", file("shipped")});
  EXPECT_EQ(test::read_file(file("shipped")), test::read_file(whole));
  expect_good(kSmall + Words{"--output", file("folder"), "--bundle", file("both")});
  EXPECT_EQ(test::read_file(file("both")), test::read_file(whole));
  const Result any = program.run_in_shell("CUBIT_COMPILER=any \"$0\" \"$@\"", kSmall + Words{"--bundle", file("any")});
  EXPECT_EQ(any.exit_code, 0) << any.err;
  EXPECT_TRUE(
      std::ranges::any_of(entries(file("any")), [](const auto& row) { return row.at("compiler") == "99.0.0"; }));
}

/// A bundle of thousands of kernels is kept compressed alone. The kernels here are padded to a size that shows.
TEST_F(BundleCommand, CompiledCodeDoesNotStayInMemory) {
#ifdef CUBIT_SANITIZED
  GTEST_SKIP() << "a sanitizer keeps freed memory";
#endif
  constexpr long kCodeBytes = 40L << 20;
  const runtime::DiskCache cache(program.cache(), {});
  for (runtime::CacheEntry& entry : cache.list()) {
    ASSERT_TRUE(entry.artifact);
    entry.artifact->cubin.resize(kCodeBytes);
    ASSERT_TRUE(cache.publish(*entry.artifact));
  }
  const Result one = program.run({"compile", "merge", "--arch", "sm_80", "--bundle", file("one"), "--jobs", "1"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const Result all = program.run(kSmall + Words{"--bundle", file("all"), "--jobs", "1"});
  ASSERT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("8 cached"));
  EXPECT_GT(one.peak_bytes, kCodeBytes);
  EXPECT_LT(all.peak_bytes, one.peak_bytes + 3 * kCodeBytes);
}

TEST_F(BundleCommand, AShardHoldsTheCubinAndThePtxOfAKernel) {
  for (const char* shard : {"1/2", "2/2"}) {
    expect_good({"compile", "stream_read", "stream_copy", "--arch", "sm_80", "--ptx", "--shard", shard, "--bundle",
                 file("shard")});
    const nlohmann::json rows = entries(file("shard"));
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_NE(rows.at(0).at("code"), rows.at(1).at("code"));
    EXPECT_EQ(rows.at(0).at("descriptor"), rows.at(1).at("descriptor"));
  }
}

TEST_F(BundleCommand, TheCacheFolderGivesTheSameKernels) {
  expect_good({"bundle", "create", "--output", file("created")});
  expect_good({"bundle", "diff", whole, file("created")});
  expect_good({"bundle", "create", "--output", file("one"), "--arch", "sm_80"});
  EXPECT_EQ(entries(file("one")).size(), 4u);
}

TEST_F(BundleCommand, ADamagedCacheEntryIsReportedAndLeftOut) {
  std::filesystem::resize_file(cache_entries().at(0), 100);
  expect_one_left_out("lengths do not add up");
}

/// An engine does not use such an entry either: everybody could have written it.
TEST_F(BundleCommand, AnEntryThatOthersCanWriteIsReportedAndLeftOut) {
  std::filesystem::permissions(cache_entries().at(0), std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  expect_one_left_out("it is not used: ");
}

TEST_F(BundleCommand, AnEntryUnderTheNameOfAnotherIsReportedAndLeftOut) {
  const auto files = cache_entries();
  std::filesystem::rename(files.at(0), files.at(1));
  const Result result = program.run({"bundle", "create", "--output", file("created")});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_THAT(result.err, HasSubstr("its content belongs to " + files.at(0).stem().string()));
  EXPECT_EQ(entries(file("created")).size(), 6u);
}

TEST_F(BundleCommand, ACacheFolderThatOthersCanWriteIsRefused) {
  std::filesystem::permissions(program.cache(), std::filesystem::perms::all);
  expect_refusal({"bundle", "create", "--output", file("created")}, "cache folder");
  EXPECT_FALSE(std::filesystem::exists(file("created")));
}

TEST_F(BundleCommand, SplitPartsMergeToTheWhole) {
  expect_good({"bundle", "split", whole, "--arch", "sm_80", "--output", file("a")});
  expect_good({"bundle", "split", whole, "--arch", "sm_90a", "--output", file("b")});
  for (const auto& row : entries(file("a"))) EXPECT_EQ(row.at("architecture"), "sm_80");
  expect_good({"bundle", "merge", file("a"), file("b"), "--output", file("merged")});
  EXPECT_EQ(test::read_file(file("merged")), test::read_file(whole));
  const Result result = program.run({"bundle", "diff", file("a"), whole, "--json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.json().size(), 4u);
  EXPECT_EQ(result.json().at(0).at("difference"), "only in the second");
  expect_refusal({"bundle", "split", whole, "--arch", "sm_75", "--output", file("c")}, "no entry for it");
}

/// An engine without keys refuses a bundle that a group can write, and another user loads bundles.
TEST_F(BundleCommand, TheUmaskDoesNotDecideWhoReadsAndWritesABundle) {
  for (const char* const umask : {"002", "077"}) {
    const Result result = program.run_in_shell(std::string("umask ") + umask + "; \"$0\" \"$@\"",
                                               {"bundle", "merge", whole, "--output", file(umask)});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    using std::filesystem::perms;
    EXPECT_EQ(std::filesystem::status(file(umask)).permissions(),
              perms::owner_read | perms::owner_write | perms::group_read | perms::others_read)
        << "umask " << umask;
  }
}

TEST_F(BundleCommand, ExtractedCubinsAreThoseOfCompile) {
  expect_good(kSmall + Words{"--output", file("cubins")});
  expect_good({"bundle", "extract", whole, "--output", file("extracted")});
  std::vector<std::string> compiled;
  std::vector<std::string> extracted;
  for (const auto& item : std::filesystem::directory_iterator(file("cubins"))) {
    // The folder is also a cache folder, whose entries lie in a subfolder.
    if (item.is_regular_file()) compiled.push_back(test::read_file(item.path().string()));
  }
  for (const auto& item : std::filesystem::directory_iterator(file("extracted"))) {
    extracted.push_back(test::read_file(item.path().string()));
  }
  EXPECT_EQ(compiled.size(), 8u);
  EXPECT_THAT(extracted, testing::UnorderedElementsAreArray(compiled));
}

TEST_F(BundleCommand, ShowAndListStateTheFactsOfTheKernels) {
  const nlohmann::json report = program.run(kSmall + Words{"--json"}).json();
  const nlohmann::json rows = entries(whole);
  for (const auto& kernel : report) {
    const auto row = std::ranges::find_if(rows, [&](const auto& each) { return each.at("key") == kernel.at("key"); });
    ASSERT_NE(row, rows.end());
    EXPECT_EQ(row->at("descriptor"), kernel.at("descriptor"));
    EXPECT_EQ(row->at("architecture"), kernel.at("arch"));
    EXPECT_EQ(row->at("registers"), kernel.at("registers"));
    EXPECT_EQ(row->at("code_bytes"), kernel.at("cubin_bytes"));
    EXPECT_EQ(row->at("library"), "0.1.0");
  }
  const nlohmann::json shown = program.run({"bundle", "show", whole, "--json"}).json();
  EXPECT_EQ(shown.at("entries"), 8);
  EXPECT_EQ(shown.at("architectures"), (nlohmann::json{{"sm_80", 4}, {"sm_90a", 4}}));
  const auto key = rows.at(0).at("key").get<std::string>();
  EXPECT_THAT(program.run({"bundle", "show", whole, "--key", key.substr(0, 16)}).out, HasSubstr(key));
  EXPECT_THAT(program.run({"bundle", "list", whole}).out, HasSubstr("merge:head_dim=64"));
  expect_refusal({"bundle", "show", whole, "--key", "xyz"}, "no entry has such a key");
}

TEST_F(BundleCommand, PtxIsStoredBesideTheCubin) {
  expect_good({"compile", "stream_read", "--arch", "sm_80", "--ptx", "--bundle", file("both")});
  const nlohmann::json rows = entries(file("both"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_NE(rows.at(0).at("code"), rows.at(1).at("code"));
  expect_good({"bundle", "extract", file("both"), "--output", file("texts")});
  bool has_text = false;
  for (const auto& item : std::filesystem::directory_iterator(file("texts"))) {
    has_text |=
        item.path().extension() == ".ptx" && test::read_file(item.path().string()).find(".entry") != std::string::npos;
  }
  EXPECT_TRUE(has_text);
}

TEST_F(BundleCommand, VerifyFindsAFlippedByte) {
  expect_good({"bundle", "verify", whole});
  std::string bytes = test::read_file(whole);
  bytes[bytes.size() / 2] ^= 1;
  const Result result = program.run({"bundle", "verify", program.folder().write("damaged", bytes)});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("does not match its hash"));
  expect_refusal({"bundle", "list", file("damaged")}, "does not match its hash");
  expect_refusal({"bundle", "merge", file("damaged"), "--output", file("joined")}, "does not match its hash");
  EXPECT_FALSE(std::filesystem::exists(file("joined")));
}

/// The bundle of one entry with the descriptor, as only a hostile writer makes it.
std::string bundle_of(const std::string& descriptor) {
  runtime::Artifact artifact;
  artifact.compiler = {13, 0, 88};
  artifact.descriptor = descriptor;
  artifact.target = "sm_80";
  artifact.entry_point = "f";
  artifact.cubin.resize(64);
  runtime::BundleWriter writer;
  writer.add(runtime::pack(artifact, "0.1.0"));
  return writer.bytes();
}

TEST_F(BundleCommand, ASignedBundleHasTheSameRootAndIsVerifiedByItsKey) {
  expect_good({"bundle", "keygen", "--output", file("release")});
  expect_good({"bundle", "keygen", "--output", file("other")});
  expect_refusal({"bundle", "keygen", "--output", file("release")}, "give the path of a new file");
  const auto mode = std::filesystem::status(file("release.secret")).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const auto shown = [&] { return program.run({"bundle", "show", whole, "--json"}).json(); };
  const nlohmann::json before = shown();
  EXPECT_EQ(before.at("signer"), "");
  expect_refusal({"bundle", "sign", whole, "--key", file("release.public")}, "does not hold a secret key");
  expect_good({"bundle", "sign", whole, "--key", file("release.secret")});
  std::filesystem::permissions(file("release.secret"), std::filesystem::perms(0640));
  expect_refusal({"bundle", "sign", whole, "--key", file("release.secret")},
                 "others can read or write this secret key");
  const std::string signer = test::read_file(file("release.public")).substr(0, 64);
  EXPECT_EQ(shown().at("signer"), signer);
  EXPECT_EQ(shown().at("root"), before.at("root"));
  expect_good({"bundle", "verify", whole, "--signer", signer});
  const std::string other = test::read_file(file("other.public")).substr(0, 64);
  EXPECT_EQ(program.run({"bundle", "verify", whole, "--signer", other}).exit_code, 1);
  expect_refusal({"bundle", "verify", whole, "--signer", "12"}, "it is not a public key");
  expect_good({"bundle", "split", whole, "--arch", "sm_80", "--output", file("part")});
  EXPECT_EQ(program.run({"bundle", "verify", file("part"), "--signer", signer}).exit_code, 1) << "a part is unsigned";
}

TEST_F(BundleCommand, AnEngineWithThePublicKeyLoadsTheSignedBundleAlone) {
  expect_good({"bundle", "keygen", "--output", file("release")});
  const std::string command = "CUBIT_PUBLIC_KEYS=$(cat " + file("release.public") + ") CUBIT_BUNDLES=" + whole +
                              " CUBIT_COMPILE=never \"$0\" \"$@\"";
  const Words words = {"compile", "merge", "--arch", "sm_80"};
  const Result refused = program.run_in_shell(command, words);
  EXPECT_NE(refused.exit_code, 0) << "the cache folder holds the kernel, and the bundle is not signed";
  EXPECT_THAT(refused.err, HasSubstr("sign the bundle"));
  expect_good({"bundle", "sign", whole, "--key", file("release.secret")});
  const Result served = program.run_in_shell(command, words);
  EXPECT_EQ(served.exit_code, 0) << served.err;
}

/// What the error of such an engine advises works beside its public keys.
TEST_F(BundleCommand, KernelsToSignAreCompiledBesideThePublicKeys) {
  expect_good({"bundle", "keygen", "--output", file("release")});
  const std::string command = "CUBIT_PUBLIC_KEYS=$(cat " + file("release.public") + ") \"$0\" \"$@\"";
  const Result made =
      program.run_in_shell(command, {"compile", "merge", "--arch", "sm_80", "--bundle", file("new.cubit")});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(entries(file("new.cubit")).size(), 1u);
}

TEST_F(BundleCommand, AFileThatIsNoBundleIsNotReplaced) {
  const std::string notes = program.folder().write("notes.txt", "a list of things\n");
  expect_refusal({"compile", "stream_read", "--arch", "sm_80", "--bundle", notes},
                 "the file is not a bundle, and it would be replaced");
  EXPECT_EQ(test::read_file(notes), "a list of things\n");
}

TEST_F(BundleCommand, WhoReplacesASignedBundleIsTold) {
  const Words words = {"compile", "stream_read", "--arch", "sm_80", "--bundle", whole};
  EXPECT_THAT(program.run(words).out, testing::Not(HasSubstr("was signed")));
  expect_good({"bundle", "keygen", "--output", file("release")});
  expect_good({"bundle", "sign", whole, "--key", file("release.secret")});
  EXPECT_THAT(program.run(words).out, HasSubstr("the bundle before was signed"));
}

TEST_F(BundleCommand, AMissIsExplainedForThePublicKeysOfTheEnvironment) {
  expect_good({"bundle", "keygen", "--output", file("release")});
  const std::string command =
      "CUBIT_PUBLIC_KEYS=$(cat " + file("release.public") + ") CUBIT_BUNDLES=" + whole + " \"$0\" \"$@\"";
  const Words words = {"explain-miss", "merge", "--arch", "sm_80"};
  const Result refused = program.run_in_shell(command, words);
  EXPECT_EQ(refused.exit_code, 1) << "the cache folder holds the kernel, and an engine with a key does not use it";
  EXPECT_THAT(refused.out, testing::AllOf(HasSubstr("merge: in no store"), HasSubstr(program.cache() + " is not used"),
                                          HasSubstr(whole + " is not used"), HasSubstr("it is not signed")));
  expect_good({"bundle", "sign", whole, "--key", file("release.secret")});
  const Result served = program.run_in_shell(command, words);
  EXPECT_EQ(served.exit_code, 0) << served.err;
  EXPECT_THAT(served.out, HasSubstr("cached in " + whole));
}

TEST_F(BundleCommand, TheDoctorExaminesTheStoresOfAnEngineWithThePublicKeysOfTheEnvironment) {
  expect_good({"bundle", "keygen", "--output", file("release")});
  const Words words = {"cache", "doctor"};
  const std::string bundles = "CUBIT_BUNDLES=" + whole + " \"$0\" \"$@\"";
  const std::string keys = "CUBIT_PUBLIC_KEYS=$(cat " + file("release.public") + ") ";
  const Result without_keys = program.run_in_shell(bundles, words);
  EXPECT_EQ(without_keys.exit_code, 0) << without_keys.out;
  EXPECT_THAT(without_keys.out, testing::AllOf(HasSubstr("folder " + program.cache() + ": good"),
                                               HasSubstr("bundle " + whole + ": good")));
  const Result unsigned_bundle = program.run_in_shell(keys + bundles, words);
  EXPECT_EQ(unsigned_bundle.exit_code, 1) << unsigned_bundle.out;
  EXPECT_THAT(unsigned_bundle.out, testing::AllOf(HasSubstr("it is not signed"), HasSubstr("entries: good"),
                                                  testing::Not(HasSubstr("folder " + program.cache()))));
  const Result nothing = program.run_in_shell(keys + "\"$0\" \"$@\"", words);
  EXPECT_EQ(nothing.exit_code, 1) << nothing.out;
  EXPECT_THAT(nothing.out, HasSubstr("bundles: none is named"));
  expect_good({"bundle", "sign", whole, "--key", file("release.secret")});
  const Result signed_bundle = program.run_in_shell(keys + bundles, words);
  EXPECT_EQ(signed_bundle.exit_code, 0) << signed_bundle.out;
  const Result bad_key = program.run_in_shell("CUBIT_PUBLIC_KEYS=12 " + bundles, words);
  EXPECT_EQ(bad_key.exit_code, 2) << bad_key.out;
}

TEST_F(BundleCommand, AMissIsExplainedByTheNearestEntry) {
  expect_good({"explain-miss", "merge", "--arch", "sm_80"});
  const Result missed = program.run({"explain-miss", "merge:head_dim=256", "--arch", "sm_80"});
  EXPECT_EQ(missed.exit_code, 1) << missed.err;
  EXPECT_THAT(missed.out, testing::AllOf(HasSubstr("the nearest entry is merge"), HasSubstr("plan.cuh differs")));
  const Result elsewhere = program.run({"explain-miss", "merge", "--arch", "sm_75"});
  EXPECT_THAT(elsewhere.out, HasSubstr("no store has an entry for sm_75"));
  expect_refusal({"explain-miss", "merge", "--arch", "sm_80", "--cache-dir", file("typo")}, "does not exist");
  EXPECT_FALSE(std::filesystem::exists(file("typo")));
  const std::string command = "CUBIT_CACHE_DIR= CUBIT_BUNDLES=" + whole + " \"$0\" \"$@\"";
  const Result bundled = program.run_in_shell(command, {"explain-miss", "merge:head_dim=256", "--arch", "sm_80"});
  EXPECT_EQ(bundled.exit_code, 1) << bundled.err;
  EXPECT_THAT(bundled.out, testing::AllOf(HasSubstr("whole.cubit"), HasSubstr("plan.cuh differs")));
}

TEST(BundleInput, AnExtractedFileHasAPlainName) {
  using namespace std::string_literals;
  const Program program;
  const std::string out = program.folder().path("extracted");
  const auto extract = [&](const std::string& descriptor) {
    return program.run(
        {"bundle", "extract", program.folder().write("hostile", bundle_of(descriptor)), "--output", out});
  };
  for (const std::string& descriptor :
       {".bashrc\0:x=1"s, "a\0b"s, "../up"s, "/tmp/x"s, ".hidden"s, "-rf"s, "a b"s, "a\nb"s, ""s}) {
    const Result result = extract(descriptor);
    EXPECT_EQ(result.exit_code, 2) << descriptor;
    EXPECT_THAT(result.err, HasSubstr("begins with a letter or a digit"));
    EXPECT_FALSE(std::filesystem::exists(out)) << descriptor;
  }
  EXPECT_EQ(extract("stream_read:x=/../\0"s).exit_code, 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out), {}), 1);
}

TEST(BundleInput, BadInputIsOneSentence) {
  const Program program;
  const std::string text = program.folder().write("text", "no bundle");
  const std::string out = program.folder().path("out");
  const auto expect = [&](const Words& words, const std::string& part) {
    const Result result = program.run(words);
    EXPECT_EQ(result.exit_code, 2) << words.at(1);
    EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  for (const char* verb : {"list", "show"}) {
    expect({"bundle", verb, text}, "too short");
    expect({"bundle", verb, program.folder().path("none")}, "cannot be opened");
  }
  expect({"bundle", "verify", program.folder().path("none")}, "none");
  expect({"bundle", "merge", text, "--output", text}, "text");
  for (const char* shard : {"0/3", "4/3", "3", "a/b", "1/", "/2", "1/2/3", "-1/2", "1/1000000"}) {
    expect({"compile", "stream_read", "--arch", "sm_80", "--bundle", out, "--shard", shard}, "such as 3/16");
  }
}

}  // namespace
}  // namespace cubit::tools
