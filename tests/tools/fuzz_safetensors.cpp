// Feeds arbitrary bytes to the safetensors parser: it must refuse with BadInput or give views inside the file, and what
// it accepts must survive being written and read again. Built with -DCUBIT_BUILD_FUZZERS=ON (Clang); run with the
// corpus:
//   fuzz_safetensors tests/tools/corpus -max_len=4096
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/tools/safetensors_views.hpp"
#include "tools/error.hpp"
#include "tools/safetensors.hpp"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  std::vector<TensorView> tensors;
  try {
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
