// What checking an operator needs and running it does not: problems, made-up data, references and bench cases.
//
// descriptor text ──problem, random──► Problem { host tensors, reference, launch arguments }
//
// Tools and tests link this layer; libcubit does not contain it. Names of ops/ are visible in this namespace.
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

/// One concrete case of an operator: inputs in host memory, outputs to be computed.
class Problem {
 public:
  virtual ~Problem() = default;
  virtual const std::vector<Tensor>& inputs() const = 0;  ///< host data, owned by the problem, dense
  /// Shapes and types. `data`: what the launch finds there, where it changes a tensor in part; else null.
  virtual const std::vector<Tensor>& outputs() const = 0;
  /// Bytes that any implementation must read and write, scales included: the benchmark's floor.
  virtual std::size_t bytes_read() const = 0;
  virtual std::size_t bytes_written() const = 0;
  /// Multiplications and additions that any implementation must do, each counted.
  virtual double operations() const { return 0; }
  /// The public argument struct for tensors at these device addresses (inputs, then outputs, in order).
  virtual std::vector<std::byte> arguments(std::span<void* const> device_data) const = 0;
  /// Computes the outputs in double precision on the dequantised inputs and compares: the largest error over all
  /// (sequence, head) or rows, in the norm of the design: |got - ref| / max(|ref|, 0.1 |sum of absolute
  /// contributions|). `got`: the outputs' host data, in order.
  struct Comparison {
    double error = 0;
    double tolerance = 0;  ///< of that place: rounding alone may be more than the operator's
    std::string worst;     ///< "sequence 3, head 7"
  };
  virtual Comparison compare(std::span<const void* const> got) const = 0;
};

/// One row of an operator's benchmark, and what it shall reach.
struct BenchCase {
  std::string group;  ///< rows that are read together: "32 query heads, 8 KV heads"
  std::string name;   ///< "B=1 T=8192"
  std::string descriptor;
  Numbers sizes;                   ///< as OperatorProblems::random takes them
  double target_microseconds = 0;  ///< at most, on an NVIDIA H200; 0: not said
  double target_share = 0;         ///< of the read floor in the same run, at least; 0: not said
  /// Where ways to share work are compared: the descriptor whose launches can have them; none: the case is left out.
  std::string comparable = {};
};

/// A way to share a launch's work among blocks, which a launch can be asked for.
struct Decomposition {
  std::string name;         ///< "split_k"
  Numbers numbers;          ///< launch arguments that ask for it
  std::string fields = {};  ///< "atomic_splits=true", which descriptors have for it beside their own; or none
};

/// One row of the table of operators (check/registry.cpp): how to make an operator's problems, and what to measure.
struct OperatorProblems {
  std::string_view name;
  /// What `random` accepts.
  std::string (*random_help)();
  /// What `cubit bench` measures where it is given the operator alone. A descriptor may be one of a later version.
  std::vector<BenchCase> (*bench_cases)();
  /// What `cubit bench --decomposition all` compares; the first is what the others are compared with.
  std::vector<Decomposition> (*decompositions)();
  /// Takes over copies of `inputs`; checks names, types and shapes against the descriptor. `numbers`: launch scalars.
  std::unique_ptr<Problem> (*problem)(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers);
  /// Made-up data: sizes such as {"batch", 4}; the same seed gives the same bytes.
  std::unique_ptr<Problem> (*random)(std::string_view text, const Numbers& sizes, std::uint64_t seed);
};

/// In the order of ops::operators().
std::span<const OperatorProblems> operator_problems();

/// The row of the operator that `text` names before its colon. Throws Failure(invalid_argument) listing what there is.
const OperatorProblems& find_problems(std::string_view text);

}  // namespace cubit::check
