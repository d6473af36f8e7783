// The PTX that NVRTC makes of cubit's own templates, which the front end must read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/kernel_source.hpp"

namespace cubit::runtime::ptx {

class PtxCompiler {
 public:
  /// nullptr if this machine has no NVRTC.
  static const PtxCompiler* instance();

  /// Returns the source's PTX. Throws std::runtime_error with the compiler's log.
  std::string compile(const codegen::KernelSource& source, bool line_info) const;

 private:
  struct Functions;
  explicit PtxCompiler(std::shared_ptr<const Functions> functions) : functions_(std::move(functions)) {}

  std::shared_ptr<const Functions> functions_;
};

/// One kernel of each operator and cache format that `target` supports, and the example's operator.
std::vector<codegen::KernelSource> sample_sources(std::string_view target);
/// `descriptor` is a text as on the command line: gqa_decode, stream_read, ….
codegen::KernelSource sample_source(std::string_view descriptor, std::string_view target);

}  // namespace cubit::runtime::ptx
