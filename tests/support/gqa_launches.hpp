// Makes gqa_decode launches as values, without a device.
#pragma once

#include <cubit/gqa_decode.h>

#include <cstdint>

#include "templates/kernels/attention/gqa_decode_arguments.h"
#include "tests/support/gqa_plans.hpp"
#include "tests/support/launches.hpp"

namespace cubit::tests {

struct GqaSizes {
  int batch = 1;
  int kv_heads = 1;
  int query_heads = 1;  ///< query heads of each sequence
  int head_dim = 128;
  int row = 128;  ///< elements of a cache row
  int max_length = 64;
};

/// Arguments with dense tensors at made-up addresses; optional tensors are absent.
inline cubit_gqa_decode_arguments made_up_gqa_arguments(const GqaSizes& sizes) {
  cubit_gqa_decode_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.query = address(0x1000);
  arguments.key = address(0x2000);
  arguments.value = address(0x3000);
  arguments.output = address(0x4000);
  for (std::int64_t* strides : {arguments.query_strides, arguments.output_strides}) {
    strides[0] = std::int64_t{sizes.head_dim} * sizes.query_heads;
    strides[1] = sizes.head_dim;
  }
  for (std::int64_t* strides : {arguments.key_strides, arguments.value_strides}) {
    strides[0] = std::int64_t{sizes.row} * sizes.kv_heads * sizes.max_length;
    strides[1] = std::int64_t{sizes.row} * sizes.kv_heads;
    strides[2] = sizes.row;
  }
  arguments.batch = sizes.batch;
  arguments.kv_heads = sizes.kv_heads;
  arguments.max_length = sizes.max_length;
  arguments.softmax_scale = 0.088f;
  return arguments;
}

/// Encodes the launch for an sm_80 with the given number of multiprocessors and a workspace at 0x10000.
inline ops::Launch encode_gqa(std::string_view text, const cubit_gqa_decode_arguments& arguments,
                              int multiprocessors = 1) {
  return gqa_kernel_of(text, "sm_80")
      ->encode(&arguments, address(0x10000), std::size_t{1} << 30, made_up_device("sm_80", multiprocessors));
}

inline GqaDecodeArguments gqa_parameters_of(std::string_view text, const cubit_gqa_decode_arguments& arguments) {
  return parameters_of<GqaDecodeArguments>(encode_gqa(text, arguments));
}

}  // namespace cubit::tests
