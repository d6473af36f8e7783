// A PTX module as plain values: what the parser makes of NVRTC's text, and what the CPU device executes.
// Names are resolved: a register, label or variable is an index. Instructions stay a flat list; blocks.hpp cuts it up.
// PTX ISA, "Syntax", "State Spaces, Types, and Variables", "Instruction Operands" and "Directives".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cubit::runtime::ptx {

constexpr int kNone = -1;  ///< "no index" wherever an index is optional

/// The types that a register or a variable may be declared with.
enum class Type : std::uint8_t {
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  f32,
  f64,
};
std::string_view name(Type type);             ///< "u32"
int bytes(Type type);                         ///< 4; 1 for pred
bool find_type(std::string_view, Type& dst);  ///< false: not one of these names; `dst` is then unchanged

enum class Space : std::uint8_t { param, shared, local, global, constant };
std::string_view name(Space space);  ///< "global"; constant is "const"

/// Who else sees a module-scope name.
enum class Linkage : std::uint8_t { internal, external, visible, weak, common };

/// A place in the template, from .loc. `inlined_at` and `outermost` index Function::locations.
struct SourceLocation {
  int file = 0;  ///< number of a Module::files entry
  int line = 0;
  int column = 0;
  int inlined_at = kNone;     ///< the call by which this place came here; kNone: written in the kernel itself
  int outermost = 0;          ///< end of the inlined_at chain: a place in the kernel's own body
  std::string_view function;  ///< label in .debug_str of the inlined function's name; empty if not inlined
};

struct SourceFile {
  int number = 0;
  std::string_view path;  ///< as between the quotes
};

// ---- operands ----

struct Sink {};  ///< `_`: the result or the element is not wanted

struct RegisterOperand {
  int index = 0;         ///< Function::registers
  bool negated = false;  ///< `!%p1`
};

struct IntegerOperand {
  std::uint64_t bits = 0;  ///< two's complement
  bool is_signed = true;   ///< false: written with the suffix U, or too large for 63 bits
};

struct FloatOperand {
  std::uint64_t bits = 0;  ///< of the float (0f…) in the low half, or of the double (0d…, or a decimal point)
  bool is_double = false;
};

struct SpecialOperand {
  std::string_view name;  ///< "%tid.x", "%laneid", "%clock64"
};

/// Where a name was declared.
enum class SymbolKind : std::uint8_t { global, local, parameter, function };

/// A variable's address (`mov.u64 %rd1, smem+16`), or a function of a call.
struct SymbolOperand {
  SymbolKind kind = SymbolKind::global;
  int index = 0;  ///< Module::variables, Function::variables, Function::parameters or Module::functions
  std::int64_t offset = 0;
};

struct LabelOperand {
  int index = 0;  ///< Function::labels
};

/// What may stand inside brackets and braces.
using Scalar = std::variant<Sink, RegisterOperand, IntegerOperand, FloatOperand, SpecialOperand, SymbolOperand>;

/// `[base+offset]`, or `[map, {x, y}]` of a tensor copy.
struct AddressOperand {
  std::variant<RegisterOperand, SymbolOperand, IntegerOperand> base;  ///< a symbol's own offset is 0: `offset` has it
  std::int64_t offset = 0;
  std::vector<Scalar> coordinates;
};

struct VectorOperand {
  std::vector<Scalar> elements;  ///< `{%r1, %r2, _, 0}`
};

/// `(a, b)`: results or arguments of a call.
struct ListOperand {
  std::vector<Scalar> elements;
};

struct PairOperand {
  Scalar first;  ///< `%p1|%p2`, `%r1|%p1`, `_|%p1`: registers or sinks
  Scalar second;
};

using Operand = std::variant<Sink, RegisterOperand, IntegerOperand, FloatOperand, SpecialOperand, SymbolOperand,
                             LabelOperand, AddressOperand, VectorOperand, ListOperand, PairOperand>;

// ---- statements ----

struct Guard {
  int predicate = kNone;  ///< Function::registers; kNone: always executed
  bool negated = false;
};

struct Instruction {
  std::string_view opcode;                  ///< "ld.global.nc.v4.b32"
  std::string_view root;                    ///< "ld"
  std::vector<std::string_view> modifiers;  ///< "global", "nc", "v4", "b32"; "shared::cluster" is one
  Guard guard;
  std::vector<Operand> operands;  ///< in the order of the text, destinations first
  int ptx_line = 0;               ///< of the opcode, from 1
  int location = kNone;           ///< Function::locations

  bool has(std::string_view modifier) const;
};

// ---- declarations ----

/// One register. `.reg .b32 %r<4>` declares four; each scope's declarations are registers of their own.
struct Register {
  Type type = Type::b32;
  std::string_view prefix;  ///< "%r", or the whole name where `number` is kNone
  int number = kNone;
  std::string name() const;  ///< "%r3"; not unique where an inner scope shadows an outer one
};

/// One item of an initialiser: a number in the variable's type, or an address.
struct InitialValue {
  std::uint64_t bits = 0;
  int symbol = kNone;    ///< Module::variables; then `bits` is the byte offset to add
  bool generic = false;  ///< generic(symbol): the address in the generic space
};

struct Variable {
  std::string_view name;
  Space space = Space::global;
  Type type = Type::b8;
  int vector = 1;              ///< 2 or 4 for .v2 and .v4
  std::int64_t alignment = 1;  ///< in bytes, at least the type's own
  bool is_array = false;
  std::int64_t elements = 1;  ///< product of the extents; 0: `[]`, sized by the launch (.extern .shared)
  Linkage linkage = Linkage::internal;
  std::vector<InitialValue> initial;  ///< shorter than the variable: the rest is zero

  std::int64_t size() const;  ///< bytes
};

struct Label {
  std::string_view name;
  int position = 0;          ///< of the next instruction; body.size() at the end
  std::vector<int> targets;  ///< of .branchtargets, as label indices; empty for a plain label
};

/// `.maxntid 128, 1, 1`: {"maxntid", {128, 1, 1}}
struct Directive {
  std::string_view name;
  std::vector<std::int64_t> values;
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  bool is_defined = false;  ///< false: a declaration without a body
  Linkage linkage = Linkage::internal;
  std::vector<Variable> parameters;  ///< in Space::param; offsets follow from sizes and alignments
  std::vector<Variable> results;     ///< of a .func; the parameters' indices go on through them
  std::vector<Directive> directives;
  std::vector<Register> registers;
  std::vector<Variable> variables;  ///< .shared, .local and .param of all scopes of the body
  std::vector<Label> labels;
  std::vector<SourceLocation> locations;
  std::vector<Instruction> body;
  int ptx_line = 0;

  const Directive* find_directive(std::string_view directive_name) const;  ///< null: not given
};

struct Module {
  int version_major = 0;
  int version_minor = 0;
  std::string_view target;  ///< "sm_90a"
  int address_size = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<SourceFile> files;

  std::shared_ptr<const std::string> text;  ///< every string_view of the module points into it

  const Function* find_entry(std::string_view entry_name) const;  ///< null: no such entry
  std::string_view file_path(int number) const;                   ///< empty: no such file
};

/// Throws Failure(invalid_argument) for text that is not PTX, Failure(unsupported) for PTX that cubit does not read;
/// both name the line and what would be accepted. Time is linear in the text.
Module parse(std::string text);

/// The module as PTX that parses to the same module, except for line numbers and the names of shadowing registers.
std::string print(const Module& module);

}  // namespace cubit::runtime::ptx
