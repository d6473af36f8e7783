// Formats of a KV cache's rows: sizes, types and the rules between fields.
#include "ops/kv_cache/row_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "ops/text.hpp"

namespace cubit::ops::kv_cache {
namespace {

constexpr std::string_view kOfValues = "value_";

[[noreturn]] void reject_field_here(std::string_view text, std::string_view name, const std::string& where) {
  throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                fmt::format("the field {} applies to {} only", name, where),
                fmt::format("leave {} out or ask for {}", name, where));
}

}  // namespace

std::string_view RowFormat::type() const {
  if (is_16bit()) return element_type(element());
  if (kv == KvFormat::fp8_e4m3) return "F8_E4M3";
  if (kv == KvFormat::fp8_e5m2) return "F8_E5M2";
  return kv == KvFormat::int8_split ? "I8" : "U8";
}

float RowFormat::largest() const {
  if (kv == KvFormat::int8_split) return 127;
  return kv == KvFormat::fp8_e4m3 ? 448 : 57344;
}

std::string CacheFormats::formats_with_scales(std::size_t which) const {
  return fmt::format("ask for {}=int8_split, fp8_e4m3 or fp8_e5m2", has_own_fields(which) ? "value" : "kv");
}

void validate_given_fields(const CacheFormats& formats, std::string_view text) {
  const auto fields = split_fields(text);
  const auto is_given = [&](std::string_view wanted) {
    return std::any_of(fields.begin(), fields.end(), [&](const auto& field) { return field.first == wanted; });
  };
  for (const auto& [name, given] : fields) {
    const bool is_value = name.starts_with(kOfValues);
    const std::string_view field = is_value ? name.substr(kOfValues.size()) : name;
    if (field != "groups" && field != "scales" && field != "scale_type") continue;
    if (is_value && !is_given("value")) {
      throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                    fmt::format("the field {} applies only to values with their own format", name),
                    fmt::format("leave {} out or ask for value=…", name));
    }
    const RowFormat& format = is_value ? formats.value : formats.key;
    const std::string prefix(is_value ? kOfValues : "");
    const char* const kv = is_value ? "value" : "kv";
    if (field != "groups") {
      if (!format.has_scales())
        reject_field_here(text, name, fmt::format("{0}=int8_split, {0}=fp8_e4m3 or {0}=fp8_e5m2", kv));
    } else if (format.kv != KvFormat::int4_rows && !(format.has_scales() && format.scales == KvScales::group)) {
      const std::string of_group = prefix + "scales=group";
      reject_field_here(text, name, format.has_scales() ? of_group : fmt::format("{}=int4_rows or {}", kv, of_group));
    }
  }
}

void validate_formats(const CacheFormats& formats, const std::string& canonical) {
  const auto reject = [&](std::string rule, std::string remedy) {
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", canonical), std::move(rule),
                  std::move(remedy));
  };
  for (const bool is_value : {false, true}) {
    const RowFormat& format = formats[is_value ? 1 : 0];
    const std::string_view prefix = formats.has_own_fields(is_value ? 1 : 0) ? kOfValues : "";
    if (format.scales == KvScales::group && format.groups == 1)
      reject(fmt::format("{0}scales=group with one group per row is {0}scales=head", prefix),
             format.head_dim % 32 == 0 ? fmt::format("ask for {0}groups=2, 4 or 8, or for {0}scales=head", prefix)
                                       : fmt::format("ask for {0}scales=head", prefix));
    if (format.groups == 1 || format.head_dim % (16 * format.groups) == 0) continue;
    const int most = std::gcd(format.head_dim / 16, 8);
    const bool is_own_dim = is_value && formats.value.head_dim != formats.key.head_dim;
    reject(fmt::format("{} channels in {} groups are {} per group, not a multiple of 16", format.head_dim,
                       format.groups, format.head_dim / format.groups),
           fmt::format("at most {} for this {}", counted(most, "group"), is_own_dim ? "value_dim" : "head_dim"));
  }
}

}  // namespace cubit::ops::kv_cache
