#include "ops/quantisation/row_kernel.hpp"

#include <fmt/format.h>

#include "templates/embedded.hpp"

namespace cubit::ops::quantisation {

codegen::KernelSource make_source(const std::string& descriptor, const char* name, const codegen::PlanHeader& header,
                                  const codegen::Architecture& architecture, int most_threads) {
  return codegen::assemble(descriptor, templates::find(fmt::format("kernels/quantisation/{}.cuh", name)), header.text(),
                           architecture, name, {most_threads, 0}, templates::embedded());
}

}  // namespace cubit::ops::quantisation
