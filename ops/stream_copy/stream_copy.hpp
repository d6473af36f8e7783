// The operator stream_copy: copies a buffer, as fast as a plain kernel can. The floor of operators that write as they
// read.
#pragma once

#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& stream_copy_operator();

}  // namespace cubit::ops
