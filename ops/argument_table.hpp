// Argument tables: every tensor and number of an operator's launch, stated once. Launch checks, problems, help texts,
// JSON and documentation all read the operator's table, ops/<operator>/arguments.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cubit::ops {

struct FieldHelp;

/// How a launch uses an argument.
enum class ArgumentKind {
  input,    ///< a tensor that is read
  output,   ///< a tensor that is written
  updated,  ///< a tensor that is written in part; the rest keeps its content
  number,   ///< a scalar
};

/// A member of the operator's public argument struct.
struct ArgumentMember {
  std::string_view name;   ///< "cache.key"; empty: the problem alone has this argument
  std::size_t offset = 0;  ///< in bytes
  std::size_t bytes = 0;
};

/// A shape, and the descriptors that have it.
struct ShapeRule {
  std::string_view when;  ///< see holds()
  /// Sizes by name: "[batch, max_length or more, kv_heads * heads_per_kv, head_dim / 2]". A name is a number of the
  /// operator, a field of the descriptor, or a size of this launch alone. "rows..." is one or more dimensions whose
  /// product is `rows`.
  std::string_view shape;
};

/// The members of the argument struct that hold the stride of one dimension of a tensor.
struct StrideRule {
  std::string_view sizes;  ///< names of the dimension in the shapes: "batch|pages"; "first" is dimension 0
  ArgumentMember member;   ///< an int64 in elements
};

/// When a launch has the argument.
enum class Presence {
  needed,    ///< always, if `when` holds
  optional,  ///< may be left out (NULL or 0), if `when` holds
};

/// One tensor or number of a launch. Texts are string literals. The functions below make one: input(…).optional(…).
struct Argument {
  std::string_view name;  ///< also of the tensor in problems: "key_cache"
  ArgumentKind kind = ArgumentKind::input;
  std::string_view types;         ///< as in safetensors: "BF16, F16"; of a number its C type: "int32"
  std::vector<ShapeRule> shapes;  ///< the first rule that holds counts; empty for a number
  ArgumentMember member;
  std::string_view meaning;    ///< a phrase without a full stop
  std::string_view when = {};  ///< descriptors that take the argument; see holds(). Empty: all
  Presence presence = Presence::needed;
  std::string_view standard = {};        ///< the meaning of leaving an optional argument out: "all tokens"
  ArgumentMember unless_zero = {};       ///< an int32 or int64 member; a needed tensor may be NULL while it is 0
  bool is_checked_by_operator = false;   ///< PointerChecks leaves the pointer to the operator
  std::vector<StrideRule> strides = {};  ///< dimensions whose stride is free; every other dimension is dense
  /// Fields that name the type, "output|input": the first whose value is one of `types` counts. Empty: no field does.
  std::string_view type_fields = {};
  std::string_view usual = {};  ///< value of a number that a caller leaves out: "1 / sqrt(head_dim)"; empty: none

  /// Only descriptors for which `condition` holds take the argument.
  Argument with(std::string_view condition) &&;
  /// The argument may be left out, which means `meaning_of_none`.
  Argument optional(std::string_view meaning_of_none) &&;
  /// The pointer may be NULL while `number` is 0.
  Argument unless(const ArgumentMember& number) &&;
  Argument checked_by_operator() &&;
  /// The fields `names` decide the type.
  Argument typed_by(std::string_view names) &&;
  /// The dimensions that `sizes` lists, "batch|pages, tokens", have the strides in the consecutive `integers`.
  Argument strided(std::string_view sizes, const ArgumentMember& integers) &&;
  /// Callers that do not give the number mean `value`.
  Argument usually(std::string_view value) &&;
};

Argument input(std::string_view name, std::string_view types, std::vector<ShapeRule> shapes,
               const ArgumentMember& member, std::string_view meaning);
Argument output(std::string_view name, std::string_view types, std::vector<ShapeRule> shapes,
                const ArgumentMember& member, std::string_view meaning);
/// A tensor of the given kind.
Argument tensor(ArgumentKind kind, std::string_view name, std::string_view types, std::vector<ShapeRule> shapes,
                const ArgumentMember& member, std::string_view meaning);
Argument number(std::string_view name, std::string_view type, const ArgumentMember& member, std::string_view meaning);
/// A shape that every descriptor has.
std::vector<ShapeRule> shape(std::string_view text);

/// The arguments of one operator, in the order in which its problems list tensors.
struct ArgumentTable {
  std::string_view struct_name;  ///< "cubit_kv_append_arguments"
  std::size_t bytes = 0;         ///< sizeof the struct
  std::vector<Argument> arguments;

  /// Null if there is no argument of this name.
  const Argument* find(std::string_view name) const;
  /// Names of the tensors that a problem takes, and of the tensors that a launch writes. An updated tensor is in both.
  std::vector<std::string_view> input_names() const;
  std::vector<std::string_view> output_names() const;
};

/// A descriptor as its table of fields sees it, for conditions.
class FieldValues {
 public:
  /// `canonical` is the descriptor's text; both must outlive this object.
  FieldValues(std::span<const FieldHelp> fields, std::string_view canonical) : fields_(fields), text_(canonical) {}
  /// The value of a field: as the text has it, else the default. A default "as kv" or "head_dim" is the value of that
  /// field.
  std::string_view value(std::string_view field) const;

 private:
  std::span<const FieldHelp> fields_;
  std::string_view text_;
};

/// Whether a condition holds: "" always; "cache=paged" if the field has this value; "rotary=interleaved|half_split" if
/// the field has one of these values; "score=!none" if the field has any other value; "kv=int8_split,scales=group" if
/// both conditions hold.
bool holds(std::string_view when, const FieldValues& descriptor);
/// The condition in words: "rotary=interleaved or rotary=half_split".
std::string condition_text(std::string_view when);
/// The type of a tensor for a descriptor, or all its types where no field decides.
std::string_view type_of(const Argument& argument, const FieldValues& descriptor);
/// The shape of a tensor for a descriptor, "" of a number.
std::string_view shape_of(const Argument& argument, const FieldValues& descriptor);

/// One line per argument, for `cubit operators`.
std::string arguments_help(const ArgumentTable& table);

/// The pointers of an argument struct that a descriptor needs, and those that it does not take. Making the list costs a
/// walk over texts; checking it costs a comparison per pointer and allocates nothing.
class PointerChecks {
 public:
  /// Checks nothing.
  PointerChecks() = default;
  /// `canonical` is the text of a descriptor with these fields.
  PointerChecks(const ArgumentTable& table, std::span<const FieldHelp> fields, std::string_view canonical);
  /// `arguments` points to the struct. Throws Failure(invalid_argument) for a needed pointer that is NULL, and for a
  /// pointer that the descriptor does not take.
  void check(const void* arguments) const;

 private:
  struct Pointer {
    const Argument* argument;
    bool is_taken;
  };
  std::vector<Pointer> pointers_;
};

/// For table files: the member `m` of `Struct`, which is the type of that name where the macro is used.
#define CUBIT_MEMBER(m) \
  ::cubit::ops::ArgumentMember { #m, offsetof(Struct, m), sizeof(Struct{}.m) }

}  // namespace cubit::ops
