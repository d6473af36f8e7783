// Parses a descriptor's text, "name:field=value,field=value", with a table of the descriptor's fields.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/operator.hpp"

namespace cubit::ops {

/// One field of an operator's descriptor type: its help and its parser.
template <class Descriptor>
struct Field {
  FieldHelp help;
  /// Sets the descriptor's member to the parsed `value`. Returns false if `value` is not accepted.
  std::function<bool(Descriptor&, std::string_view value)> set;
  /// Sets the member to a default that follows from the other fields. Null if the default is a constant.
  std::function<void(Descriptor&)> derive = {};

  /// This field with such a default, which `FieldHelp::standard` describes in words: "the query's type".
  Field with_default(std::function<void(Descriptor&)> derived) && {
    derive = std::move(derived);
    return std::move(*this);
  }
};

/// Splits a descriptor's text into pairs of field name and value, in order. Throws Failure(invalid_argument) if the
/// text is not "name" or "name:field=value[,field=value…]", or if it gives a field twice.
std::vector<std::pair<std::string_view, std::string_view>> split_fields(std::string_view text);

/// Whether the descriptor `text` gives the field `name`. Throws as split_fields does.
bool gives_field(std::string_view text, std::string_view name);

/// Parses a decimal integer. Returns false if `text` has other characters or the number does not fit an int.
bool parse_int(std::string_view text, int& value);

/// Throw Failure(invalid_argument) for a field that the operator does not have, and for a value that the field does not
/// have. `accepted`: the list that the error names.
[[noreturn]] void reject_field(std::string_view text, std::string_view field, std::string_view accepted);
[[noreturn]] void reject_value(std::string_view text, std::string_view field, std::string_view value,
                               std::string_view accepted);

/// The names of all fields, joined by ", ".
template <class Descriptor>
std::string field_names(const std::vector<Field<Descriptor>>& fields) {
  std::string names;
  for (const auto& field : fields) names += (names.empty() ? "" : ", ") + field.help.name;
  return names;
}

/// A descriptor with every field of `text` set and all other fields at their defaults. A default that follows from
/// other fields is derived after those of `text` are set. Each operator checks the rules between fields itself.
template <class Descriptor>
Descriptor parse_fields(std::string_view text, const std::vector<Field<Descriptor>>& fields) {
  Descriptor descriptor;
  for (const auto& [name, value] : split_fields(text)) {
    const Field<Descriptor>* match = nullptr;
    for (const auto& field : fields) {
      if (field.help.name == name) match = &field;
    }
    if (match == nullptr) reject_field(text, name, field_names(fields));
    if (!match->set(descriptor, value)) reject_value(text, name, value, match->help.accepts);
  }
  for (const auto& field : fields) {
    if (field.derive && !gives_field(text, field.help.name)) field.derive(descriptor);
  }
  return descriptor;
}

/// Moves the fields of `more` to the end of `fields`.
template <class Descriptor>
void append(std::vector<Field<Descriptor>>& fields, std::vector<Field<Descriptor>> more) {
  for (auto& field : more) fields.push_back(std::move(field));
}

/// The help of all fields, which `--help` lists.
template <class Descriptor>
std::vector<FieldHelp> help_of(const std::vector<Field<Descriptor>>& fields) {
  std::vector<FieldHelp> help;
  for (const auto& field : fields) help.push_back(field.help);
  return help;
}

/// A field that holds one of a few numbers.
template <class Descriptor>
Field<Descriptor> number_field(FieldHelp help, int Descriptor::*member, std::vector<int> accepted) {
  return {std::move(help), [member, accepted = std::move(accepted)](Descriptor& descriptor, std::string_view text) {
            int value = 0;
            if (!parse_int(text, value)) return false;
            for (const int candidate : accepted) {
              if (candidate == value) {
                descriptor.*member = value;
                return true;
              }
            }
            return false;
          }};
}

/// A field that is true or false, and false by default.
template <class Descriptor>
Field<Descriptor> flag_field(const char* name, const char* meaning, bool Descriptor::*member) {
  return {{name, "false, true", "false", meaning}, [member](Descriptor& descriptor, std::string_view text) {
            descriptor.*member = text == "true";
            return text == "true" || text == "false";
          }};
}

/// A field that is true or false, and false by default; its parser also accepts 1 and 0, the values of older versions.
template <class Descriptor>
Field<Descriptor> flag_or_number_field(const char* name, const char* meaning, bool Descriptor::*member) {
  Field<Descriptor> field = flag_field(name, meaning, member);
  return {field.help, [set = field.set](Descriptor& descriptor, std::string_view text) {
            return set(descriptor, text == "1" ? "true" : text == "0" ? "false" : text);
          }};
}

/// A field that holds one of a few words.
template <class Descriptor, class Value>
Field<Descriptor> word_field(FieldHelp help, Value Descriptor::*member,
                             std::vector<std::pair<std::string_view, Value>> accepted) {
  return {std::move(help), [member, accepted = std::move(accepted)](Descriptor& descriptor, std::string_view text) {
            for (const auto& [name, value] : accepted) {
              if (name == text) {
                descriptor.*member = value;
                return true;
              }
            }
            return false;
          }};
}

}  // namespace cubit::ops
