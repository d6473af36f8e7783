// Implements the problem of w8a8_gemm: checks of tensors, launch arguments, and the comparison with the reference.
#include "check/w8a8_gemm/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/parallel.hpp"
#include "check/byte_values.hpp"
#include "check/gemm_problem.hpp"
#include "check/host_tensors.hpp"
#include "check/made_up_data.hpp"
#include "check/random.hpp"
#include "check/w8a8_gemm/reference.hpp"
#include "check/w8a8_gemm/tensor_checks.hpp"
#include "ops/element/element.hpp"
#include "ops/text.hpp"

namespace cubit::check::w8a8_gemm {
namespace {

/// The scalar arguments of a launch; see cubit_w8a8_gemm_arguments.
struct LaunchChoice {
  std::int32_t decomposition = 0;
  std::int32_t splits = 0;
  std::int32_t constant_weights = 0;

  /// Sets the number `name`. Returns false if there is no number of this name.
  bool set(const W8a8Gemm& descriptor, std::string_view name, double value) {
    if (name == "decomposition") {
      decomposition =
          static_cast<std::int32_t>(whole_number(name, value, CUBIT_W8A8_AUTOMATIC, CUBIT_W8A8_SPLIT_K_ATOMIC));
      gemm::check_decomposition(describe(descriptor), static_cast<gemm::Decomposition>(decomposition));
      return true;
    }
    if (name == "constant_weights") {
      constant_weights = static_cast<std::int32_t>(whole_number(name, value, 0, 1));
      return true;
    }
    if (name != "splits") return false;
    splits = static_cast<std::int32_t>(whole_number(name, value, 0, gemm::kMostSplits));
    return true;
  }
};

std::string_view byte_type(W8Element element) { return element == W8Element::int8 ? "I8" : "F8_E4M3"; }

std::string_view output_type(const W8a8Gemm& descriptor) {
  constexpr std::string_view kTypes[] = {"F16", "BF16", "I32", "I8", "F8_E4M3"};
  return kTypes[static_cast<int>(descriptor.output)];
}

std::string_view second_type(const W8a8Gemm& descriptor) {
  return descriptor.second_output == SecondOutput::int8 ? "I8" : "F8_E4M3";
}

std::vector<std::string_view> input_names(const W8a8Gemm& descriptor) {
  const std::vector<FieldHelp> help = help_of(fields());
  const std::string text = descriptor.text();
  std::vector<std::string_view> names;
  for (const Argument& argument : ops::w8a8_gemm::arguments().arguments) {
    if (argument.kind == ArgumentKind::input && holds(argument.when, {help, text})) names.push_back(argument.name);
  }
  return names;
}

class W8a8Problem final : public Problem {
 public:
  /// Checks all tensors. `inputs` are in the order of input_names. Throws Failure(invalid_argument).
  /// `is_normal`: activations and weights are known to be normal data, whose products cancel.
  W8a8Problem(W8a8Gemm descriptor, Tensors inputs, const LaunchChoice& launch, bool is_normal)
      : descriptor_(std::move(descriptor)),
        inputs_(std::move(inputs)),
        launch_(launch),
        allows_truncation_(!is_normal) {
    operands_ = {.activations = inputs_.find("activations"),
                 .weights = inputs_.find("weights"),
                 .activation_scales = inputs_.find("activation_scales"),
                 .weight_scales = inputs_.find("weight_scales"),
                 .activation_zeros = inputs_.find("activation_zeros"),
                 .weight_sums = inputs_.find("weight_sums"),
                 .output_scale = inputs_.find("output_scale"),
                 .second_scale = inputs_.find("second_scale"),
                 .bias = inputs_.find("bias"),
                 .residual = inputs_.find("residual")};
    check();
    outputs_.push_back(dense("output", output_type(descriptor_), {operands_.m(), columns()}, nullptr));
    if (descriptor_.has_second_output())
      outputs_.push_back(dense("second_output", second_type(descriptor_), {operands_.m(), columns()}, nullptr));
  }

