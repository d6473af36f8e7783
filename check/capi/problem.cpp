// C functions for problems: one test case of an operator as named tensors.
#include <cubit/check.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "check/capi/border.hpp"
#include "check/capi/launch.hpp"
#include "check/problem.hpp"

struct cubit_problem {
  std::unique_ptr<cubit::check::Problem> problem;
};

namespace cubit::check {
namespace {

constexpr int kMaxRank = static_cast<int>(std::size(cubit_tensor{}.shape));

[[noreturn]] void refuse_shape(const cubit_tensor& tensor, const std::string& rule) {
  throw Failure(Status::invalid_argument, fmt::format("tensor \"{}\"", tensor.name), rule,
                fmt::format("give rank 0 to {} and sizes whose product fits 63 bits", kMaxRank));
}

/// Fills in dense row-major strides for a shape whose element count fits 63 bits.
Tensor tensor_of(const cubit_tensor& given) {
  require(given.name, "cubit_tensor: name");
  require(given.type, "cubit_tensor: type");
  if (given.rank < 0 || given.rank > kMaxRank) refuse_shape(given, fmt::format("rank {} is out of range", given.rank));
  Tensor tensor{given.name, given.type, {given.shape, given.shape + given.rank}, {}, given.data};
  tensor.strides.resize(tensor.shape.size());
  std::int64_t elements = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] < 0) refuse_shape(given, fmt::format("size {} is negative", tensor.shape[i]));
    tensor.strides[i] = elements;
    if (__builtin_mul_overflow(elements, tensor.shape[i], &elements))
      refuse_shape(given, "the tensor's size overflows");
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, std::int64_t{type_bytes(tensor.type)}, &bytes)) {
    refuse_shape(given, "the tensor's size overflows");
  }
  if (elements != 0) require(given.data, "cubit_tensor: data of an input");
  return tensor;
}

std::vector<Tensor> tensors_of(const cubit_tensor* tensors, std::size_t count, const char* parameter) {
  if (count != 0) require(tensors, parameter);
  std::vector<Tensor> result;
  std::set<std::string_view> names;
  for (const cubit_tensor& tensor : std::span(tensors, count)) {
    result.push_back(tensor_of(tensor));
    if (names.insert(tensor.name).second) continue;
    throw Failure(Status::invalid_argument, fmt::format("tensor \"{}\"", tensor.name), "this name is given twice",
                  "give each name once");
  }
  return result;
}

void give_tensor(const std::vector<Tensor>& tensors, std::size_t index, cubit_tensor* result, const char* parameter) {
  require(result, parameter);
  if (index >= tensors.size()) {
    throw Failure(Status::invalid_argument, fmt::format("index {}", index), "the problem has no tensor of this index",
                  fmt::format("there are {}", tensors.size()));
  }
  const Tensor& tensor = tensors[index];
  if (tensor.shape.size() > std::size(result->shape)) {
    throw Failure(Status::internal, tensor.name, fmt::format("more than {} dimensions", kMaxRank));
  }
  *result = {tensor.name.c_str(), tensor.type.c_str(), static_cast<int>(tensor.shape.size()), {}, tensor.data};
  std::copy(tensor.shape.begin(), tensor.shape.end(), result->shape);
}

void check_count(std::size_t count, std::size_t wanted, const char* what) {
  if (count == wanted) return;
  throw Failure(Status::invalid_argument, fmt::format("{} {}", count, what), "one is needed for every tensor",
                fmt::format("give {}", wanted));
}

}  // namespace

}  // namespace cubit::check

using namespace cubit;
using namespace cubit::check;

cubit_status cubit_problem_create(const char* descriptor, const cubit_tensor* inputs, size_t input_count,
                                  const cubit_number* numbers, size_t number_count, cubit_problem** problem) {
  return guarded([&] {
    require(descriptor, "cubit_problem_create: descriptor");
    require(problem, "cubit_problem_create: problem");
    *problem = nullptr;
    const auto tensors = tensors_of(inputs, input_count, "cubit_problem_create: inputs");
    const auto scalars = numbers_of(numbers, number_count, "cubit_problem_create: numbers");
    *problem = new cubit_problem{find_problems(descriptor).problem(descriptor, tensors, scalars)};
  });
}

cubit_status cubit_problem_fit_descriptor(const char* descriptor, const cubit_tensor* inputs, size_t input_count,
                                          const cubit_number* numbers, size_t number_count, const char** text) {
  return guarded([&] {
    require(descriptor, "cubit_problem_fit_descriptor: descriptor");
    require(text, "cubit_problem_fit_descriptor: text");
    const OperatorProblems& problems = find_problems(descriptor);
    const auto tensors = tensors_of(inputs, input_count, "cubit_problem_fit_descriptor: inputs");
    const auto scalars = numbers_of(numbers, number_count, "cubit_problem_fit_descriptor: numbers");
    *text = thread_text(problems.fit != nullptr ? problems.fit(descriptor, tensors, scalars)
                                                : find_operator(descriptor).canonical(descriptor));
  });
}

