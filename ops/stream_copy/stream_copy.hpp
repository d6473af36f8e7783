// The operator stream_copy, which copies a buffer as fast as a plain kernel can. Its time is the floor for operators
// that write as many bytes as they read.
#pragma once

#include "ops/argument_table.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& stream_copy_operator();
/// The tensors and numbers of a launch.
const ArgumentTable& stream_copy_arguments();

}  // namespace cubit::ops