  const std::vector<Tensor>& inputs() const override { return inputs_.list(); }
  const std::vector<Tensor>& outputs() const override { return outputs_; }
  std::size_t bytes_read() const override {
    std::size_t bytes = 0;
    for (const Tensor& input : inputs_.list()) bytes += input.bytes();
    return operands_.m() == 0 ? 0 : bytes;
  }
  std::size_t bytes_written() const override {
    return outputs_[0].bytes() + (outputs_.size() > 1 ? outputs_[1].bytes() : 0);
  }
  double operations() const override { return 2.0 * operands_.m() * operands_.n() * operands_.k(); }
  std::vector<std::byte> arguments(std::span<void* const> device_data) const override;
  Comparison compare(std::span<const void* const> got) const override;

 private:
  int columns() const { return output_columns(descriptor_, operands_.n()); }
  void check() const;
  double bytes_error(const void* got, int row, const SumRow& sums) const;
  double halves_error(const std::uint16_t* got, int row, const SumRow& sums) const;
  double row_error(const void* got, int row, const SumRow& sums) const;
  double tolerance() const;
  /// What truncated products may change beyond the tolerance.
  double allowed_truncation(const Reference& reference) const { return allows_truncation_ ? reference.truncation : 0; }

  W8a8Gemm descriptor_;
  Tensors inputs_;
  std::vector<Tensor> outputs_;
  LaunchChoice launch_;
  /// Of data that are not known to be normal, 16-bit outputs may differ by the bound of reference.hpp, too.
  bool allows_truncation_;
  Operands operands_;
};

void W8a8Problem::check() const {
  for (const Tensor* const bytes : {operands_.activations, operands_.weights}) {
    require_type(*bytes, byte_type(descriptor_.element));
    require_rank(*bytes, 2, bytes == operands_.weights ? "[n, k]" : "[m, k]");
  }
  const std::int64_t m = operands_.activations->shape[0];
  const std::int64_t n = operands_.weights->shape[0];
  gemm::check_sizes(describe(descriptor_), m, n, operands_.activations->shape[1]);
  require_shape(*operands_.weights, {n, operands_.k()}, "[n, k]");
  const auto check_tensor = [](const Tensor* tensor, std::string_view type, const std::vector<std::int64_t>& shape,
                               std::string_view dimensions) {
    if (tensor == nullptr) return;
    require_type(*tensor, type);
    require_shape(*tensor, shape, dimensions);
  };
  const bool has_tokens = descriptor_.activation_scale == TokenScale::token;
  const bool has_channels = descriptor_.weight_scale == ChannelScale::channel;
  check_tensor(operands_.activation_scales, "F32", {has_tokens ? m : 1}, has_tokens ? "[m]" : "[1]");
  check_tensor(operands_.weight_scales, "F32", {has_channels ? n : 1}, has_channels ? "[n]" : "[1]");
  check_tensor(operands_.activation_zeros, "I32", {has_tokens ? m : 1}, has_tokens ? "[m]" : "[1]");
  check_tensor(operands_.weight_sums, "I32", {n}, "[n]");
  check_tensor(operands_.output_scale, "F32", {1}, "[1]");
  check_tensor(operands_.second_scale, "F32", {1}, "[1]");
  const std::string_view addend = element_type(addend_type(descriptor_));
  check_tensor(operands_.bias, addend, {n}, "[n]");
  check_tensor(operands_.residual, addend, {m, columns()}, descriptor_.is_gated() ? "[m, n / 2]" : "[m, n]");
  check_scales(operands_.activation_scales, false);
  check_scales(operands_.weight_scales, false);
  check_scales(operands_.output_scale, true);
  check_scales(operands_.second_scale, true);
  check_sums(operands_);
}

std::vector<std::byte> W8a8Problem::arguments(std::span<void* const> device_data) const {
  const std::size_t inputs = inputs_.list().size();
  if (device_data.size() != inputs + outputs_.size())
    reject(fmt::format("{} device addresses", device_data.size()),
           fmt::format("this problem has {} inputs and {}", inputs,
                       ops::counted(static_cast<int>(outputs_.size()), "output")));
  const auto address = [&](std::string_view name) { return inputs_.address<const void>(device_data, name); };
  cubit_w8a8_gemm_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.activations = address("activations");
  arguments.weights = address("weights");
  arguments.activation_scales = inputs_.address<const float>(device_data, "activation_scales");
  arguments.weight_scales = inputs_.address<const float>(device_data, "weight_scales");
  arguments.activation_zeros = inputs_.address<const std::int32_t>(device_data, "activation_zeros");
  arguments.weight_sums = inputs_.address<const std::int32_t>(device_data, "weight_sums");
  arguments.output_scale = inputs_.address<const float>(device_data, "output_scale");
  arguments.bias = address("bias");
  arguments.residual = address("residual");
  arguments.output = device_data[inputs];
  arguments.second_scale = inputs_.address<const float>(device_data, "second_scale");
  if (descriptor_.has_second_output()) arguments.second_output = device_data[inputs + 1];
  arguments.second_stride = columns();
  arguments.activation_stride = operands_.k();
  arguments.residual_stride = arguments.output_stride = columns();
  arguments.m = operands_.m();
  arguments.n = operands_.n();
  arguments.k = operands_.k();
  arguments.decomposition = launch_.decomposition;
  arguments.splits = launch_.splits;
  arguments.constant_weights = launch_.constant_weights;
  return bytes_of_struct(arguments);
}

/// Half a step of e4m3 beside a number of steps.
double half_step_of_fp8(double steps) {
  return std::ldexp(1.0, std::max(std::ilogb(steps), kE4m3.least_exponent) - kE4m3.fraction_bits - 1);
}

/// The largest distance of a byte from the reference beyond half a step, relative to what arithmetic in fp32 may cost.
/// Exact bytes count the bytes that differ.
double W8a8Problem::bytes_error(const void* got, int row, const SumRow& sums) const {
  const bool is_int8 = descriptor_.output == W8Output::int8;
  const auto* const bytes = static_cast<const std::uint8_t*>(got) + static_cast<std::int64_t>(row) * columns();
  double error = 0;
  for (int column = 0; column < columns(); ++column) {
    if (has_exact_bytes(descriptor_)) {
      const std::int8_t expected = exact_byte(descriptor_, operands_, sums, row, column);
      error += static_cast<std::int8_t>(bytes[column]) != expected;
      continue;
    }
    const double scale = static_cast<const float*>(operands_.output_scale->data)[0];
    const Reference reference = reference_of(descriptor_, operands_, sums, row, column);
    const double most = is_int8 ? 127 : 448;
    const double steps = std::clamp(reference.value / scale, is_int8 ? -128.0 : -most, most);
    const double found = is_int8 ? static_cast<std::int8_t>(bytes[column]) : fp8_to_double(kE4m3, bytes[column]);
    constexpr double kArithmetic = 2e-5;  // sums and functions in fp32, relative to what is added
    const double allowed = kArithmetic * (reference.contributions / scale + 1);
    // A truncated result may be a larger number, whose half step counts.
    const double truncation = reference.truncation / scale;
    const double largest = std::min(std::fabs(steps) + truncation, most);
    const double beyond = std::fabs(found - steps) - truncation - (is_int8 ? 0.5 : half_step_of_fp8(largest));
    error = std::max(error, std::isnan(found) ? std::numeric_limits<double>::infinity() : beyond / allowed);
  }
  return error;
}

double W8a8Problem::halves_error(const std::uint16_t* got, int row, const SumRow& sums) const {
  const Element element = addend_type(descriptor_);
  double difference = 0;
  double norm = 0;
  double contributions = 0;
  for (int column = 0; column < columns(); ++column) {
    const Reference reference = reference_of(descriptor_, operands_, sums, row, column);
    const double found = to_double(element, got[static_cast<std::int64_t>(row) * columns() + column]);
    const double truncation = allowed_truncation(reference);
    const double near = tolerance() + (truncation > 0 ? truncation / std::fabs(reference.value) : 0);
    double error = std::fabs(difference_of(element, found, reference.value, near));
    error = error <= truncation ? 0 : error - truncation;  // NaN stays NaN
    constexpr double kSubnormal = 0x1p-25;                 // half a step of fp16's subnormal numbers
    if (element == Element::fp16 && std::fabs(reference.value) < 0x1p-14) error = std::max(0.0, error - kSubnormal);
    difference += error * error;
    if (!std::isfinite(found)) continue;
    norm += reference.value * reference.value;
    contributions += reference.contributions * reference.contributions;
  }
  return relative_error(std::sqrt(difference), std::max(std::sqrt(norm), 0.1 * std::sqrt(contributions)));
}

double W8a8Problem::row_error(const void* got, int row, const SumRow& sums) const {
  if (descriptor_.has_byte_output()) return bytes_error(got, row, sums);
  if (descriptor_.output != W8Output::int32) return halves_error(static_cast<const std::uint16_t*>(got), row, sums);
  const auto* const found = static_cast<const std::int32_t*>(got) + static_cast<std::int64_t>(row) * columns();
  int different = 0;
  for (int column = 0; column < columns(); ++column)
    different += static_cast<double>(found[column]) != sums.sums[column];
  return different;
}

/// The relative error of sums of e4m3 whose addends have random signs: see reference.hpp. The factors of a gate have
/// this error each.
double tolerance_of_fp8(const W8a8Gemm& descriptor, int k) {
  constexpr double kLeast = 1e-3;
  const double error = descriptor.promotes() ? kLeast : std::max(kLeast, random_truncation(k));
  return descriptor.is_gated() ? 2 * error : error;
}

/// In few 16-bit columns every column may be off by half a unit in the last place.
double W8a8Problem::tolerance() const {
  if (descriptor_.output == W8Output::int32 || has_exact_bytes(descriptor_)) return 0;
  if (descriptor_.has_byte_output()) return 1;
  const bool is_narrow = columns() < 64;
  const double of_sums = descriptor_.element == W8Element::fp8_e4m3 ? tolerance_of_fp8(descriptor_, operands_.k()) : 0;
  if (descriptor_.output == W8Output::bf16) return std::max(is_narrow ? 4e-3 : 3e-3, of_sums);
  return std::max(is_narrow ? 4.9e-4 : 3e-4, of_sums);
}

Problem::Comparison W8a8Problem::compare(std::span<const void* const> got) const {
  if (got.size() != outputs_.size())
    reject(fmt::format("{} outputs", got.size()), fmt::format("the descriptor has {}", outputs_.size()));
  const std::vector<SumRow> sums = sums_of_rows(descriptor_, operands_);
  std::vector<double> errors(operands_.m());
  parallel_for(operands_.m(), [&](std::int64_t row) {
    errors[row] = row_error(got[0], static_cast<int>(row), sums[row]);
    // Second outputs are exact: each byte that differs is an error beyond the tolerance.
    if (got.size() > 1) errors[row] += second_differences(descriptor_, operands_, row * columns(), columns(), got);
  });
  if (errors.empty()) return {0, tolerance(), "none"};
  const auto worst = std::max_element(errors.begin(), errors.end());
  return {*worst, tolerance(), fmt::format("row {}", worst - errors.begin())};
}

/// Kinds of made-up data; see random_help().
enum class Pattern { normal, extreme_bytes, one_sign, tiny_scales };
constexpr int kPatterns = 4;

struct Sizes {
  GemmSizes gemm;
  Pattern pattern = Pattern::normal;
  LaunchChoice launch;
};

Sizes read_sizes(const W8a8Gemm& descriptor, const Numbers& numbers) {
  Sizes sizes;
  for (const auto& [name, value] : numbers) {
    if (sizes.gemm.set_size(name, value)) continue;
    if (name == "pattern") {
      sizes.pattern = static_cast<Pattern>(whole_number(name, value, 0, kPatterns - 1));
    } else if (!sizes.launch.set(descriptor, name, value)) {
      reject(fmt::format("size {}", name), "w8a8_gemm has no such size",
             "accepted: m, n, k, pattern, decomposition, splits, constant_weights");
    }
  }
  gemm::check_sizes(describe(descriptor), sizes.gemm.m, sizes.gemm.n, sizes.gemm.k);
  const auto m = static_cast<double>(sizes.gemm.m);
  const auto n = static_cast<double>(sizes.gemm.n);
  const auto k = static_cast<double>(sizes.gemm.k);
  require_made_up(sizes.gemm.size_text(), m * k + n * k + 6 * m * n, "ask for smaller sizes");
  return sizes;
}

/// Fills tensors in order from one stream of random numbers.
class Maker {
 public:
  Maker(W8a8Gemm descriptor, const Sizes& sizes, std::uint64_t seed)
      : descriptor_(std::move(descriptor)), sizes_(sizes), random_(seed) {}

