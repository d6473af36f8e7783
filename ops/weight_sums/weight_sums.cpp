// The kernel, the launches and the interface of the operator weight_sums.
#include "ops/weight_sums/weight_sums.hpp"

#include <cubit/weight_sums.h>

#include <cstring>

#include "ops/argument_checks.hpp"
#include "ops/fields.hpp"
#include "ops/one_pass.hpp"
#include "templates/kernels/quantisation/weight_sums_arguments.h"

namespace cubit::ops {
namespace weight_sums {
namespace {

constexpr std::string_view kName = "weight_sums";
constexpr int kRowsOfBlock = one_pass::kThreads / 32;  ///< a warp has a row

/// The descriptor has no fields.
struct NoFields {};

Launch encode(const PointerChecks& pointers, const void* public_arguments) {
  const auto& arguments =
      checked_arguments<cubit_weight_sums_arguments>(public_arguments, "cubit_weight_sums_arguments");
  check_sizes(arguments.n, arguments.k);
  Launch launch;
  launch.empty = arguments.n == 0;
  if (launch.empty) return launch;
  pointers.check(&arguments);
  require_alignment("weights", arguments.weights, nullptr, 0, 1, 16, "align it");
  require_alignment("sums", arguments.sums, nullptr, 0, 1, 4, "align it");
  const WeightSumsArguments parameters{static_cast<const char*>(arguments.weights), arguments.sums, arguments.n,
                                       arguments.k};
  launch.shape = {{static_cast<unsigned>((arguments.n - 1) / kRowsOfBlock + 1), 1, 1},
                  static_cast<unsigned>(one_pass::kThreads),
                  0};
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  return launch;
}

PlanReport make_report() {
  PlanReport report;
  report.family = kName;
  report.decisions = {{"rows of a warp", "1", "lanes read 512 neighbouring bytes and add up their sums at the end"},
                      {"sums", "32-bit integers", "k is at most 131056, so that no sum of bytes overflows"}};
  return report;
}

class WeightSumsOperator final : public Operator {
 public:
  std::string_view name() const override { return kName; }
  std::string_view summary() const override {
    return "add up the rows of int8 weights, for w8a8_gemm with zero points of activations";
  }
  std::vector<FieldHelp> fields() const override { return {}; }
  const ArgumentTable& arguments() const override { return weight_sums::arguments(); }
  std::string canonical(std::string_view text) const override {
    parse_fields(text, std::vector<Field<NoFields>>{});
    return std::string(kName);
  }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const std::string descriptor = canonical(text);
    codegen::PlanHeader header(descriptor);
    header.constant("kThreads", one_pass::kThreads);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        one_pass::make_source(descriptor, "quantisation", "weight_sums", header, architecture), make_report(),
        sizeof(cubit_weight_sums_arguments),
        [pointers = PointerChecks(arguments(), {}, "")](const void* given, const runtime::DeviceFacts&) {
          return encode(pointers, given);
        });
  }
};

}  // namespace

void check_sizes(std::int64_t n, std::int64_t k) {
  constexpr int kMostK = 131056;  // of w8a8_gemm
  require_argument(n >= 0 && n <= 2147483647, "n", "it must be from 0 to 2147483647", n);
  require_argument(k >= 16 && k <= kMostK, "k", "it must be from 16 to 131056", k);
  require_argument(k % 16 == 0, "k", "it must be a multiple of 16", k);
}

}  // namespace weight_sums

const Operator& weight_sums_operator() {
  static const weight_sums::WeightSumsOperator instance;
  return instance;
}

}  // namespace cubit::ops
