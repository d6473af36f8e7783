// A PTX module as plain values: the parser's result and the CPU device's input.
//
// Names are resolved: a register, label or variable is an index. Instructions are a flat list, which blocks.hpp cuts
// into basic blocks. PTX ISA, "Syntax", "State Spaces, Types, and Variables", "Instruction Operands" and "Directives".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cubit::runtime::ptx {

constexpr int kNone = -1;  ///< "no index", wherever an index is optional

/// The types of registers and variables.
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
bool find_type(std::string_view, Type& dst);  ///< false if there is no type of this name; `dst` is then unchanged

enum class Space : std::uint8_t { param, shared, local, global, constant };
std::string_view name(Space space);  ///< "global"; constant is "const"

/// The visibility of a module-scope name.
enum class Linkage : std::uint8_t { internal, external, visible, weak, common };

/// A place in the template, from a .loc directive. `inlined_at` and `outermost` are indices of Function::locations.
struct SourceLocation {
  int file = 0;  ///< number of an entry in Module::files
  int line = 0;
  int column = 0;
  int inlined_at = kNone;     ///< the call site of the inlined function; kNone: the place is in the kernel itself
  int outermost = 0;          ///< the end of the inlined_at chain, a place in the kernel's own body
  std::string_view function;  ///< label in .debug_str of the inlined function's name; empty if not inlined
};

struct SourceFile {
  int number = 0;
  std::string_view path;  ///< the text between the quotes
};

// ---- operands ----

struct Sink {};  ///< `_`: the result or the element is not used

struct RegisterOperand {
  int index = 0;         ///< index of Function::registers
  bool negated = false;  ///< `!%p1`
};

struct IntegerOperand {
  std::uint64_t bits = 0;  ///< two's complement
  bool is_signed = true;   ///< false: written with the suffix U, or too large for 63 bits
};

struct FloatOperand {
  std::uint64_t bits = 0;  ///< bits of the float (0f…) in the low half, or of the double (0d…, or a decimal point)
  bool is_double = false;
};

struct SpecialOperand {
  std::string_view name;  ///< "%tid.x", "%laneid", "%clock64"
};

/// The kind of declaration behind a name.
enum class SymbolKind : std::uint8_t { global, local, parameter, function };

/// The address of a variable (`mov.u64 %rd1, smem+16`), or the function of a call.
struct SymbolOperand {
  SymbolKind kind = SymbolKind::global;
  int index = 0;  ///< index of Module::variables, Function::variables, Function::parameters or Module::functions
  std::int64_t offset = 0;
};

struct LabelOperand {
  int index = 0;  ///< index of Function::labels
};

/// An element inside brackets and braces.
using Scalar = std::variant<Sink, RegisterOperand, IntegerOperand, FloatOperand, SpecialOperand, SymbolOperand>;

/// `[base+offset]`, or `[map, {x, y}]` of a tensor copy.
struct AddressOperand {
  std::variant<RegisterOperand, SymbolOperand, IntegerOperand> base;  ///< a symbol's own offset is 0, because `offset`
                                                                      ///< holds it
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
  int predicate = kNone;  ///< index of Function::registers; kNone: always executed
  bool negated = false;
};

struct Instruction {
  std::string_view opcode;                  ///< "ld.global.nc.v4.b32"
  std::string_view root;                    ///< "ld"
  std::vector<std::string_view> modifiers;  ///< "global", "nc", "v4", "b32"; "shared::cluster" is one modifier
  Guard guard;
  std::vector<Operand> operands;  ///< in the order of the text, destinations first
  int ptx_line = 0;               ///< line of the opcode, from 1
  int location = kNone;           ///< index of Function::locations

  bool has(std::string_view modifier) const;
};

// ---- declarations ----

/// One register. `.reg .b32 %r<4>` declares four registers. Each scope's declarations make registers of their own.
struct Register {
  Type type = Type::b32;
  std::string_view prefix;  ///< "%r", or the whole name if `number` is kNone
  int number = kNone;
  std::string name() const;  ///< "%r3"; not unique if an inner scope shadows an outer scope
};

/// One item of an initialiser: a number in the variable's type, or an address.
struct InitialValue {
  std::uint64_t bits = 0;
  int symbol = kNone;    ///< index of Module::variables; `bits` is then a byte offset to add
  bool generic = false;  ///< generic(symbol): the address in the generic space
};

struct Variable {
  std::string_view name;
  Space space = Space::global;
  Type type = Type::b8;
  int vector = 1;              ///< 2 or 4 for .v2 and .v4
  std::int64_t alignment = 1;  ///< in bytes, at least the alignment of the type
  bool is_array = false;
  std::int64_t elements = 1;  ///< product of the extents; 0: `[]`, sized by the launch (.extern .shared)
  Linkage linkage = Linkage::internal;
  std::vector<InitialValue> initial;  ///< may be shorter than the variable; the rest is zero

  std::int64_t size() const;  ///< in bytes
};

struct Label {
  std::string_view name;
  int position = 0;          ///< index of the next instruction; body.size() at the end
  std::vector<int> targets;  ///< label indices of .branchtargets; empty for a plain label
};

/// `.maxntid 128, 1, 1` is {"maxntid", {128, 1, 1}}.
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
  std::vector<Variable> results;     ///< results of a .func; indices continue after the parameters
  std::vector<Directive> directives;
  std::vector<Register> registers;
  std::vector<Variable> variables;  ///< .shared, .local and .param variables of all scopes of the body
  std::vector<Label> labels;
  std::vector<SourceLocation> locations;
  std::vector<Instruction> body;
  int ptx_line = 0;

  const Directive* find_directive(std::string_view directive_name) const;  ///< nullptr if not given
};

struct Module {
  int version_major = 0;
  int version_minor = 0;
  std::string_view target;  ///< "sm_90a"
  int address_size = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<SourceFile> files;

  std::shared_ptr<const std::string> text;  ///< all string_views of the module point into this text

  const Function* find_entry(std::string_view entry_name) const;  ///< nullptr if there is no such entry
  std::string_view file_path(int number) const;                   ///< empty if there is no such file
};

/// Parses a module in linear time. Throws Failure(invalid_argument) for text that is not PTX, and Failure(unsupported)
/// for PTX that cubit does not read. Both failures name the line and what would be accepted.
Module parse(std::string text);

/// Prints the module as PTX that parses to the same module, except for line numbers and the names of shadowing
/// registers.
std::string print(const Module& module);

}  // namespace cubit::runtime::ptx
