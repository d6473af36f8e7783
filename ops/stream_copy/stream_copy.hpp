// The operator stream_copy: copies a buffer, as fast as a plain kernel can. The floor of operators that write as they
// read.
#pragma once

#include "ops/argument_table.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& stream_copy_operator();
/// The tensors and numbers of a launch.
const ArgumentTable& stream_copy_arguments();

}  // namespace cubit::ops
