// Implements the problem of weight_sums: checks, made-up bytes, and the exact comparison.
#include "check/weight_sums/problem.hpp"

#include <cubit/weight_sums.h>
#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "base/parallel.hpp"
#include "check/host_tensors.hpp"
#include "check/made_up_data.hpp"
#include "check/quantisation/row_comparison.hpp"
#include "check/quantisation/row_sizes.hpp"
#include "check/random.hpp"

namespace cubit::check::weight_sums {
namespace {

class SumsProblem final : public quantisation::RowProblem {
 public:
  /// Checks the tensors. Throws Failure(invalid_argument).
  explicit SumsProblem(Tensors inputs) : RowProblem(std::move(inputs)) {
    const Tensor& weights = *tensors().find("weights");
    require_type(weights, "I8");
    require_rank(weights, 2, "[n, k]");
    check_sizes(n(), k());
    set_outputs({dense("sums", "I32", {n()}, nullptr)});
  }

  std::vector<std::byte> arguments(std::span<void* const> device_data) const override {
    quantisation::require_addresses(device_data, 1, 1);
    cubit_weight_sums_arguments arguments{};
    arguments.size = sizeof arguments;
    arguments.weights = device_data[0];
    arguments.sums = static_cast<std::int32_t*>(device_data[1]);
    arguments.n = static_cast<std::int32_t>(n());
    arguments.k = static_cast<std::int32_t>(k());
    return bytes_of_struct(arguments);
  }

  /// The error of a row is 1 if its sum differs.
  Comparison compare(std::span<const void* const> got) const override {
    quantisation::require_outputs(got, 1);
    const auto* const weights = static_cast<const std::int8_t*>(tensors().find("weights")->data);
    const auto* const found = static_cast<const std::int32_t*>(got[0]);
    std::vector<double> errors(n());
    parallel_for(n(), [&](std::int64_t row) {
      const std::int8_t* const first = weights + row * k();
      errors[row] = found[row] != std::accumulate(first, first + k(), 0);
    });
    return quantisation::worst_of(errors, 0);
  }

 private:
  std::int64_t n() const { return tensors().find("weights")->shape[0]; }
  std::int64_t k() const { return tensors().find("weights")->shape[1]; }
};

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view, std::span<const Tensor> inputs, const Numbers& numbers) {
  require_names(inputs, ops::weight_sums::arguments().input_names(), "weight_sums");
  quantisation::require_no_numbers(numbers, "weight_sums");
  Tensors taken;
  quantisation::take(taken, inputs, "weights", "weight_sums");
  return std::make_unique<SumsProblem>(std::move(taken));
}

std::string random_help() { return "n, k, pattern (0 all bytes, 1 all -128)"; }

std::unique_ptr<Problem> make_random_problem(std::string_view, const Numbers& numbers, std::uint64_t seed) {
  constexpr double kMost = 1 << 24;
  std::int64_t n = 64;
  std::int64_t k = 1024;
  bool is_lowest = false;
  for (const auto& [name, value] : numbers) {
    if (name == "pattern") {
      is_lowest = whole_number(name, value, 0, 1) == 1;
    } else if (name == "n" || name == "k") {
      (name == "n" ? n : k) = whole_number(name, value, 0, kMost);
    } else {
      reject(fmt::format("size {}", name), "weight_sums has no such size", "accepted: n, k, pattern");
    }
  }
  check_sizes(n, k);
  require_made_up(fmt::format("n = {} and k = {}", n, k), static_cast<double>(n) * static_cast<double>(k),
                  "ask for smaller sizes");
  auto storage = std::make_unique<char[]>(n * k);
  Random random(seed);
  draw_in_order(random, n * k, 1, [&](std::int64_t i, Random& own) {
    const auto byte = static_cast<char>(own.bits());
    storage[i] = is_lowest ? '\x80' : byte;
  });
  Tensors inputs;
  inputs.add(dense("weights", "I8", {n, k}, nullptr), std::move(storage));
  return std::make_unique<SumsProblem>(std::move(inputs));
}

/// Layers of common sizes. The operator runs once for each layer that is loaded, and has no target.
std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  for (const double size : {1920, 4096, 8192})
    cases.push_back({"square layers", fmt::format("N=K={}", size), "weight_sums", {{"n", size}, {"k", size}}});
  return cases;
}

}  // namespace cubit::check::weight_sums
