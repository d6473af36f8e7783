// Runs one mutant on the first GPU, for compute-sanitizer: run_mutant NAME. Without a name, the program lists all
// mutants with the tool that should find each. The exit code is 0 even if the mutant's numbers are wrong.
#include <fmt/format.h>

#include "base/error.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "tests/mutation/mutants.hpp"

int main(int count, char** arguments) {
  using namespace cubit;
  try {
    if (count < 2) {
      for (const tests::Mutant& mutant : tests::mutants()) fmt::print("{}\t{}\n", mutant.name, mutant.sanitizer);
      return 0;
    }
    runtime::Engine engine(runtime::Settings::from_environment(), {});
    const auto device = runtime::open_cuda_device(0);
    tests::run_mutant(tests::find_mutant(arguments[1]), engine, *device);
    fmt::print("{}: ran\n", arguments[1]);
  } catch (const Failure& failure) {
    fmt::print("{}: {}\n", arguments[count < 2 ? 0 : 1], failure.what());
    return failure.status() == Status::device_error ? 0 : 1;
  }
}
