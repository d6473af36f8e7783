// Makes a problem of w4a16_gemm from a checkpoint's tensors by name. Some tensors are taken as they are, some are
// converted to the type that the kernel reads, and the error for any other tensor says what to do about it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "check/host_tensors.hpp"
#include "check/w4a16_gemm/problem.hpp"
#include "ops/element/element.hpp"
#include "ops/kernel_family.hpp"

namespace cubit::check::w4a16_gemm {
namespace {

/// An element of a tensor that need not be aligned.
template <class Number>
Number number_at(const Tensor& tensor, std::int64_t index) {
  Number number;
  std::memcpy(&number, static_cast<const char*>(tensor.data) + index * static_cast<std::int64_t>(sizeof number),
              sizeof number);
  return number;
}

/// Checks a g_idx that the descriptor does not take. Checkpoints without activation order often store g_idx anyway: it
/// must then be k / group_size, and it is not copied.
void check_group_index(const W4a16Gemm& descriptor, const Tensor& tensor, std::int64_t k) {
  check_group_numbers(tensor, k, groups_of(descriptor, static_cast<int>(k)));
  W4a16Gemm ordered = descriptor;
  ordered.activation_order = true;
  for (std::int64_t i = 0; i < k; ++i) {
    const auto group = number_at<std::int32_t>(tensor, i);
    const std::int64_t expected = descriptor.group_size == 0 ? 0 : i / descriptor.group_size;
    if (group == expected) continue;
    reject(fmt::format("g_idx[{}] = {}", i, group), fmt::format("{} takes no activation order", descriptor.text()),
           remedy_of_change(ordered, "activation_order=true", "accepted beside these fields: no activation order") +
               ", or give g_idx[k] = k / group_size or none");
  }
}

/// The name of the tensor in the first layer.
std::string_view name_in_first_layer(std::string_view name) {
  return name.ends_with("_2") || name.ends_with("_3") ? name.substr(0, name.size() - 2) : name;
}

/// The remedy for a tensor that the descriptor does not take.
std::string remedy_of_name(const W4a16Gemm& descriptor, std::string_view name,
                           const std::vector<std::string_view>& taken) {
  if (name != name_in_first_layer(name) && name.back() - '0' > descriptor.layers)
    return fmt::format("ask for layers={}, or leave it out", name.back());
  const bool is_packed = name == "qweight" || name == "scales" || name == "qzeros" || name == "g_idx";
  if (is_packed && descriptor.is_dense()) return "ask for the format of these packed weights, or leave it out";
  if (name == "qzeros") {
    return fmt::format("ask for format={}, as its packer did, or leave it out where every zero is the middle",
                       descriptor.bits == 4 ? "gptq, gptq_v2 or awq" : "gptq or gptq_v2");
  }
  if (name == "bias" || name == "residual") return fmt::format("ask for {}=true, or leave it out", name);
  if (name == "weight" || name == "weights")
    return "quantise them first, by w4_quantize, and give what that writes, or ask for format=dense";
  return fmt::format("accepted: {}", fmt::join(taken, ", "));
}

double value_at(const Tensor& tensor, std::int64_t index) {
  if (tensor.type == "F32") return number_at<float>(tensor, index);
  const Element element = tensor.type == "BF16" ? Element::bf16 : Element::fp16;
  return to_double(element, number_at<std::uint16_t>(tensor, index));
}

/// Converts a bf16 scale to the fp16 that the kernel reads. bf16 has fewer bits of precision, so the conversion is
/// exact unless the scale is very small or very large, which is refused: no weight changes its value silently. A scale
/// that is not finite stays so.
std::uint16_t scale_from(const Tensor& scales, std::int64_t index) {
  const double scale = value_at(scales, index);
  const std::uint16_t bits = from_float(Element::fp16, static_cast<float>(scale));
  if (!std::isfinite(scale) || to_double(Element::fp16, bits) == scale) return bits;
  reject(
      fmt::format("{}[{}, {}] = {} of type BF16", scales.name, index / scales.shape[1], index % scales.shape[1], scale),
      "fp16, which the kernel reads, has no such number",
      "accepted: F16, or BF16 from 2^-17 to 65280, where every number is one of fp16 too");
}

/// Rounds a bias to the activations' type, as frameworks do that run a model in another type than the checkpoint's.
std::uint16_t bias_from(const Tensor& bias, std::int64_t index, const W4a16Gemm& descriptor) {
  const Element element = descriptor.element;
  const double value = value_at(bias, index);
  const std::uint16_t bits = from_float(element, static_cast<float>(value));
  if (std::isfinite(to_double(element, bits)) || !std::isfinite(value)) return bits;
  W4a16Gemm wider = descriptor;
  wider.element = Element::bf16;
  constexpr const char* kSmaller = "give a smaller one";
  const bool fits = std::isfinite(to_double(Element::bf16, from_float(Element::bf16, static_cast<float>(value))));
  reject(fmt::format("{}[{}] = {} of type {}", bias.name, index, value, bias.type),
         fmt::format("it is too large for {}, to which it would be rounded", element_type(element)),
         fits ? remedy_of_change(wider, "element=bf16", kSmaller) : kSmaller);
}

/// The tensor converted to the 16-bit type `type`, element by element.
template <class Convert>
void add_converted(Tensors& taken, const Tensor& input, std::string_view type, Convert convert) {
  Tensor tensor = dense(input.name, type, input.shape, nullptr);
  auto storage = std::make_unique<char[]>(tensor.bytes());
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const std::uint16_t bits = convert(i);
    std::memcpy(storage.get() + i * static_cast<std::int64_t>(sizeof bits), &bits, sizeof bits);
  }
  taken.add(std::move(tensor), std::move(storage));
}

/// Whether the bias has the columns of its layer. A bias of a wrong shape stays as it is, and the problem refuses it.
bool has_columns(const Tensor& bias, const Tensors& taken) {
  const std::string_view suffix = std::string_view(bias.name).substr(std::string_view("bias").size());
  const Tensor* const scales = taken.find("scales" + std::string(suffix));
  const Tensor& weights = scales != nullptr ? *scales : *taken.find("weight");
  const std::size_t columns = scales != nullptr ? 1 : 0;  // dimension
  return weights.shape.size() == 2 && bias.shape == std::vector<std::int64_t>{weights.shape[columns]};
}

/// Takes the input `name`. Returns false if there is no tensor of that name. `taken` has the tensors that input_names
/// lists before `name`.
bool take(Tensors& taken, const W4a16Gemm& descriptor, std::span<const Tensor> inputs, std::string_view name) {
  const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const Tensor& one) { return one.name == name; });
  if (input == inputs.end()) return false;
  const std::string_view element = element_type(descriptor.element);
  const std::string_view part = name_in_first_layer(name);
  if (part == "scales" && input->type == "BF16" && input->shape.size() == 2) {
    add_converted(taken, *input, "F16", [&](std::int64_t i) { return scale_from(*input, i); });
    return true;
  }
  const bool is_float = input->type == "F16" || input->type == "BF16" || input->type == "F32";
  if (part == "bias" && is_float && input->type != element && has_columns(*input, taken)) {
    add_converted(taken, *input, element, [&](std::int64_t i) { return bias_from(*input, i, descriptor); });
    return true;
  }
  return taken.take(inputs, name);
}

}  // namespace

