#include "tools/checkpoint/evidence.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cubit::tools {
namespace {

/// The value of a field of a canonical descriptor, or nothing if the field is at its default.
std::string field_of(const std::string& descriptor, const std::string& name) {
  const std::string fields = "," + descriptor.substr(std::min(descriptor.find(':') + 1, descriptor.size())) + ",";
  const std::size_t begin = fields.find("," + name + "=");
  if (begin == std::string::npos) return {};
  const std::size_t value = begin + name.size() + 2;
  return fields.substr(value, fields.find(',', value) - value);
}

W4Format format_of(const std::string& descriptor) {
  const std::string text = field_of(descriptor, "format");
  for (const W4Format format : {W4Format::gptq_v2, W4Format::awq, W4Format::symmetric})
    if (text == text_of(format)) return format;
  return W4Format::gptq;
}

const cubit_tensor* tensor_of(std::span<const cubit_tensor> inputs, std::string_view name) {
  const auto found = std::ranges::find_if(inputs, [&](const cubit_tensor& one) { return name == one.name; });
  return found == inputs.end() ? nullptr : &*found;
}

}  // namespace

W4Reading reading_of(const std::string& descriptor) {
  return {format_of(descriptor), field_of(descriptor, "bits") == "8" ? 8 : 4, 0, 1,
          field_of(descriptor, "activation_order") == "true"};
}

std::string contradictions_of_case(const std::string& descriptor, std::span<const cubit_tensor> inputs,
                                   std::vector<W4Config> configs, bool is_sorted) {
  const cubit_tensor* const activations = tensor_of(inputs, "activations");
  W4Reading reading = reading_of(descriptor);
  if (is_sorted) reading.activation_order.reset();
  W4Evidence evidence(std::move(configs));
  for (const char* const suffix : {"", "_2", "_3"}) {
    const std::string of_layer = suffix;
    const cubit_tensor* const scales = tensor_of(inputs, "scales" + of_layer);
    if (tensor_of(inputs, "qweight" + of_layer) == nullptr || activations == nullptr || scales == nullptr) break;
    reading.k = activations->shape[1];
    reading.groups = scales->shape[0];
    std::vector<std::uint32_t> words;
    if (const cubit_tensor* const zeros = tensor_of(inputs, "qzeros" + of_layer)) {
      words.resize(static_cast<std::size_t>(zeros->shape[0] * zeros->shape[1]));
      std::memcpy(words.data(), zeros->data, words.size() * sizeof words.front());
    }
    evidence.add(of_layer.empty() ? "layer 1" : "layer " + of_layer.substr(1), reading, words);
  }
  return evidence.warning();
}

}  // namespace cubit::tools