  void bytes(const char* name, std::int64_t rows) {
    add<std::uint8_t>(name, byte_type(descriptor_.element), {rows, sizes_.gemm.k}, [&](Random& random) {
      if (descriptor_.element == W8Element::fp8_e4m3) return fp8_byte(random);
      const auto byte = static_cast<std::uint8_t>(random.bits() >> 32);
      if (sizes_.pattern == Pattern::extreme_bytes) return static_cast<std::uint8_t>(byte % 4 == 0 ? 127 : 128);
      return sizes_.pattern == Pattern::one_sign ? static_cast<std::uint8_t>(byte % 128) : byte;
    });
  }
  /// Scales are about a typical value, or spread over many powers of two.
  void scales(const char* name, std::int64_t count, double typical) {
    add<float>(name, "F32", {count}, [&](Random& random) {
      const double uniform = random.uniform();
      const double factor = sizes_.pattern == Pattern::tiny_scales ? std::exp2(-12 * uniform) : 0.5 + uniform;
      return static_cast<float>(typical * factor);
    });
  }
  /// Zero points of the whole range of signed bytes, of which extreme bytes have the ends.
  void zeros(const char* name, std::int64_t count) {
    add<std::int32_t>(name, "I32", {count}, [&](Random& random) {
      const auto zero = static_cast<std::int32_t>(random.bits() >> 56) - 128;
      return sizes_.pattern != Pattern::extreme_bytes ? zero : zero < 0 ? -128 : 127;
    });
  }
  void weight_sums() {
    auto sums = std::make_unique<char[]>(sizeof(std::int32_t) * sizes_.gemm.n);
    for (std::int64_t row = 0; row < sizes_.gemm.n; ++row) {
      const auto sum = static_cast<std::int32_t>(sum_of_weights(*inputs.find("weights"), static_cast<int>(row)));
      std::memcpy(sums.get() + sizeof sum * row, &sum, sizeof sum);
    }
    inputs.add(dense("weight_sums", "I32", {sizes_.gemm.n}, nullptr), std::move(sums));
  }
  void halves(const char* name, std::vector<std::int64_t> shape) {
    const Element element = addend_type(descriptor_);
    add<std::uint16_t>(name, element_type(element), std::move(shape),
                       [&](Random& random) { return from_float(element, static_cast<float>(random.normal())); });
  }

