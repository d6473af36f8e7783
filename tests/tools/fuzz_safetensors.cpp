// Feeds arbitrary bytes to the safetensors parser. The parser must throw BadInput or return entries whose bytes lie
// inside the file, and an accepted file must survive writing and reading. Build with -DCUBIT_BUILD_FUZZERS=ON (Clang)
// and run with the corpus:
// fuzz_safetensors tests/tools/corpus -max_len=4096
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "files/safetensors/safetensors.hpp"
#include "files/text/error.hpp"
#include "tests/tools/safetensors_views.hpp"

namespace {

using cubit::tools::TensorView;

void require(bool condition) {
  if (!condition) std::abort();
}

bool same(const TensorView& a, const TensorView& b) {
  return a.name == b.name && a.type == b.type && a.shape == b.shape && std::ranges::equal(a.data, b.data);
}

void require_round_trip(const std::vector<TensorView>& tensors) {
  std::string file = cubit::tools::safetensors_header(tensors);
  for (const TensorView& tensor : tensors)
    file.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  const auto again =
      cubit::tools::test::parse_safetensors({reinterpret_cast<const std::byte*>(file.data()), file.size()}, "again");
  require(again.size() == tensors.size());
  for (const TensorView& tensor : tensors) {  // empty tensors at one offset may have changed places
    require(std::any_of(again.begin(), again.end(), [&](const TensorView& other) { return same(tensor, other); }));
  }
}

/// A header of any types and ranks is written as it was read, as cubit convert requires.
void require_header_again(std::span<const std::byte> file) {
  namespace tools = cubit::tools;
  const std::size_t length =
      tools::header_length(file.first(std::min(file.size(), tools::kLengthBytes)), file.size(), "fuzz");
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + tools::kLengthBytes, length);
  const std::size_t bytes = file.size() - tools::kLengthBytes - length;
  tools::Metadata metadata;
  tools::Metadata metadata_again;
  const auto entries = tools::parse_entries(text, bytes, "fuzz", &metadata);
  const std::string written = tools::format_header(entries, metadata).substr(tools::kLengthBytes);
  const auto again = tools::parse_entries(written, bytes, "again", &metadata_again);
  require(metadata == metadata_again);
  require(std::ranges::equal(entries, again, [](const auto& a, const auto& b) {
    return a.name == b.name && a.type == b.type && a.shape == b.shape && a.offsets == b.offsets;
  }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  std::vector<TensorView> tensors;
  try {
    require_header_again(file);
    tensors = cubit::tools::test::parse_safetensors(file, "fuzz");
  } catch (const cubit::tools::BadInput& error) {
    require(std::strchr(error.what(), '\n') == nullptr);
    return 0;
  }
  for (const TensorView& tensor : tensors) {
    require(tensor.data.data() >= file.data() && tensor.data.data() + tensor.data.size() <= file.data() + file.size());
  }
  require_round_trip(tensors);
  return 0;
}
