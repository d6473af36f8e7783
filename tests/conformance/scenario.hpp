// Cases that are small programs of many threads, such as a pipeline with an mbarrier. The PTX ISA alone determines each
// thread's results.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/cases.hpp"

namespace cubit::conformance {

/// A scenario. The body leaves each thread's results in the 32-bit registers %z0 …. In addition to the declarations of
/// kernel_text(), the body has %i, the thread in the grid.
struct Scenario {
  std::string name = {};
  std::string declarations = {};  ///< variables of the module
  std::string body = {};
  std::string directives = {};  ///< directives of the kernel: ".reqnctapercluster 2, 1, 1"
  unsigned threads = 32;
  unsigned blocks = 1;
  int results = 1;
  std::vector<std::uint32_t> input = {};
  /// Returns result `index` of a thread in the grid.
  std::function<std::uint32_t(unsigned thread, int index)> model = {};
};
void add(Cases& cases, const Scenario& given);

/// A model with the same results for every thread.
std::function<std::uint32_t(unsigned, int)> always(std::vector<std::uint32_t> results);

/// Waits for the end of a phase. `instruction` is the text up to the first operand:
/// "mbarrier.try_wait.parity.shared.b64". The loop gives up after a million turns, so that a device that violates the
/// ISA records a wrong result and does not hang.
std::string wait_for_phase(const std::string& instruction, const std::string& object, const std::string& phase);

/// A cluster of two blocks.
inline constexpr const char* kPair = "\n.reqnctapercluster 2, 1, 1";
inline constexpr const char* kClusterSync = "barrier.cluster.arrive; barrier.cluster.wait;\n  ";

}  // namespace cubit::conformance
