// Makes launches as values: tensors at made-up addresses that nothing reads, made-up devices, and the parameters that a
// kernel would receive.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "ops/operator.hpp"

namespace cubit::tests {

/// A made-up address that must not be dereferenced.
template <class T = void>
T* address(std::uintptr_t value) {
  return reinterpret_cast<T*>(value);
}

inline runtime::DeviceFacts made_up_device(std::string_view architecture, int multiprocessors) {
  runtime::DeviceFacts facts;
  facts.architecture = &codegen::find_architecture(architecture);
  facts.multiprocessors = multiprocessors;
  return facts;
}
constexpr int kH200Processors = 132;
inline runtime::DeviceFacts h200() {
  runtime::DeviceFacts facts = made_up_device("sm_90a", kH200Processors);
  facts.memory_bytes_per_second = 4916736000000;
  facts.memory_bus_bits = 6144;
  return facts;
}

/// The argument struct that a launch passes to a kernel. Tensor maps follow the struct.
template <class Parameters>
Parameters parameters_of(const ops::Launch& launch) {
  Parameters parameters{};
  if (launch.maps.all().empty()) {
    EXPECT_EQ(launch.parameter_bytes, sizeof parameters);
  } else {
    EXPECT_GT(launch.parameter_bytes, sizeof parameters);
  }
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  return parameters;
}

}  // namespace cubit::tests
