#include "tools/study/kv/kv_measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace cubit::tools {
namespace {

const char* type_of(const KvFormat& format) {
  if (format.kv == "fp16") return "F16";
  if (format.kv == "bf16") return "BF16";
  if (format.kv == "fp8_e4m3") return "F8_E4M3";
  if (format.kv == "fp8_e5m2") return "F8_E5M2";
  return format.kv == "int8_split" ? "I8" : "U8";
}

Matrix row_of(const Matrix& matrix, std::size_t row) {
  return {1, matrix.columns, {matrix.row(row), matrix.row(row) + matrix.columns}};
}

}  // namespace

KvStudy::KvStudy(KvData data, const KernelRunner& runner)
    : data_(std::move(data)),
      query_(half_values(data_.query, "the queries")),
      key_(half_values(data_.key, "the keys")),
      value_(half_values(data_.value, "the values")),
      exact_(attention(data_)),
      runner_(runner),
      benchmark_(runner.device(), runner.facts(), runner.engine(), false) {}

nlohmann::ordered_json KvStudy::measure(const KvFormat& format) {
  if (!format.is_simulated()) return measure_kernels(format);
  nlohmann::ordered_json entry = {{"format", format.name()},
                                  {"scales", format.scales},
                                  {"groups", nullptr},
                                  {"simulated", true},
                                  {"kernels", nlohmann::ordered_json::array()},
                                  {"bytes_per_token", simulated_bytes(format, data_.sizes)}};
  add_errors(entry, attention(simulated(format, data_)));
  entry["microseconds"] = nullptr;
  return entry;
}

std::vector<std::int64_t> KvStudy::scale_shape(const KvFormat& format) const {
  const auto batch = static_cast<std::int64_t>(data_.sizes.batch);
  const auto tokens = static_cast<std::int64_t>(data_.sizes.tokens);
  const auto heads = static_cast<std::int64_t>(data_.sizes.kv_heads);
  if (format.scales == "tensor") return {1};
  if (format.scales == "token") return {batch, tokens};
  if (format.scales == "head") return {batch, tokens, heads};
  return {batch, tokens, heads, format.groups};
}

HostTensors KvStudy::append(const std::string& descriptor, const KvFormat& format, const std::vector<float>& key_scales,
                            const std::vector<float>& value_scales) const {
  const std::vector<std::int64_t> shape = {
      static_cast<std::int64_t>(data_.sizes.batch), static_cast<std::int64_t>(data_.sizes.tokens),
      static_cast<std::int64_t>(data_.sizes.kv_heads), static_cast<std::int64_t>(data_.sizes.head_dim)};
  const HostTensor key = {"key", "F16", shape, std::as_bytes(std::span(key_))};
  const HostTensor value = {"value", "F16", shape, std::as_bytes(std::span(value_))};
  if (!format.takes_scales()) return runner_.run(descriptor, {key, value});
  return runner_.run(descriptor, {key,
                                  value,
                                  {"key_scale", "F32", scale_shape(format), std::as_bytes(std::span(key_scales))},
                                  {"value_scale", "F32", scale_shape(format), std::as_bytes(std::span(value_scales))}});
}

nlohmann::ordered_json KvStudy::measure_kernels(const KvFormat& format) {
  const KvSizes& sizes = data_.sizes;
  const std::string appends = fmt::format("kv_append:head_dim={},{},input=fp16", sizes.head_dim, format.fields());
  const std::string decodes = fmt::format("gqa_decode:head_dim={},heads_per_kv={},{},query=fp16", sizes.head_dim,
                                          sizes.heads_per_kv, format.fields());
  std::vector<float> key_scales;
  std::vector<float> value_scales;
  if (format.takes_scales()) {
    key_scales = given_scales(format, sizes, data_.key);
    value_scales = given_scales(format, sizes, data_.value);
  }
  const HostTensors caches = append(appends, format, key_scales, value_scales);
  const bool wrote_scales = format.has_scale_tensors() && !format.takes_scales();
  const std::span<const std::byte> key_bytes =
      wrote_scales ? std::span<const std::byte>(caches.at(2)) : std::as_bytes(std::span(key_scales));
  const std::span<const std::byte> value_bytes =
      wrote_scales ? std::span<const std::byte>(caches.at(3)) : std::as_bytes(std::span(value_scales));

  const auto batch = static_cast<std::int64_t>(sizes.batch);
  const auto tokens = static_cast<std::int64_t>(sizes.tokens);
  const auto heads = static_cast<std::int64_t>(sizes.kv_heads);
  const auto element = static_cast<std::int64_t>(type_bytes(type_of(format)));
  const std::int64_t row = static_cast<std::int64_t>(caches.at(0).size()) / (batch * tokens * heads * element);
  std::vector<HostTensor> inputs = {
      {"query",
       "F16",
       {batch, heads * static_cast<std::int64_t>(sizes.heads_per_kv), static_cast<std::int64_t>(sizes.head_dim)},
       std::as_bytes(std::span(query_))},
      {"key", type_of(format), {batch, tokens, heads, row}, caches.at(0)},
      {"value", type_of(format), {batch, tokens, heads, row}, caches.at(1)}};
  if (format.has_scale_tensors()) {
    inputs.push_back({"key_scale", "F32", scale_shape(format), key_bytes});
    inputs.push_back({"value_scale", "F32", scale_shape(format), value_bytes});
  }
  const Problem problem = problem_of(decodes, inputs, {});
  const HostTensors outputs = runner_.run(decodes, problem);
  const std::size_t bytes = caches.at(0).size() + caches.at(1).size() + key_bytes.size() + value_bytes.size();
  nlohmann::ordered_json entry = {
      {"format", format.name()},
      {"scales", format.scales},
      {"groups", format.groups},
      {"simulated", false},
      {"kernels", {appends, decodes}},
      {"bytes_per_token", static_cast<double>(bytes) / static_cast<double>(batch * tokens)}};
  add_errors(entry, matrix_of_halves(exact_.rows, exact_.columns, outputs.at(0), "the attention output"));
  entry["microseconds"] = nullptr;
  if (runner_.is_gpu())
    entry["microseconds"] =
        benchmark_.measure(decodes, problem, runner_.engine().get(decodes, runner_.architecture())).at("microseconds");
  return entry;
}

void KvStudy::add_errors(nlohmann::ordered_json& entry, const Matrix& got) const {
  double worst = 0;
  for (std::size_t row = 0; row < exact_.rows; ++row)
    worst = std::max(worst, relative_error(row_of(got, row), row_of(exact_, row)));
  entry["error"] = relative_error(got, exact_);
  entry["worst_error"] = worst;
}

}  // namespace cubit::tools
