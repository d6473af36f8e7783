// The operator stream_read, which reads a buffer once as fast as a plain kernel can. Its time is the floor that
// benchmarks compare with.
#pragma once

#include "ops/argument_table.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& stream_read_operator();
/// The tensors and numbers of a launch.
const ArgumentTable& stream_read_arguments();

}  // namespace cubit::ops
