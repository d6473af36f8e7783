// Cases that are a small program of many threads, such as a pipeline behind an mbarrier: what each thread leaves in the
// end is known from the PTX ISA alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/cases.hpp"

namespace cubit::conformance {

/// The body leaves each thread's results in the 32-bit registers %z0 …. Besides what kernel_text() declares it has %i,
/// the thread in the grid.
struct Scenario {
  std::string name = {};
  std::string declarations = {};  ///< of the module: variables
  std::string body = {};
  std::string directives = {};  ///< of the kernel: ".reqnctapercluster 2, 1, 1"
  unsigned threads = 32;
  unsigned blocks = 1;
  int results = 1;
  std::vector<std::uint32_t> input = {};
  /// Result `index` of a thread in the grid.
  std::function<std::uint32_t(unsigned thread, int index)> model = {};
};
void add(Cases& cases, const Scenario& given);

/// The same results of every thread.
std::function<std::uint32_t(unsigned, int)> always(std::vector<std::uint32_t> results);

/// Waits for the end of a phase, with `instruction` up to its first operand: "mbarrier.try_wait.parity.shared.b64". It
/// gives up after a million turns, so that a device that is not as the ISA says records that and does not hang.
std::string wait_for_phase(const std::string& instruction, const std::string& object, const std::string& phase);

/// Of a pair of blocks.
inline constexpr const char* kPair = "\n.reqnctapercluster 2, 1, 1";
inline constexpr const char* kClusterSync = "barrier.cluster.arrive; barrier.cluster.wait;\n  ";

}  // namespace cubit::conformance
