// Makes a problem of gqa_decode from tensors and numbers by name.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "check/gqa_decode/problem.hpp"

namespace cubit::check::gqa_decode {

void require_window(double window) {
  if (window >= 1) return;
  reject(fmt::format("window = {}", window), "a query attends to at least its own position", "accepted: 1 and more");
}

LaunchNumbers::LaunchNumbers(const GqaDecode& descriptor) : softmax_scale(1 / std::sqrt(descriptor.head_dim)) {}

std::string LaunchNumbers::names(const GqaDecode& descriptor) {
  std::string names = "softmax_scale, lse, splits";
  if (descriptor.soft_cap) names += ", soft_cap";
  if (descriptor.window) names += ", window, kept_tokens";
  if (descriptor.cache == KvAddressing::contiguous) return names;
  return names + ", " + kv_cache::CacheNumbers::names(descriptor.cache);
}

bool LaunchNumbers::set(const GqaDecode& descriptor, std::string_view name, double value) {
  const auto whole = [&](int least, int most = std::numeric_limits<std::int32_t>::max()) {
    return static_cast<std::int32_t>(whole_number(name, value, least, most));
  };
  if (name == "softmax_scale") {
    softmax_scale = value;
  } else if (name == "lse") {
    with_lse = whole_number(name, value, 0, 1) != 0;
  } else if (name == "splits") {
    splits = whole(0, kMostSplits);
  } else if (name == "soft_cap" && descriptor.soft_cap) {
    soft_cap = value;
  } else if (name == "window" && descriptor.window) {
    require_window(value);
    window = whole(1);
  } else if (name == "kept_tokens" && descriptor.window) {
    kept_tokens = whole(0);
  } else {
    return descriptor.cache == KvAddressing::paged && cache.set(descriptor.cache, name, value);
  }
  return true;
}

std::unique_ptr<Problem> make_problem(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  const GqaDecode descriptor = parse(text);
  LaunchNumbers launch(descriptor);
  for (const auto& [name, value] : numbers) {
    if (name == kPaddedRows) {
      launch.padded_rows = whole_number(name, value, 0, 1) != 0;
      continue;
    }
    if (launch.set(descriptor, name, value)) continue;
    reject(fmt::format("number {}", name), fmt::format("{} has no such launch argument", descriptor.text()),
           fmt::format("accepted: {}, {}", LaunchNumbers::names(descriptor), kPaddedRows));
  }
  const ArgumentTable& table = ops::gqa_decode::arguments();
  require_names(inputs, table.input_names(), "gqa_decode");
  Tensors taken;
  for (const Argument& argument : table.arguments) {
    if (argument.kind != ArgumentKind::input) continue;
    const bool is_always_needed = argument.when.empty() && argument.presence == Presence::needed;
    if (taken.take(inputs, argument.name) || !is_always_needed) continue;
    reject(fmt::format("tensors without {}", argument.name), "gqa_decode needs query, key and value");
  }
  return std::make_unique<GqaProblem>(descriptor, std::move(taken), launch);
}

/// Only padded rows of keys and values matter: rows of the query and of the output are multiples of 16 bytes.
std::string fit(std::string_view text, std::span<const Tensor> inputs, const Numbers& numbers) {
  GqaDecode descriptor = parse(text);
  std::string canonical = descriptor.text();
  const auto padded = numbers.find(kPaddedRows);
  if (gives_field(text, "alignment") || padded == numbers.end() || padded->second != 1) return canonical;
  const kv_cache::CacheFormats formats = kv_cache::formats_of(descriptor);
  std::int64_t row_bytes = 0;  // the greatest common divisor
  for (const Tensor& input : inputs) {
    for (const std::size_t which : {0, 1}) {
      if (input.name != kv_cache::kRowNames[which] || input.shape.empty()) continue;
      if (input.shape.back() < formats[which].row_elements()) return canonical;
      row_bytes = std::gcd(row_bytes, input.shape.back() * formats[which].element_bytes());
    }
  }
  if (row_bytes == 0) return canonical;
  for (const int alignment : {16, 8, 4}) {
    descriptor.alignment = alignment;
    if (row_bytes % alignment == 0 && is_served(descriptor)) return descriptor.text();
  }
  return canonical;
}

}  // namespace cubit::check::gqa_decode
