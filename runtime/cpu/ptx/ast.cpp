// Names and sizes of the values of a PTX module.
#include "runtime/cpu/ptx/ast.hpp"

#include <algorithm>

namespace cubit::runtime::ptx {
namespace {

struct TypeFacts {
  std::string_view name;
  int bytes;
};

/// In the order of Type.
constexpr TypeFacts kTypes[] = {
    {"pred", 1}, {"b8", 1},    {"b16", 2},  {"b32", 4},    {"b64", 8}, {"b128", 16}, {"u8", 1},
    {"u16", 2},  {"u32", 4},   {"u64", 8},  {"s8", 1},     {"s16", 2}, {"s32", 4},   {"s64", 8},
    {"f16", 2},  {"f16x2", 4}, {"bf16", 2}, {"bf16x2", 4}, {"f32", 4}, {"f64", 8},
};
static_assert(std::size(kTypes) == static_cast<std::size_t>(Type::f64) + 1);

template <typename Values>
auto find_by_name(const Values& values, std::string_view wanted) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.name == wanted; });
  return found == values.end() ? nullptr : &*found;
}

}  // namespace

std::string_view name(Type type) { return kTypes[static_cast<std::size_t>(type)].name; }

int bytes(Type type) { return kTypes[static_cast<std::size_t>(type)].bytes; }

bool find_type(std::string_view type_name, Type& dst) {
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].name != type_name) continue;
    dst = static_cast<Type>(i);
    return true;
  }
  return false;
}

std::string_view name(Space space) {
  constexpr std::string_view kNames[] = {"param", "shared", "local", "global", "const"};
  return kNames[static_cast<std::size_t>(space)];
}

bool Instruction::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

std::string Register::name() const {
  return number == kNone ? std::string(prefix) : std::string(prefix) + std::to_string(number);
}

std::int64_t Variable::size() const { return elements * vector * bytes(type); }

const Directive* Function::find_directive(std::string_view directive_name) const {
  return find_by_name(directives, directive_name);
}

const Function* Module::find_entry(std::string_view entry_name) const {
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const Function& f) { return f.is_entry && f.name == entry_name; });
  return found == functions.end() ? nullptr : &*found;
}

std::string_view Module::file_path(int number) const {
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const SourceFile& file) { return file.number == number; });
  return found == files.end() ? std::string_view() : found->path;
}

}  // namespace cubit::runtime::ptx
