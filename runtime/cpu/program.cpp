// Makes a Program from PTX text: parse, cut into segments, compute the layout, generate code.
#include "runtime/cpu/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/error.hpp"

namespace cubit::runtime::cpu {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::uint64_t kRegisterAlignment = 64;
constexpr std::uint64_t kDynamicAlignment = 128;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// Returns the next variable's offset, and moves `end` behind the variable.
std::uint64_t place_variable(const ptx::Variable& variable, std::uint64_t& end) {
  const std::uint64_t first = round_up(end, static_cast<std::uint64_t>(std::max<std::int64_t>(variable.alignment, 1)));
  end = first + static_cast<std::uint64_t>(variable.size());
  return first;
}

bool is_dynamic(const ptx::Variable& variable) { return variable.space == ptx::Space::shared && variable.size() == 0; }

void place_registers(Program& program) {
  Layout& layout = program.layout;
  const auto& registers = program.function->registers;
  layout.register_offsets.assign(registers.size(), -1);
  std::uint64_t end = 0;
  for (const Segment& segment : program.segments) {
    for (const int index : segment.live_out) {
      std::int64_t& offset = layout.register_offsets[static_cast<std::size_t>(index)];
      if (offset >= 0) continue;
      offset = static_cast<std::int64_t>(end);
      const int bytes = ptx::bytes(registers[static_cast<std::size_t>(index)].type);
      end = round_up(end + static_cast<std::uint64_t>(bytes * kLanes), kRegisterAlignment);
    }
  }
  layout.register_bytes = end;
}

void place_shared(Program& program) {
  Layout& layout = program.layout;
  std::uint64_t end = 0;
  const auto place_all = [&](const std::vector<ptx::Variable>& variables, std::vector<std::uint64_t>& places) {
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].space == ptx::Space::shared && !is_dynamic(variables[i]))
        places[i] = place_variable(variables[i], end);
    }
  };
  place_all(program.module.variables, layout.module_variables);
  place_all(program.function->variables, layout.function_variables);
  end = round_up(end, kDynamicAlignment);
  layout.static_shared_bytes = static_cast<std::uint32_t>(end);
  const auto place_dynamic = [&](const std::vector<ptx::Variable>& variables, std::vector<std::uint64_t>& places) {
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (is_dynamic(variables[i])) places[i] = end;
    }
  };
  place_dynamic(program.module.variables, layout.module_variables);
  place_dynamic(program.function->variables, layout.function_variables);
}

bool is_in_memory(const ptx::Variable& variable) {
  return variable.space == ptx::Space::global || variable.space == ptx::Space::constant;
}

void fill_globals(Program& program) {
  const auto& variables = program.module.variables;
  const auto& places = program.layout.module_variables;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!is_in_memory(variables[i])) continue;
    auto* dst = reinterpret_cast<std::byte*>(places[i]);
    const int bytes = ptx::bytes(variables[i].type);
    for (const ptx::InitialValue& item : variables[i].initial) {
      std::uint64_t bits = item.bits;
      if (item.symbol != ptx::kNone) bits += places[static_cast<std::size_t>(item.symbol)];
      std::memcpy(dst, &bits, static_cast<std::size_t>(bytes));
      dst += bytes;
    }
  }
}

void place_globals(Program& program) {
  const auto& variables = program.module.variables;
  std::uint64_t end = 0;
  std::vector<std::uint64_t>& places = program.layout.module_variables;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (is_in_memory(variables[i])) places[i] = place_variable(variables[i], end);
  }
  program.globals = allocate_aligned(end);
  program.global_bytes = end;
  const auto base = reinterpret_cast<std::uint64_t>(program.globals.get());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (is_in_memory(variables[i])) places[i] += base;
  }
}

}  // namespace

void AlignedFree::operator()(std::byte* memory) const { std::free(memory); }

AlignedBytes allocate_aligned(std::size_t bytes) {
  const std::size_t whole = round_up(std::max<std::size_t>(bytes, 1), kAlignment);
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, whole);
  return AlignedBytes(memory);
}

void lay_out(Program& program) {
  Layout& layout = program.layout;
  const ptx::Function& function = *program.function;
  layout.module_variables.assign(program.module.variables.size(), 0);
  layout.function_variables.assign(function.variables.size(), 0);
  place_registers(program);
  place_shared(program);
  std::uint64_t local = 0;
  for (std::size_t i = 0; i < function.variables.size(); ++i) {
    if (function.variables[i].space == ptx::Space::local)
      layout.function_variables[i] = place_variable(function.variables[i], local);
  }
  layout.local_bytes = static_cast<std::uint32_t>(round_up(local, kDynamicAlignment));
  std::uint64_t end = 0;
  for (const ptx::Variable& parameter : function.parameters)
    layout.parameters.push_back(place_variable(parameter, end));
  layout.parameter_bytes = end;
  place_globals(program);
  fill_globals(program);
}

std::string Program::place(const ptx::Instruction& instruction) const {
  std::string text = fmt::format("{}, PTX line {}", instruction.opcode, instruction.ptx_line);
  const char* joint = ", ";
  for (int index = instruction.location; index != ptx::kNone; joint = " in ") {
    const ptx::SourceLocation& location = function->locations[static_cast<std::size_t>(index)];
    const std::string_view path = module.file_path(location.file);
    text += fmt::format("{}{}:{}", joint, path.substr(path.rfind('/') + 1), location.line);
    index = location.inlined_at;
  }
  return text;
}

std::unique_ptr<const Program> load_program(std::string ptx_text, std::string_view entry_point) {
  auto program = std::make_unique<Program>();
  program->module = ptx::parse(std::move(ptx_text));
  program->function = program->module.find_entry(entry_point);
  if (program->function == nullptr || !program->function->is_defined) {
    throw Failure(Status::invalid_argument, fmt::format("entry point \"{}\"", entry_point),
                  "the PTX has no such kernel", "name an extern \"C\" __global__ function of the template");
  }
  program->segments = build_segments(*program->function);
  lay_out(*program);
  generate(*program);
  return program;
}

}  // namespace cubit::runtime::cpu
