#include "tools/kernels/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace cubit::tools {
namespace {

/// Whether the number is NaN: all exponent bits are set and the fraction is not zero.
template <class Bits>
std::ptrdiff_t find_nan(std::span<const std::byte> data, Bits infinity) {
  const Bits magnitude = static_cast<Bits>(~Bits{0}) >> 1;
  for (std::size_t i = 0; i < data.size() / sizeof(Bits); ++i) {
    Bits value;
    std::memcpy(&value, data.data() + i * sizeof(Bits), sizeof(Bits));
    if ((value & magnitude) > infinity) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

std::string describe_nan(const Problem& problem, const HostTensors& outputs) {
  const auto tensors = problem.outputs();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::ptrdiff_t index = first_nan(tensors[i].type, outputs[i]);
    if (index >= 0) return fmt::format("{} is NaN at element {}", tensors[i].name, index);
  }
  return {};
}

}  // namespace

std::ptrdiff_t first_nan(std::string_view type, std::span<const std::byte> data) {
  if (type == "BF16") return find_nan<std::uint16_t>(data, 0x7f80);
  if (type == "F16") return find_nan<std::uint16_t>(data, 0x7c00);
  if (type == "F32") return find_nan<std::uint32_t>(data, 0x7f80'0000);
  if (type == "F64") return find_nan<std::uint64_t>(data, 0x7ff0'0000'0000'0000);
  return -1;
}

nlohmann::ordered_json summarise(std::string_view type, std::span<const std::byte> data) {
  const std::size_t count = data.size() / sizeof(float);
  if (type != "F32" || count == 0) return nlohmann::ordered_json::object();
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  std::size_t nans = 0;
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, data.data() + i * sizeof value, sizeof value);
    if (std::isnan(value)) ++nans;
    if (value > largest) largest = value;
    sum += value;
  }
  if (nans > 0) return {{"largest", std::nan("")}, {"mean", std::nan("")}, {"nan", nans}};
  return {{"largest", largest}, {"mean", sum / static_cast<double>(count)}};
}

nlohmann::ordered_json check_outputs(const Problem& problem, const HostTensors& outputs) {
  std::vector<const void*> addresses;
  // An empty output has no bytes, but the library requires an address for every output.
  for (const auto& output : outputs)
    addresses.push_back(output.empty() ? static_cast<const void*>(&output) : output.data());
  const Problem::Comparison comparison = problem.compare(addresses);
  const std::string nan = describe_nan(problem, outputs);
  nlohmann::ordered_json json = {{"good", comparison.good()},
                                 {"error", comparison.error},
                                 {"tolerance", comparison.tolerance},
                                 {"worst", comparison.worst}};
  if (!nan.empty()) json["nan"] = nan;
  if (std::all_of(outputs.begin(), outputs.end(), [](const auto& output) { return output.empty(); })) {
    json["good"] = false;
    json["empty"] = true;
  }
  return json;
}

std::string check_text(const nlohmann::ordered_json& check) {
  if (check.contains("empty")) return kNothingRan;
  const bool is_good = check.at("good").get<bool>();
  const std::string nan = !check.contains("nan") ? ""
                                                 : fmt::format("; {}{}", check.at("nan").get<std::string>(),
                                                               is_good ? ", as it should be" : "");
  const double error = check.at("error").is_number() ? check.at("error").get<double>() : std::nan("");
  const auto worst = check.at("worst").get<std::string>();
  return fmt::format("check {}: error {:.3g}, tolerance {:.3g}{}{}", is_good ? "passed" : "failed", error,
                     check.at("tolerance").get<double>(), worst.empty() || worst == "none" ? "" : ", worst at " + worst,
                     nan);
}

}  // namespace cubit::tools
