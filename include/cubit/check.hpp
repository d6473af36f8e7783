// Problems of cubit's operators for C++: a thin, header-only layer over <cubit/check.h>. Link libcubit_check.
//
//   const auto problem = cubit::Problem::random("gqa_decode:heads_per_kv=8", {{"batch", 4}, {"context", 1024}}, 1);
#pragma once

#include <cubit/check.h>

#include <cstddef>
#include <cstdint>
#include <cubit/cubit.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cubit {

/// JSON text; see cubit_check_operators for its fields.
inline std::string check_operators() { return detail::text(cubit_check_operators); }

/// One test case of an operator as named tensors, for tools and tests. A Problem owns its tensors.
class Problem {
 public:
  using Numbers = cubit::Numbers;

  /// Copies `inputs`; throws cubit::Error if a name, type or shape does not fit the descriptor.
  Problem(const std::string& descriptor, std::span<const cubit_tensor> inputs, const Numbers& numbers = {}) {
    const auto c = detail::c_numbers(numbers);
    cubit_problem* problem = nullptr;
    detail::check(cubit_problem_create(descriptor.c_str(), inputs.data(), inputs.size(), c.data(), c.size(), &problem));
    handle_.reset(problem);
  }
  /// The canonical descriptor whose alignment follows from the tensors; see cubit_problem_fit_descriptor.
  static std::string fit_descriptor(const std::string& descriptor, std::span<const cubit_tensor> inputs,
                                    const Numbers& numbers = {}) {
    const auto c = detail::c_numbers(numbers);
    return detail::text(cubit_problem_fit_descriptor, descriptor.c_str(), inputs.data(), inputs.size(), c.data(),
                        c.size());
  }
  /// Makes input data for the given sizes. The same seed gives the same bytes.
  static Problem random(const std::string& descriptor, const Numbers& sizes, std::uint64_t seed) {
    const auto c = detail::c_numbers(sizes);
    cubit_problem* problem = nullptr;
    detail::check(cubit_problem_random(descriptor.c_str(), c.data(), c.size(), seed, &problem));
    return Problem(problem);
  }

  /// The problem's tensors, in the order in which arguments() takes addresses. Names, types and data point into this
  /// Problem.
  std::vector<cubit_tensor> inputs() const {
    return tensors(cubit_problem_input_count(handle_.get()), cubit_problem_input);
  }
  std::vector<cubit_tensor> outputs() const {
    return tensors(cubit_problem_output_count(handle_.get()), cubit_problem_output);
  }
  /// Bytes that any implementation must read and write.
  std::size_t bytes_read() const { return traffic().first; }
  std::size_t bytes_written() const { return traffic().second; }
  /// Number of multiplications plus additions that any implementation must do.
  double operations() const {
    double operations = 0;
    detail::check(cubit_problem_operations(handle_.get(), &operations));
    return operations;
  }
  /// The operator's argument struct for tensors at these device addresses, inputs first, then outputs. The struct stays
  /// valid until this thread's next call of arguments().
  const void* arguments(std::span<void* const> device_data) const {
    const void* result = nullptr;
    std::size_t bytes = 0;
    detail::check(cubit_problem_arguments(handle_.get(), device_data.data(), device_data.size(), &result, &bytes));
    return result;
  }
  /// The place with the largest error relative to its tolerance.
  struct Comparison {
    double error = 0;
    double tolerance = 0;
    std::string worst;
    bool good() const { return error <= tolerance; }  ///< false if the error is NaN
  };
  /// Compares outputs with a reference in double precision. `outputs` are host copies in the order of outputs(); see
  /// cubit_problem_compare.
  Comparison compare(std::span<const void* const> outputs) const {
    Comparison result;
    const char* worst = nullptr;
    detail::check(
        cubit_problem_compare(handle_.get(), outputs.data(), outputs.size(), &result.error, &result.tolerance, &worst));
    result.worst = worst;
    return result;
  }
  /// Grid, blocks, shared memory and occupancy of the launch by `kernel` on `device`, as JSON; see
  /// cubit_problem_describe_launch.
  std::string describe_launch(const Kernel& kernel, const Device& device) const {
    return detail::text(cubit_problem_describe_launch, handle_.get(), kernel.handle(), device.handle());
  }

 private:
  struct Release {
    void operator()(cubit_problem* problem) const { cubit_problem_release(problem); }
  };
  explicit Problem(cubit_problem* handle) : handle_(handle) {}
  template <class Get>
  std::vector<cubit_tensor> tensors(std::size_t count, Get get) const {
    std::vector<cubit_tensor> result(count);
    for (std::size_t i = 0; i < count; ++i) detail::check(get(handle_.get(), i, &result[i]));
    return result;
  }
  std::pair<std::size_t, std::size_t> traffic() const {
    std::size_t read = 0;
    std::size_t written = 0;
    detail::check(cubit_problem_traffic(handle_.get(), &read, &written));
    return {read, written};
  }

  std::unique_ptr<cubit_problem, Release> handle_;
};

/// Bytes of one element of a tensor type, spelled as in safetensors; 0 for an unknown type.
inline std::size_t type_bytes(std::string_view type) {
  if (type == "U8" || type == "I8" || type == "BOOL" || type == "F8_E4M3" || type == "F8_E5M2") return 1;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  return 0;
}

/// Bytes of a dense tensor with this type and shape; 0 for an unknown type.
inline std::size_t tensor_bytes(const cubit_tensor& tensor) {
  std::size_t bytes = type_bytes(tensor.type);
  for (int i = 0; i < tensor.rank; ++i) bytes *= static_cast<std::size_t>(tensor.shape[i]);
  return bytes;
}

}  // namespace cubit