  Tensors inputs;

 private:
  /// A byte of e4m3 that is no NaN: extreme bytes have the largest and the smallest numbers.
  std::uint8_t fp8_byte(Random& random) const {
    const auto x = static_cast<float>(random.normal());
    const float magnitude = std::fabs(x);
    if (sizes_.pattern == Pattern::extreme_bytes)
      return fp8_from_float(kE4m3, std::copysign(x > 1 ? 448.F : 0x1p-9F, x));
    return fp8_from_float(kE4m3, sizes_.pattern == Pattern::one_sign ? magnitude : x);
  }
  template <class Value, class Next>
  void add(const char* name, std::string_view type, std::vector<std::int64_t> shape, const Next& next) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    auto data = std::make_unique<char[]>(sizeof(Value) * count);
    draw_in_order(random_, count, 1, [&](std::int64_t i, Random& draws) {
      const Value value = next(draws);
      std::memcpy(data.get() + sizeof(Value) * i, &value, sizeof value);
    });
    inputs.add(dense(name, type, std::move(shape), nullptr), std::move(data));
  }

  W8a8Gemm descriptor_;
  Sizes sizes_;
  Random random_;
};

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> given, const Numbers& numbers) {
  const W8a8Gemm descriptor = parse(text);
  LaunchChoice launch;
  for (const auto& [name, value] : numbers) {
    if (!launch.set(descriptor, name, value))
      reject(fmt::format("number {}", name), "w8a8_gemm has no such number",
             "accepted: decomposition, splits, constant_weights");
  }
  const std::vector<std::string_view> names = input_names(descriptor);
  require_names(given, names, "w8a8_gemm");
  Tensors taken;
  for (const std::string_view name : names) {
    if (!taken.take(given, name)) reject(fmt::format("no tensor {}", name), fmt::format("{} needs it", text));
  }
  return std::make_unique<W8a8Problem>(descriptor, std::move(taken), launch, false);
}

