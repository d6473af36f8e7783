// The operator dequantize, which turns int8 codes and int32 sums into 16-bit values. kernel.cpp makes the kernel,
// launch.cpp turns arguments into a launch, operator.cpp registers the operator.
#pragma once

#include <cubit/dequantize.hpp>

#include "ops/argument_table.hpp"
#include "ops/fields.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

const Operator& dequantize_operator();

namespace dequantize {

/// The tensors and numbers of a launch.
const ArgumentTable& arguments();

/// Help and parser of every field, in the order of the canonical text.
const std::vector<Field<Dequantize>>& fields();
/// Throws Failure(invalid_argument) with the rule that `text` breaks.
Dequantize parse(std::string_view text);

/// Throws Failure(invalid_argument) for sizes that <cubit/dequantize.h> rules out.
void check_sizes(const Dequantize& descriptor, std::int64_t rows, std::int64_t columns);

inline constexpr int kThreads = 128;      ///< of a block
inline constexpr int kVectorColumns = 8;  ///< columns that a thread loads at once

codegen::KernelSource make_source(const Dequantize& descriptor, const codegen::Architecture& architecture);
PlanReport make_report(const Dequantize& descriptor);
/// `pointers` are the descriptor's. Throws Failure(invalid_argument) for what <cubit/dequantize.h> rules out.
Launch encode(const Dequantize& descriptor, const PointerChecks& pointers, const void* public_arguments,
              const runtime::DeviceFacts& device);

}  // namespace dequantize
}  // namespace cubit::ops