cubit_status cubit_problem_random(const char* descriptor, const cubit_number* sizes, size_t size_count, uint64_t seed,
                                  cubit_problem** problem) {
  return guarded([&] {
    require(descriptor, "cubit_problem_random: descriptor");
    require(problem, "cubit_problem_random: problem");
    *problem = nullptr;
    const auto numbers = numbers_of(sizes, size_count, "cubit_problem_random: sizes");
    *problem = new cubit_problem{find_problems(descriptor).random(descriptor, numbers, seed)};
  });
}

void cubit_problem_release(cubit_problem* problem) { delete problem; }

size_t cubit_problem_input_count(const cubit_problem* problem) {
  return problem == nullptr ? 0 : problem->problem->inputs().size();
}

size_t cubit_problem_output_count(const cubit_problem* problem) {
  return problem == nullptr ? 0 : problem->problem->outputs().size();
}

cubit_status cubit_problem_input(const cubit_problem* problem, size_t index, cubit_tensor* tensor) {
  return guarded([&] {
    require(problem, "cubit_problem_input: problem");
    give_tensor(problem->problem->inputs(), index, tensor, "cubit_problem_input: tensor");
  });
}

cubit_status cubit_problem_output(const cubit_problem* problem, size_t index, cubit_tensor* tensor) {
  return guarded([&] {
    require(problem, "cubit_problem_output: problem");
    give_tensor(problem->problem->outputs(), index, tensor, "cubit_problem_output: tensor");
  });
}

cubit_status cubit_problem_traffic(const cubit_problem* problem, size_t* bytes_read, size_t* bytes_written) {
  return guarded([&] {
    require(problem, "cubit_problem_traffic: problem");
    require(bytes_read, "cubit_problem_traffic: bytes_read");
    require(bytes_written, "cubit_problem_traffic: bytes_written");
    *bytes_read = problem->problem->bytes_read();
    *bytes_written = problem->problem->bytes_written();
  });
}

cubit_status cubit_problem_operations(const cubit_problem* problem, double* operations) {
  return guarded([&] {
    require(problem, "cubit_problem_operations: problem");
    require(operations, "cubit_problem_operations: operations");
    *operations = problem->problem->operations();
  });
}

namespace {

/// The arguments that the thread's last call of cubit_problem_arguments returned.
struct ThreadArguments {
  std::vector<std::byte> bytes;
};

}  // namespace

cubit_status cubit_problem_arguments(const cubit_problem* problem, void* const* device_data, size_t count,
                                     const void** arguments, size_t* bytes) {
  return guarded([&] {
    require(problem, "cubit_problem_arguments: problem");
    require(device_data, "cubit_problem_arguments: device_data");
    require(arguments, "cubit_problem_arguments: arguments");
    const Problem& wanted = *problem->problem;
    check_count(count, wanted.inputs().size() + wanted.outputs().size(), "device addresses");
    auto& owner = in_place_of_this_thread<ThreadArguments>().bytes;
    owner = wanted.arguments({device_data, count});
    *arguments = owner.data();
    if (bytes != nullptr) *bytes = owner.size();
  });
}

cubit_status cubit_problem_compare(const cubit_problem* problem, const void* const* outputs, size_t count,
                                   double* error, double* tolerance, const char** worst) {
  return guarded([&] {
    require(problem, "cubit_problem_compare: problem");
    require(outputs, "cubit_problem_compare: outputs");
    check_count(count, problem->problem->outputs().size(), "outputs");
    for (std::size_t i = 0; i < count; ++i) require(outputs[i], "cubit_problem_compare: an output");
    Problem::Comparison comparison = problem->problem->compare({outputs, count});
    if (error != nullptr) *error = comparison.error;
    if (tolerance != nullptr) *tolerance = comparison.tolerance;
    if (worst != nullptr) *worst = thread_text(std::move(comparison.worst));
  });
}

cubit_status cubit_problem_describe_launch(const cubit_problem* problem, cubit_kernel* kernel, cubit_device* device,
                                           const char** json) {
  return guarded([&] {
    require(problem, "cubit_problem_describe_launch: problem");
    require(kernel, "cubit_problem_describe_launch: kernel");
    require(device, "cubit_problem_describe_launch: device");
    require(json, "cubit_problem_describe_launch: json");
    *json = thread_text(describe_launch(*problem->problem, kernel, device).dump());
  });
}