std::string remedy_of_change(W4a16Gemm changed, const std::string& what, const std::string& otherwise) {
  const auto is_legal = [&] {
    try {
      check_rules(changed, "");
      return true;
    } catch (const Failure&) {
      return false;
    }
  };
  if (is_legal()) return "ask for " + what;
  changed.tile_n = 0;
  changed.family = kAnyFamily;
  return is_legal() ? "ask for " + what + ", and leave tile_n and family out" : otherwise;
}

std::string name_in_layer(std::string_view name, int layer) {
  return layer == 0 ? std::string(name) : fmt::format("{}_{}", name, layer + 1);
}

std::vector<std::string_view> input_names(const W4a16Gemm& descriptor) {
  const std::vector<FieldHelp> fields = help_of(ops::w4a16_gemm::fields());
  const std::string text = descriptor.text();
  std::vector<std::string_view> names;
  for (const Argument& argument : ops::w4a16_gemm::arguments().arguments) {
    if (argument.kind == ArgumentKind::input && holds(argument.when, {fields, text})) names.push_back(argument.name);
  }
  return names;
}

void check_group_numbers(const Tensor& order, std::int64_t k, std::int64_t groups) {
  if (order.type != "I32" || order.shape != std::vector<std::int64_t>{k})
    reject(fmt::format("{} of type {}", shape_text(order), order.type), fmt::format("it must be I32 [{}]", k));
  for (std::int64_t i = 0; i < k; ++i) {
    const auto group = number_at<std::int32_t>(order, i);
    if (group >= 0 && group < groups) continue;
    reject(fmt::format("g_idx[{}] = {}", i, group), fmt::format("there are {} groups", groups),
           fmt::format("accepted: 0 to {}", groups - 1));
  }
}

