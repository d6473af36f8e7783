#include "ops/argument_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/argument_checks.hpp"
#include "ops/fields.hpp"

namespace cubit::ops {
namespace {

/// Calls `use` with every part of a list.
template <class Use>
void split(std::string_view list, char separator, const Use& use) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(separator), list.size());
    use(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

/// The type of safetensors that the value of a descriptor's field stands for, "" if the value is no type.
std::string_view type_named(std::string_view value) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"bf16", "BF16"},    {"fp16", "F16"},      {"fp32", "F32"},         {"int8", "I8"},         {"int32", "I32"},
      {"int4_rows", "U8"}, {"int8_split", "I8"}, {"fp8_e4m3", "F8_E4M3"}, {"fp8_e5m2", "F8_E5M2"}};
  for (const auto& [name, type] : kTypes) {
    if (name == value) return type;
  }
  return "";
}

std::string joined(const std::vector<std::string>& words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == words.size() ? last : ", ", words[i]);
  return text;
}

const void* pointer_at(const void* arguments, std::size_t offset) {
  const void* pointer = nullptr;
  std::memcpy(&pointer, static_cast<const std::byte*>(arguments) + offset, sizeof pointer);
  return pointer;
}

bool is_zero(const void* arguments, const ArgumentMember& member) {
  const std::int64_t zero = 0;
  return std::memcmp(static_cast<const std::byte*>(arguments) + member.offset, &zero, member.bytes) == 0;
}

std::string shapes_help(const Argument& argument) {
  std::string text;
  for (const ShapeRule& rule : argument.shapes) {
    text += fmt::format("{}{}", text.empty() ? " " : ", ", rule.shape);
    if (!rule.when.empty()) text += fmt::format(" with {}", condition_text(rule.when));
  }
  return text;
}

std::string presence_help(const Argument& argument) {
  std::vector<std::string> notes;
  if (argument.kind == ArgumentKind::output) notes.emplace_back("written");
  if (argument.kind == ArgumentKind::updated) notes.emplace_back("written in part");
  if (!argument.when.empty()) notes.push_back("with " + condition_text(argument.when));
  if (argument.presence == Presence::optional) notes.emplace_back("optional");
  return notes.empty() ? "" : fmt::format(" ({})", joined(notes, ", "));
}

std::string argument_help(const Argument& argument) {
  std::string text = fmt::format("{}{} {}{}: {}", argument.name, shapes_help(argument), argument.types,
                                 presence_help(argument), argument.meaning);
  if (!argument.standard.empty()) text += fmt::format("; default: {}", argument.standard);
  return text + "\n";
}

std::vector<std::string_view> names_of(const ArgumentTable& table, ArgumentKind kind) {
  std::vector<std::string_view> names;
  for (const Argument& argument : table.arguments) {
    if (argument.kind == kind || argument.kind == ArgumentKind::updated) names.push_back(argument.name);
  }
  return names;
}

}  // namespace

Argument Argument::with(std::string_view condition) && {
  when = condition;
  return std::move(*this);
}

Argument Argument::optional(std::string_view meaning_of_none) && {
  presence = Presence::optional;
  standard = meaning_of_none;
  return std::move(*this);
}

Argument Argument::unless(const ArgumentMember& number) && {
  unless_zero = number;
  return std::move(*this);
}

Argument Argument::checked_by_operator() && {
  is_checked_by_operator = true;
  return std::move(*this);
}

Argument Argument::typed_by(std::string_view names) && {
  type_fields = names;
  return std::move(*this);
}

Argument Argument::strided(std::string_view sizes, const ArgumentMember& integers) && {
  std::size_t offset = integers.offset;
  split(sizes, ',', [&](std::string_view size) {
    size.remove_prefix(std::min(size.find_first_not_of(' '), size.size()));
    strides.push_back({size, {integers.name, offset, sizeof(std::int64_t)}});
    offset += sizeof(std::int64_t);
  });
  return std::move(*this);
}

Argument Argument::usually(std::string_view value) && {
  usual = value;
  return std::move(*this);
}

Argument tensor(ArgumentKind kind, std::string_view name, std::string_view types, std::vector<ShapeRule> shapes,
                const ArgumentMember& member, std::string_view meaning) {
  return {name, kind, types, std::move(shapes), member, meaning};
}

Argument input(std::string_view name, std::string_view types, std::vector<ShapeRule> shapes,
               const ArgumentMember& member, std::string_view meaning) {
  return tensor(ArgumentKind::input, name, types, std::move(shapes), member, meaning);
}

Argument output(std::string_view name, std::string_view types, std::vector<ShapeRule> shapes,
                const ArgumentMember& member, std::string_view meaning) {
  return tensor(ArgumentKind::output, name, types, std::move(shapes), member, meaning);
}

