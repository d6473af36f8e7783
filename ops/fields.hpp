// Reading a descriptor's text, "name:field=value,field=value", against a table of its fields.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/operator.hpp"

namespace cubit::ops {

/// One field of an operator's descriptor type: its help, and how a text becomes its value.
template <class Descriptor>
struct Field {
  FieldHelp help;
  /// Returns false if `value` is not accepted.
  std::function<bool(Descriptor&, std::string_view value)> set;
};

/// Splits a text into its fields, in order. Throws Failure(invalid_argument) for anything that is not
/// "name" or "name:field=value[,field=value…]", or a field given twice.
std::vector<std::pair<std::string_view, std::string_view>> split_fields(std::string_view text);

/// A whole decimal number that fits an int, or false.
bool parse_int(std::string_view text, int& value);

[[noreturn]] void reject_field(std::string_view text, std::string_view field, std::string_view accepted);
[[noreturn]] void reject_value(std::string_view text, std::string_view field, std::string_view value,
                               std::string_view accepted);

/// Names of all fields, joined by ", ".
template <class Descriptor>
std::string field_names(const std::vector<Field<Descriptor>>& fields) {
  std::string names;
  for (const auto& field : fields) names += (names.empty() ? "" : ", ") + field.help.name;
  return names;
}

/// A descriptor with every field of `text` set; rules between fields are the operator's own to check.
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
  return descriptor;
}

template <class Descriptor>
void append(std::vector<Field<Descriptor>>& fields, std::vector<Field<Descriptor>> more) {
  for (auto& field : more) fields.push_back(std::move(field));
}

/// What `--help` lists.
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

/// The same, which understands 1 and 0 as well: they were its only values once.
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
