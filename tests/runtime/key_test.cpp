// Proves: every part of the compiler's input changes the key, nothing else does, and moving a byte between fields
// changes the key.
#include "runtime/cache/key.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "tests/runtime/support.hpp"

namespace cubit::runtime {
namespace {

codegen::KernelSource full_source() {
  codegen::KernelSource source = test::small_source();
  source.headers = {{"a.cuh", "text a"}, {"b.cuh", "text b"}};
  source.options = {"--one", "--two"};
  return source;
}

/// References to all strings of the compiler's input.
std::vector<std::string*> inputs(codegen::KernelSource& source) {
  std::vector<std::string*> all = {&source.template_name, &source.template_text};
  for (auto& header : source.headers) {
    all.push_back(&header.name);
    all.push_back(&header.text);
  }
  for (auto& option : source.options) all.push_back(&option);
  all.push_back(&source.target);
  all.push_back(&source.entry_point);
  return all;
}

class Keys {
 public:
  void expect_new(const RequestKey& key, const std::string& what) {
    EXPECT_TRUE(seen_.insert(key).second) << what << " gave a key that was there already";
  }

 private:
  std::set<RequestKey> seen_;
};

TEST(KeyTest, EveryBitOfEveryInputCounts) {
  Keys keys;
  codegen::KernelSource source = full_source();
  keys.expect_new(request_key(source), "the source itself");
  for (std::string* input : inputs(source)) {
    for (char& byte : *input) {
      for (int bit = 0; bit < 8; ++bit) {
        const char before = byte;
        byte = static_cast<char>(byte ^ (1 << bit));
        keys.expect_new(request_key(source), "flipping a bit of " + *input);
        byte = before;
      }
    }
  }
}

TEST(KeyTest, LengthOfEveryInputCounts) {
  Keys keys;
  codegen::KernelSource source = full_source();
  keys.expect_new(request_key(source), "the source itself");
  for (std::string* input : inputs(source)) {
    const std::string before = *input;
    input->push_back('\0');
    keys.expect_new(request_key(source), "appending a zero to " + before);
    *input = before.substr(0, before.size() - 1);
    keys.expect_new(request_key(source), "shortening " + before);
    *input = "";
    keys.expect_new(request_key(source), "emptying " + before);
    *input = before;
  }
}

TEST(KeyTest, TheKindOfCodeCounts) {
  codegen::KernelSource source = full_source();
  const RequestKey cubin = request_key(source);
  source.code = codegen::Code::ptx;
  EXPECT_NE(request_key(source), cubin);
}

TEST(KeyTest, BytesCannotMoveBetweenNeighbours) {
  Keys keys;
  codegen::KernelSource source = full_source();
  keys.expect_new(request_key(source), "the source itself");
  const auto all = inputs(source);
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const auto before = std::pair(*all[i], *all[i + 1]);
    all[i + 1]->insert(0, 1, all[i]->back());
    all[i]->pop_back();
    keys.expect_new(request_key(source), "moving a byte behind " + before.first);
    std::tie(*all[i], *all[i + 1]) = before;
  }
}

TEST(KeyTest, OrderAndCountOfListsCount) {
  Keys keys;
  keys.expect_new(request_key(full_source()), "the source itself");
  auto source = full_source();
  std::swap(source.headers[0], source.headers[1]);
  keys.expect_new(request_key(source), "headers in another order");
  source = full_source();
  std::swap(source.options[0], source.options[1]);
  keys.expect_new(request_key(source), "options in another order");
  source = full_source();
  source.headers.push_back({"", ""});
  keys.expect_new(request_key(source), "an empty header more");
  source = full_source();
  source.options.emplace_back("");
  keys.expect_new(request_key(source), "an empty option more");
  source = full_source();
  source.options = {"--one--two"};
  keys.expect_new(request_key(source), "two options joined");
  source = full_source();
  source.headers.pop_back();
  keys.expect_new(request_key(source), "a header less");
}

TEST(KeyTest, SchemaVersionCounts) {
  EXPECT_EQ(request_key(full_source()), request_key(full_source(), kSchemaVersion));
  EXPECT_NE(request_key(full_source()), request_key(full_source(), kSchemaVersion + 1));
}

TEST(KeyTest, DescriptorAndLaunchFactsDoNotCount) {
  auto source = full_source();
  const RequestKey key = request_key(source);
  source.descriptor = "another name";
  source.launch = {.threads = 1024, .dynamic_shared_memory = 99};
  EXPECT_EQ(request_key(source), key);
}

TEST(KeyTest, TheKeyIsTheSameEverywhere) {
  // A recorded value. If the value changes, the schema has changed, and kSchemaVersion must be raised too.
  EXPECT_EQ(request_key(codegen::KernelSource{}).hex(),
            "efe3e7c8e9495408273e47e3e1fce963743ef26860a465237522ed9a430c4cff");
}

TEST(KeyTest, ArtifactIdNamesKeyAndCompiler) {
  RequestKey key;
  key.bytes.fill(0xa5);
  EXPECT_EQ(key.hex().size(), 64u);
  EXPECT_EQ(artifact_id(key, {13, 0, 88}), key.hex() + "-nvrtc13.0.88");
  EXPECT_THAT(key.hex(), testing::MatchesRegex("(a5)+"));
}

TEST(KeyTest, ContentHashIsBlake2b256) {
  // RFC 7693 defines the function. The value is the result of the reference implementation for empty input.
  RequestKey hash{content_hash("")};
  EXPECT_EQ(hash.hex(), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
}

}  // namespace
}  // namespace cubit::runtime