namespace {

/// Dense weights may also have the name that they have in w4_quantize.
std::vector<Tensor> with_names_of_inputs(const W4a16Gemm& descriptor, std::span<const Tensor> inputs) {
  std::vector<Tensor> renamed(inputs.begin(), inputs.end());
  const auto named = [&](const char* name) {
    return std::find_if(renamed.begin(), renamed.end(), [&](const Tensor& one) { return one.name == name; });
  };
  const auto weights = named("weights");
  if (descriptor.is_dense() && weights != renamed.end() && named("weight") == renamed.end()) weights->name = "weight";
  return renamed;
}

}  // namespace

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> given, const Numbers& numbers) {
  const W4a16Gemm descriptor = parse(text);
  const std::vector<Tensor> inputs = with_names_of_inputs(descriptor, given);
  const bool may_have_group_index = descriptor.format != W4Format::awq && !descriptor.is_dense();
  LaunchNumbers launch;
  for (const auto& [name, value] : numbers) {
    if (launch.set(descriptor, name, value)) continue;
    reject(fmt::format("number {}", name), "w4a16_gemm has no such launch argument",
           fmt::format("accepted: {}", LaunchNumbers::kNames));
  }
  const std::vector<std::string_view> names = input_names(descriptor);
  const Tensor* group_index = nullptr;  // a g_idx that the descriptor does not take
  for (const Tensor& input : inputs) {
    if (std::find(names.begin(), names.end(), input.name) != names.end()) continue;
    if (input.name == "g_idx" && may_have_group_index) {
      group_index = &input;
      continue;
    }
    reject(fmt::format("tensor {}", input.name), fmt::format("{} has no such input", descriptor.text()),
           remedy_of_name(descriptor, input.name, names));
  }
  Tensors taken;
  for (const std::string_view name : names) {
    if (take(taken, descriptor, inputs, name)) continue;
    reject(fmt::format("tensors without {}", name),
           fmt::format("{} needs {}", descriptor.text(), fmt::join(names, ", ")));
  }
  auto problem = std::make_unique<GemmProblem>(descriptor, std::move(taken), launch);
  if (group_index != nullptr) check_group_index(descriptor, *group_index, problem->k());
  return problem;
}

std::string fit(std::string_view text, std::span<const Tensor> inputs, const Numbers& /*numbers*/) {
  W4a16Gemm descriptor = parse(text);
  std::string canonical = descriptor.text();
  if (descriptor.format != W4Format::awq || gives_field(text, "alignment")) return canonical;
  std::int64_t all_bytes = 0;  // divisible by what divides the rows of every layer
  for (const Tensor& input : inputs) {
    if (name_in_first_layer(input.name) != "qweight" || input.shape.size() != 2) continue;
    std::int64_t bytes = input.shape[1] * static_cast<std::int64_t>(sizeof(std::int32_t));
    if (descriptor.is_gated() && descriptor.layers == 1) bytes /= 2;  // up-projections begin in the middle of a row
    all_bytes |= bytes;
  }
  if (all_bytes == 0) return canonical;
  descriptor.alignment = all_bytes % 16 == 0 ? 16 : 4;
  return all_bytes % descriptor.alignment == 0 && is_served(descriptor) ? descriptor.text() : canonical;
}

}  // namespace cubit::check::w4a16_gemm
