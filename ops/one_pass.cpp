#include "ops/one_pass.hpp"

#include <fmt/format.h>

#include "templates/embedded.hpp"

namespace cubit::ops::one_pass {

codegen::KernelSource make_source(const std::string& descriptor, const char* folder, const char* name,
                                  const codegen::PlanHeader& header, const codegen::Architecture& architecture) {
  return codegen::assemble(descriptor, templates::find(fmt::format("kernels/{}/{}.cuh", folder, name)), header.text(),
                           architecture, name, {kThreads, 0}, templates::embedded());
}

}  // namespace cubit::ops::one_pass
