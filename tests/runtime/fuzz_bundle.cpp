// Damages a bundle as the input says and reads the bundle. With the hashes left as they were, every entry that loads is
// the entry that was written. With the hashes repaired, reading must stay inside the bundle and throw nothing but
// Failure(io_error). Build with -DCUBIT_BUILD_FUZZERS=ON (Clang). The corpus may be empty.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "tests/runtime/bundle_edits.hpp"

namespace {

using cubit::runtime::Artifact;
using cubit::runtime::RequestKey;

constexpr std::size_t kEntries = 40;  // two leaf pages below one inner page

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace test = cubit::runtime::test;
  static const std::vector<Artifact> artifacts = test::sample_artifacts(kEntries);
  static const std::string original = test::sample_bundle(kEntries);
  std::vector<RequestKey> keys;
  for (const Artifact& artifact : artifacts) keys.push_back(artifact.key);
  std::string bundle = original;
  if (size == 0) return 0;
  const bool repaired = test::apply_edits(bundle, {data, size});
  for (const auto& entry : test::load_all(bundle, keys)) {
    const bool known = std::any_of(artifacts.begin(), artifacts.end(),
                                   [&](const Artifact& artifact) { return test::is_same(entry, artifact); });
    if (!known && !repaired) std::abort();
  }
  return 0;
}