std::string random_help() {
  return "m, n, k, pattern (0 normal, 1 extreme bytes, 2 bytes of one sign, 3 scales of many sizes), decomposition, "
         "splits, constant_weights (1: an overlapping launch may copy weights early)";
}

std::unique_ptr<Problem> make_random_problem(std::string_view text, const Numbers& numbers, std::uint64_t seed) {
  const W8a8Gemm descriptor = parse(text);
  const Sizes sizes = read_sizes(descriptor, numbers);
  Maker maker(descriptor, sizes, seed);
  maker.bytes("activations", sizes.gemm.m);
  maker.bytes("weights", sizes.gemm.n);
  if (descriptor.output != W8Output::int32) {
    // Values of about 1: a sum of int8 is about 74² · sqrt(k).
    const double typical = 1 / ((descriptor.element == W8Element::int8 ? 74 : 1) * std::pow(sizes.gemm.k, 0.25));
    maker.scales("activation_scales", descriptor.activation_scale == TokenScale::token ? sizes.gemm.m : 1, typical);
    maker.scales("weight_scales", descriptor.weight_scale == ChannelScale::channel ? sizes.gemm.n : 1, typical);
  }
  if (descriptor.zero_points) {
    maker.zeros("activation_zeros", descriptor.activation_scale == TokenScale::token ? sizes.gemm.m : 1);
    maker.weight_sums();
  }
  if (descriptor.has_byte_output()) maker.scales("output_scale", 1, 0.03);
  if (descriptor.has_second_output()) maker.scales("second_scale", 1, 0.03);
  if (descriptor.bias) maker.halves("bias", {sizes.gemm.n});
  if (descriptor.residual)
    maker.halves("residual", {sizes.gemm.m, output_columns(descriptor, static_cast<int>(sizes.gemm.n))});
  const bool is_normal = sizes.pattern == Pattern::normal || sizes.pattern == Pattern::tiny_scales;
  return std::make_unique<W8a8Problem>(descriptor, std::move(maker.inputs), sizes.launch, is_normal);
}

}  // namespace cubit::check::w8a8_gemm