Argument number(std::string_view name, std::string_view type, const ArgumentMember& member, std::string_view meaning) {
  return tensor(ArgumentKind::number, name, type, {}, member, meaning);
}

std::vector<ShapeRule> shape(std::string_view text) { return {{"", text}}; }

const Argument* ArgumentTable::find(std::string_view name) const {
  const auto found =
      std::find_if(arguments.begin(), arguments.end(), [&](const Argument& argument) { return argument.name == name; });
  return found == arguments.end() ? nullptr : &*found;
}

std::vector<std::string_view> ArgumentTable::input_names() const { return names_of(*this, ArgumentKind::input); }
std::vector<std::string_view> ArgumentTable::output_names() const { return names_of(*this, ArgumentKind::output); }

std::string_view FieldValues::value(std::string_view field) const {
  bool has_own_values = false;
  for (const auto& [name, value] : split_fields(text_)) {
    if (name == field) return value;
    has_own_values = has_own_values || name == "value";
  }
  // The fields value_groups, value_scales and value_scale_type count only if the descriptor has the field `value`.
  constexpr std::string_view kOfValues = "value_";
  if (field.starts_with(kOfValues) && field != "value_dim" && !has_own_values)
    return value(field.substr(kOfValues.size()));
  const auto named = [&](std::string_view name) {
    return std::find_if(fields_.begin(), fields_.end(), [&](const FieldHelp& help) { return help.name == name; });
  };
  const auto found = named(field);
  if (found == fields_.end()) return "";
  const std::string_view standard = found->standard;
  const std::string_view other = standard.starts_with("as ") ? standard.substr(3) : standard;
  return named(other) == fields_.end() ? standard : value(other);
}

bool holds(std::string_view when, const FieldValues& descriptor) {
  bool all = true;
  split(when, ',', [&](std::string_view condition) {
    const std::size_t equals = condition.find('=');
    const std::string_view value = descriptor.value(condition.substr(0, equals));
    bool any = false;
    split(condition.substr(equals + 1), '|', [&](std::string_view accepted) {
      const bool is_excluded = accepted.starts_with("!");
      any = any || (is_excluded ? value != accepted.substr(1) : value == accepted);
    });
    all = all && any;
  });
  return all;
}

std::string condition_text(std::string_view when) {
  std::vector<std::string> conditions;
  split(when, ',', [&](std::string_view condition) {
    const std::size_t equals = condition.find('=');
    std::vector<std::string> values;
    split(condition.substr(equals + 1), '|', [&](std::string_view value) {
      const std::string_view field = condition.substr(0, equals);
      values.push_back(value.starts_with("!") ? fmt::format("{}=…", field) : fmt::format("{}={}", field, value));
    });
    conditions.push_back(joined(values, " or "));
  });
  return joined(conditions, " and ");
}

std::string_view type_of(const Argument& argument, const FieldValues& descriptor) {
  std::string_view found;
  split(argument.type_fields, '|', [&](std::string_view field) {
    const std::string_view named = type_named(descriptor.value(field));
    if (named.empty() || !found.empty()) return;
    split(argument.types, ',', [&](std::string_view type) {
      type.remove_prefix(std::min(type.find_first_not_of(' '), type.size()));
      if (type == named) found = type;
    });
  });
  return found.empty() ? argument.types : found;
}

std::string_view shape_of(const Argument& argument, const FieldValues& descriptor) {
  for (const ShapeRule& rule : argument.shapes) {
    if (holds(rule.when, descriptor)) return rule.shape;
  }
  return "";
}

std::string arguments_help(const ArgumentTable& table) {
  std::string text;
  for (const Argument& argument : table.arguments) text += argument_help(argument);
  if (!text.empty()) text.pop_back();  // the last line's end
  return text;
}

PointerChecks::PointerChecks(const ArgumentTable& table, std::span<const FieldHelp> fields,
                             std::string_view canonical) {
  const FieldValues descriptor(fields, canonical);
  for (const Argument& argument : table.arguments) {
    if (argument.kind == ArgumentKind::number || argument.is_checked_by_operator || argument.member.name.empty())
      continue;
    const bool is_taken = holds(argument.when, descriptor);
    if (is_taken && argument.presence == Presence::optional) continue;
    pointers_.push_back({&argument, is_taken});
  }
}

void PointerChecks::check(const void* arguments) const {
  for (const Pointer& pointer : pointers_) {
    const Argument& argument = *pointer.argument;
    const void* const given = pointer_at(arguments, argument.member.offset);
    if ((given != nullptr) == pointer.is_taken) [[likely]] {
      continue;
    }
    if (!pointer.is_taken) {
      require_absent(given, argument.member.name.data(), condition_text(argument.when).c_str());
    } else if (argument.unless_zero.name.empty() || !is_zero(arguments, argument.unless_zero)) {
      require_pointer(false, argument.member.name.data());
    }
  }
}

}  // namespace cubit::ops
