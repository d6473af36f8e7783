// The interface of problems: what checking and measuring an operator needs and running it does not.
//
// descriptor text ──problem, random──► Problem { host tensors, reference, launch arguments }
//
// A problem is one concrete case of an operator with a reference. Tools and tests link this layer, and libcubit does
// not contain it. The names of namespace ops are visible in namespace check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/tensor.hpp"
#include "ops/numbers.hpp"
#include "ops/operator.hpp"

namespace cubit::check {

using namespace ops;
using ops::Numbers;  // and not cubit::Numbers of <cubit/cubit.hpp>

/// One concrete case of an operator: inputs in host memory, and outputs that a launch shall compute.
class Problem {
 public:
  virtual ~Problem() = default;
  virtual const std::vector<Tensor>& inputs() const = 0;  ///< dense host data that the problem owns
  /// Shapes and types of the outputs. `data` is null, or the content before a launch that overwrites only a part of the
  /// tensor.
  virtual const std::vector<Tensor>& outputs() const = 0;
  /// Bytes that any implementation must read and write, scales included. The benchmark derives its floor from them.
  virtual std::size_t bytes_read() const = 0;
  virtual std::size_t bytes_written() const = 0;
  /// Multiplications plus additions that any implementation must do.
  virtual double operations() const { return 0; }
  /// The public argument struct for tensors at these device addresses: inputs, then outputs, in order.
  virtual std::vector<std::byte> arguments(std::span<void* const> device_data) const = 0;
  /// Computes the outputs in double precision on the dequantised inputs, and compares them with `got`, the outputs'
  /// host data in order. The result is the largest error of all (sequence, head) pairs or rows, relative to its
  /// tolerance. An error is |got - ref| / max(|ref|, 0.1 |sum of absolute contributions|).
  struct Comparison {
    double error = 0;
    double tolerance =
        0;              ///< tolerance of the worst place; larger than usual where rounding alone exceeds the usual one
    std::string worst;  ///< "sequence 3, head 7"
  };
  virtual Comparison compare(std::span<const void* const> got) const = 0;
};

/// One case of an operator's benchmark, and the target that it has to reach.
struct BenchCase {
  std::string group;  ///< heading of a group of cases: "32 query heads, 8 KV heads"
  std::string name;   ///< "B=1 T=8192"
  std::string descriptor;
  Numbers sizes;                   ///< as OperatorProblems::random takes them
  double target_microseconds = 0;  ///< upper limit on an NVIDIA H200; 0: no target
  double target_share = 0;         ///< lower limit of the share of the read floor in the same run; 0: no target
  /// The descriptor that a comparison of decompositions uses for this case; empty: the case takes no part.
  std::string comparable = {};
};

/// A decomposition: a way to divide a launch's work among blocks, which launch arguments can ask for.
struct Decomposition {
  std::string name;  ///< "split_k"
  Numbers numbers;   ///< launch arguments that ask for this decomposition
  std::string fields =
      {};  ///< fields that a descriptor needs for this decomposition: "atomic_splits=true"; may be empty
};

/// One row of the table in check/registry.cpp: how to make an operator's problems, and which cases to measure.
struct OperatorProblems {
  std::string_view name;
  /// Help text: the sizes that `random` accepts.
  std::string (*random_help)();
  /// The cases that `cubit bench OPERATOR` measures.
  std::vector<BenchCase> (*bench_cases)();
  /// The decompositions that `cubit bench --decomposition all` compares. The first one is the baseline.
  std::vector<Decomposition> (*decompositions)();
  /// Makes a problem from copies of `inputs`, whose names, types and shapes are checked against the descriptor.
  /// `numbers` are the scalar arguments of a launch.
  std::unique_ptr<Problem> (*problem)(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
  /// Makes a problem of made-up data from sizes such as {"batch", 4}. The same seed gives the same bytes.
  std::unique_ptr<Problem> (*random)(std::string_view text, const Numbers& sizes, std::uint64_t seed);
  /// The canonical descriptor for a launch on `inputs` with `numbers`. If `text` does not give the field alignment, the
  /// alignment is the largest that the operator accepts and that the rows of the tensors have. Null if no field follows
  /// from tensors. Tensors that do not fit the descriptor change nothing: `problem` refuses them.
  std::string (*fit)(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) = nullptr;
};

/// All rows of the table, in the order of ops::operators().
std::span<const OperatorProblems> operator_problems();

/// The row of the operator that `text` names before its colon. Throws Failure(invalid_argument) with the list of
/// operators if there is no such operator.
const OperatorProblems& find_problems(std::string_view text);

}  // namespace cubit::check
