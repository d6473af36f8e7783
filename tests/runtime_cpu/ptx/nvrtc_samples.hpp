// The PTX that NVRTC makes of cubit's own templates: what the front end must read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/kernel_source.hpp"

namespace cubit::runtime::ptx {

class PtxCompiler {
 public:
  /// Null where there is no NVRTC.
  static const PtxCompiler* instance();

  /// The source's PTX. Throws std::runtime_error with the compiler's log.
  std::string compile(const codegen::KernelSource& source, bool line_info) const;

 private:
  struct Functions;
  explicit PtxCompiler(std::shared_ptr<const Functions> functions) : functions_(std::move(functions)) {}

  std::shared_ptr<const Functions> functions_;
};

/// One kernel of each operator and cache format for `target`, those that it supports; the example's operator too.
std::vector<codegen::KernelSource> sample_sources(std::string_view target);
/// gqa_decode, stream_read, … as the command line takes them.
codegen::KernelSource sample_source(std::string_view descriptor, std::string_view target);

}  // namespace cubit::runtime::ptx
