// Feeds arbitrary bytes to the PTX front end. The front end must refuse with a one-line Failure, or return a module
// whose control flow can be built and which prints to text of the same meaning. Built with -DCUBIT_BUILD_FUZZERS=ON
// (Clang); run with a folder of PTX files:
//   fuzz_ptx corpus -max_len=8192
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "runtime/cpu/ptx/blocks.hpp"
#include "tests/runtime_cpu/ptx/same_module.hpp"

namespace {

using namespace cubit::runtime::ptx;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_inside(const std::vector<Block>& blocks, const Function& function) {
  const int count = static_cast<int>(blocks.size());
  int next = 0;
  for (const Block& block : blocks) {
    require(block.first == next && block.last > block.first);
    next = block.last;
    require(block.reconverge >= kNone && block.reconverge < count);
    for (const int successor : block.successors) require(successor >= 0 && successor < count);
  }
  require(next == static_cast<int>(function.body.size()));
}

void require_message(const cubit::Failure& failure) {
  require(std::strchr(failure.what(), '\n') == nullptr && std::strlen(failure.what()) < 400);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Module module;
  try {
    module = parse(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const cubit::Failure& failure) {
    require_message(failure);
    return 0;
  }
  require(difference(module, parse(print(module))).empty());
  for (const Function& function : module.functions) {
    try {
      require_inside(build_blocks(function), function);
    } catch (const cubit::Failure& failure) {
      require_message(failure);
    }
  }
  return 0;
}
