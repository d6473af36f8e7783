// Sources and launches of kernels whose blocks have one row or a few rows.
#pragma once

#include <cstring>
#include <string>
#include <utility>

#include "codegen/plan_header.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"
#include "ops/quantisation/row_shape.hpp"

#include <cubit/element.hpp>

namespace cubit::ops::quantisation {

/// The source of templates/kernels/quantisation/`name`.cuh, whose entry point is `name`, with a plan's header.
codegen::KernelSource make_source(const std::string& descriptor, const char* name, const codegen::PlanHeader& header,
                                  const codegen::Architecture& architecture, int most_threads = kMostThreads);

/// A field of type Element, fp16 by default.
template <class Descriptor>
Field<Descriptor> element_field(const char* name, const char* meaning, Element Descriptor::*member) {
  return word_field<Descriptor, Element>({name, "fp16, bf16", "fp16", meaning}, member,
                                         {{"fp16", Element::fp16}, {"bf16", Element::bf16}});
}

/// The launch of no rows.
inline Launch no_launch() {
  Launch launch;
  launch.empty = true;
  return launch;
}

/// The launch of a kernel's parameters, whose member `shape` is a RowShape.
template <class Parameters>
Launch launch_of(const Parameters& parameters) {
  Launch launch;
  launch.shape = launch_shape(parameters.shape);
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  return launch;
}

}  // namespace cubit::ops::quantisation
